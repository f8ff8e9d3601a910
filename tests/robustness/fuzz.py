"""Damaged checkpoints by the hundred thousand: `python tests/robustness/fuzz.py --files 100000`.

Each seed makes one damaged checkpoint (see `damage.py`), which is then loaded and verified. It must load as what its files hold, or
be refused with a `CheckpointError` of one line that names the path. It must not crash, hang, run anything, open anything but its own
files, write, or take memory that the files do not account for. A failure prints the seed that makes it again.
"""

import hashlib
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Annotated, Any

import jax
import typer
from damage import Files, damage
from rich.progress import Progress

from iclzoo.inspect.verify import verify
from iclzoo.train.loop import initial_model
from iclzoo.train.recipes.recipe import Recipe
from iclzoo.train.tasks.regression import LinearRegression
from iclzoo.zoo.errors import CheckpointError
from iclzoo.zoo.storage.card import Card, library_versions
from iclzoo.zoo.storage.checkpoint import CARD_FILE, MODEL_FILE, load, save
from iclzoo.zoo.storage.config import to_config
from iclzoo.zoo.storage.tensors import from_bytes, named_arrays

MEBIBYTE = 2**20
MEMORY = 32 * MEBIBYTE  # what a file of some kilobytes may cost at most
SECONDS = 20.0  # of the processor, what it may take at most: other processes do not count
LONGEST_MESSAGE = 4000
CHUNK = 500
VERIFIED = 25  # one in so many is verified, which takes longer

SMALL = Recipe(name="small", model="lsa", task=LinearRegression(input_dim=3, num_examples=5), batch_size=4, num_steps=2)
RECIPES = [
    Recipe(**(vars(SMALL) | {"model": model, "hyperparameters": {"input_dim": 3} | hyperparameters}))
    for model, hyperparameters in (
        ("lsa", {}),
        ("recurrent_lsa", {"num_loops": 3}),
        ("deep_lsa", {"num_layers": 2, "clip": 10.0}),
        ("transformer", {"num_layers": 1, "embed_dim": 5, "num_heads": 1, "head_dim": 2, "widening_factor": 2}),
    )
]

# Events of the interpreter that no reading of a checkpoint may cause.
FORBIDDEN = (
    *(
        "os.system",
        "os.exec",
        "os.fork",
        "os.posix_spawn",
        "os.spawn",
        "subprocess.Popen",
        "pickle.find_class",
        "socket.",
    ),
    *(
        "os.remove",
        "os.rename",
        "os.mkdir",
        "os.rmdir",
        "os.link",
        "os.symlink",
        "os.chmod",
        "os.truncate",
        "shutil.",
        "tempfile.",
    ),
)


class Watch:
    """The audit hook of this process: while a folder is watched, what is done elsewhere is noted."""

    def __init__(self):
        self.folder: str | None = None
        self.seen: list[str] = []
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None:
            return
        if event == "open":
            path, _, flags = arguments
            inside = isinstance(path, str) and os.path.dirname(path).startswith(self.folder)
            source = str(path).endswith((".py", ".pyc"))  # a module imported late, or a line for a traceback
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) or not (inside or source):
                self.seen.append(f"open {path!r}")
        elif event.startswith(FORBIDDEN):
            self.seen.append(f"{event} {arguments!r:.200}")

    @contextmanager
    def watching(self, folder: Path) -> Iterator[None]:
        self.folder, self.seen = str(folder), []
        try:
            yield
        finally:
            self.folder = None
        assert not self.seen, f"it did what no reading may do: {self.seen}"


class TooSlowError(BaseException):
    """Not an `Exception`, so that nothing takes it for an error of the checkpoint."""


def intact_checkpoints(folder: Path) -> list[Files]:
    """Small checkpoints, as a training would write them: the content of every file."""
    contents = []
    for number, recipe in enumerate(RECIPES):
        start = initial_model(recipe)
        end = jax.tree.map(lambda array: array + 1, start)
        card = Card(task=to_config(recipe.task), training=to_config(recipe))
        path = save(folder / str(number), end, card, steps={0: start, recipe.num_steps: end})
        files = (file for file in path.rglob("*") if file.is_file())
        contents.append({str(file.relative_to(path)): file.read_bytes() for file in files})
    return contents


def write(files: Files, folder: Path, present: Files) -> None:
    """Write the files that differ from those already there."""
    (folder / "steps").mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        if present.get(name) != data:
            (folder / name).write_bytes(data)


