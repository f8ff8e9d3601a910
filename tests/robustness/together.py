"""Readers beside a writer: `python tests/robustness/together.py --reads 10000 --overwrites 1000`.

One process saves a checkpoint over the last, again and again, while others load it: each load must give the weights of one save, none
older than one that an earlier load gave, and no save may fail. Both sides go on until both numbers are reached.
"""

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.random as jr
import numpy as np
import typer

from iclzoo.zoo.factory import create
from iclzoo.zoo.storage.checkpoint import load, read_card, save


def write(folder: Path, least: int, counts: Any) -> None:
    """Save over the last checkpoint until there are `least` saves, and the readers have what they want."""
    model = create("lsa", key=jr.key(0), input_dim=3)
    while (counts["saves"].value < least or counts["wanted"].value > 0) and not counts["failed"].is_set():
        number = counts["saves"].value + 1
        weights = jax.tree.map(lambda array, number=number: np.full(array.shape, number, np.float32), model)
        save(folder, weights, steps={number: weights}, overwrite=number > 1)
        counts["saves"].value = number


def read(folder: Path, least_saves: int, counts: Any) -> None:
    """Load the checkpoint until there are enough loads, and enough saves."""
    last = 0.0
    while (counts["wanted"].value > 0 or counts["saves"].value < least_saves) and not counts["failed"].is_set():
        arrays = {float(value) for array in jax.tree.leaves(load(folder)) for value in np.unique(array)}
        assert len(arrays) == 1, f"a load mixes the saves {arrays}"
        (number,) = arrays
        assert number >= last, f"save {number} came after save {last}"
        assert read_card(folder).steps[0] >= number
        last = number
        with counts["wanted"].get_lock():
            counts["wanted"].value -= 1


def until_failure(work: Callable[..., None], folder: Path, saves: int, counts: Any) -> None:
    """Let a process work; if it fails, all end."""
    try:
        work(folder, saves, counts)
    except BaseException:
        counts["failed"].set()
        raise


def main(
    reads: Annotated[int, typer.Option(min=1, help="loads, by all readers together")] = 10_000,
    overwrites: Annotated[int, typer.Option(min=1, help="saves")] = 1_000,
    readers: Annotated[int, typer.Option(min=1, help="processes that load")] = max(2, os.cpu_count() or 2),
) -> None:
    """Read beside a writer; exit with 1 if anything fails on either side."""
    context = multiprocessing.get_context("spawn")
    counts = {"saves": context.Value("q", 0), "wanted": context.Value("q", reads), "failed": context.Event()}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "checkpoint"
        write_first = context.Process(target=until_failure, args=(write, place, overwrites, counts))
        write_first.start()
        while not place.exists() and write_first.is_alive():
            write_first.join(0.01)
        processes = [
            context.Process(target=until_failure, args=(read, place, overwrites, counts)) for _ in range(readers)
        ]
        for process in processes:
            process.start()
        processes.append(write_first)
        for process in processes:
            process.join()
        left = [entry.name for entry in Path(folder).iterdir() if entry != place]
    failed = sum(process.exitcode != 0 for process in processes) + len(left)
    print(f"{reads - counts['wanted'].value:,} loads beside {counts['saves'].value:,} saves: {failed} failures")
    sys.exit(failed > 0)


if __name__ == "__main__":
    typer.run(main)