def examine(folder: Path, files: Files, *, verified: bool) -> str:
    """What loading a checkpoint comes to, "loaded" or the name of the error. **Raises** `AssertionError` if it is neither.

    With `verified`, what verifying it says is examined too.
    """
    outcome = "loaded"
    try:
        model = load(folder)
        read = {
            name: (array.shape, array.dtype, array.tobytes()) for name, array in from_bytes(files[MODEL_FILE]).items()
        }
        held = {
            name: (array.shape, array.dtype, jax.device_get(array).tobytes())
            for name, array in named_arrays(model).items()
        }
        assert held == read, "it loaded as something else than its file holds"
        assert hashlib.sha256(files[MODEL_FILE]).hexdigest() in files[CARD_FILE].decode(), "it loaded against its hash"
    except CheckpointError as error:
        outcome = check_error(error, folder)
    try:
        for check in verify(folder, metrics=False) if verified else ():
            assert outcome == "loaded" or not (check.what == "tensors" and check.passed), (
                f"it is {outcome}, yet verified"
            )
            assert len(check.detail) < LONGEST_MESSAGE, f"a message of {len(check.detail)} characters"
    except CheckpointError as error:
        check_error(error, folder)
    return outcome


def check_error(error: CheckpointError, folder: Path) -> str:
    message = str(error)
    assert str(folder) in message, f"the message does not name the path: {message}"
    assert len(message) < LONGEST_MESSAGE, f"a message of {len(message)} characters"
    assert message.isprintable(), f"the message is not one line of text: {message!r}"
    cause: BaseException | None = error
    while cause is not None:
        assert not isinstance(cause, MemoryError), "it asked for more memory than there is"
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__


def fuzz(first: int, count: int, intact: list[Files], watch: Watch) -> tuple[Counter[str], list[tuple[int, str]]]:
    """How often each outcome came, over `count` seeds from `first`, and the seeds that failed with the traceback of each."""
    outcomes, failures, present = Counter(), [], {}
    with tempfile.TemporaryDirectory() as outside:
        folder = Path(outside).resolve() / "checkpoint"
        for seed in range(first, first + count):
            before = _peak_memory()
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                files = damage(intact[seed % len(intact)], Random(seed))
                write(files, folder, present)
                present = files
                verified = seed % VERIFIED == 0
                with watch.watching(folder):
                    outcome = examine(folder, files, verified=verified)
                if _peak_memory() - before > MEMORY:
                    check_memory(folder, files, verified)
                outcomes[outcome] += 1
            except (Exception, TooSlowError):
                failures.append((seed, traceback.format_exc()))
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        strangers = {entry.name for entry in folder.parent.iterdir()} - {"checkpoint"}
        assert not strangers, f"files appeared outside the folder: {strangers}"
    return outcomes, failures


def check_memory(folder: Path, files: Files, verified: bool) -> None:
    """**Raises** `AssertionError` if reading these files takes much memory a second time, when the libraries keep no more of it."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak is from here on
    before = _peak_memory()
    examine(folder, files, verified=verified)
    grown = _peak_memory() - before
    assert grown < MEMORY, f"it took {grown / MEBIBYTE:.0f} MiB for files of {sum(map(len, files.values()))} bytes"


def _peak_memory() -> int:
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) * 1024


def start_worker(intact: list[Files]) -> None:
    """Prepare a process: the watch, the alarm, a limit on its memory, and one reading of everything that is read once."""
    global _watch, _intact
    _watch, _intact = Watch(), intact
    signal.signal(signal.SIGPROF, _too_slow)
    library_versions()
    fuzz(0, 40, intact, _watch)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 1024 * MEBIBYTE, resource.RLIM_INFINITY))


def work(first: int, count: int) -> tuple[Counter[str], list[tuple[int, str]]]:
    return fuzz(first, count, _intact, _watch)


def _too_slow(*_: Any) -> None:
    raise TooSlowError(f"more than {SECONDS} s")


def main(
    files: Annotated[int, typer.Option(min=1, help="damaged checkpoints to read")] = 100_000,
    first: Annotated[int, typer.Option(min=0, help="the first seed")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="processes")] = os.cpu_count() or 1,
) -> None:
    """Read damaged checkpoints; exit with 1 if any is not refused properly."""
    with tempfile.TemporaryDirectory() as folder:
        intact = intact_checkpoints(Path(folder))
    outcomes, failed = Counter(), 0
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(workers, context, start_worker, (intact,)) as pool,
        Progress(*Progress.get_default_columns(), "{task.completed:,} files") as bar,
    ):
        task = bar.add_task("reading", total=files)
        chunks = {
            pool.submit(work, seed, min(CHUNK, first + files - seed)): seed
            for seed in range(first, first + files, CHUNK)
        }
        for chunk in as_completed(chunks):
            try:
                counted, failures = chunk.result()
            except BrokenProcessPool:
                bar.console.print(
                    f"a process died among the seeds from {chunks[chunk]}: --first {chunks[chunk]} --files {CHUNK}"
                )
                raise typer.Exit(1) from None
            for seed, report in failures:
                bar.console.print(f"seed {seed} (--first {seed} --files 1):\n{report}", markup=False, highlight=False)
            failed += len(failures)
            outcomes += counted
            bar.advance(task, counted.total() + len(failures))
    print(", ".join(f"{outcome} {count:,}" for outcome, count in outcomes.most_common()))
    print(f"{files:,} damaged checkpoints read: {failed} failures")
    raise typer.Exit(failed > 0)


if __name__ == "__main__":
    typer.run(main)
