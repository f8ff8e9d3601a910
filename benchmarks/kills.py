"""A training that is killed again and again, and loses nothing: `python benchmarks/kills.py --kills 500`.

A child process trains, saving after every step; SIGKILL ends it at a random moment, and the next child goes on. After each kill the
run's folder must hold nothing that is half written, no checkpoint before the run is done, and a log that is the beginning of the
uninterrupted run's. A run that gets to its end must equal the uninterrupted one byte for byte: weights, kept steps, log and card.
"""

import mmap
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, wait
from pathlib import Path
from random import Random
from typing import Annotated, Any

import jax
import typer
from rich.progress import Progress

from iclzoo.train import run, run_folder
from iclzoo.train.optimiser import Adam
from iclzoo.train.recipe import Recipe
from iclzoo.train.run_folder import LOG_FILE, STATE_FILE, RunFolder
from iclzoo.train.schedule import Every
from iclzoo.train.tasks import LinearRegression
from iclzoo.zoo.checkpoint import CARD_FILE, MODEL_FILE, checkpoint_folder, read_card, read_tensors, step_file
from iclzoo.zoo.errors import NotACheckpointError
from iclzoo.zoo.registry import list_models
from iclzoo.zoo.tensors import from_bytes

RECIPE = Recipe(
    name="killed",
    model="lsa",
    hyperparameters={"input_dim": 3, "init_scale": 0.2},
    task=LinearRegression(input_dim=3, num_examples=5),
    optimiser=Adam(learning_rate=0.05),
    batch_size=16,
    num_steps=300,
    log=Every(5),
    keep=Every(10),
)
LOG_STEPS, KEEP_STEPS = (schedule.steps(RECIPE.num_steps) for schedule in (RECIPE.log, RECIPE.keep))
ANYWHERE = (
    0.2  # the part of the kills that may come at any time from the start of the process; the rest fall while it trains
)
PART = 4  # those fall within this part of a training after its first step: a quarter


class Child:
    """A process of its own that trains in a folder; `writing` says whether it is inside a write, or was when it ended."""

    def __init__(self, folder: Path, cache: Path):
        # Forked before JAX has started anything, so that each child pays for its compilations alone, and finds them in the cache.
        self._writing = mmap.mmap(-1, 1)
        self.pid = os.fork()
        if not self.pid:
            status = 1
            try:
                self._train(folder, cache)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)

    def _train(self, folder: Path, cache: Path) -> None:
        jax.config.update("jax_compilation_cache_dir", str(cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        run.SAVE_SECONDS = run.UPDATE_SECONDS = 0.0
        run.EVALUATION_TASKS = 100
        run_folder.write_atomically = self._marked(run_folder.write_atomically)
        RunFolder.append = self._marked(RunFolder.append)
        run.fit(RECIPE, folder, resume=True, progress=False)

    def _marked(self, write: Callable[..., None]) -> Callable[..., None]:
        def marked(*arguments: Any) -> None:
            self._writing[0] = 1
            write(*arguments)
            self._writing[0] = 0

        return marked

    @property
    def writing(self) -> bool:
        return bool(self._writing[0])

    def ended(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Whether it comes to its end within some seconds. **Raises** `AssertionError` if that is not a good one."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not until():
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                assert status == 0, f"the training failed with status {os.waitstatus_to_exitcode(status)}"
                return True
            time.sleep(0.0005)
        return False

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class Killer:
    """Runs that are killed, each beside the `reference`: the files of the uninterrupted run."""

    def __init__(self, work: Path, cache: Path):
        self.work, self.cache = work, cache
        list_models()  # imported here once, not by every child: all train by the same code
        assert Child(work / "reference", cache).ended(600)  # this one fills the cache
        shutil.rmtree(work / "reference")
        began = time.monotonic()
        child = Child(work / "reference", cache)
        assert not child.ended(600, until=lambda: (work / "reference" / step_file(KEEP_STEPS[1])).exists())
        started = time.monotonic()
        assert child.ended(600)
        self.starting, self.training = started - began, time.monotonic() - started
        self.reference = contents(work / "reference")

    def run(self, name: str, random: Random, may_kill: Callable[[], bool]) -> Counter[str]:
        """One run, killed as often as `may_kill` allows until it comes to its end; counts what happened."""
        folder, seen = self.work / name, Counter()
        while not self.lived(folder, random, seen, may_kill):
            self.check(folder)
        assert contents(folder) == self.reference, f"{folder} is not the uninterrupted run"
        assert not list(folder.rglob("*.unfinished")), f"{folder} holds what a killed process left"
        shutil.rmtree(folder)
        seen["runs"] += 1
        return seen

    def lived(self, folder: Path, random: Random, seen: Counter[str], may_kill: Callable[[], bool]) -> bool:
        """Let a child train, and perhaps kill it; whether it came to its end."""
        before = state_of(folder)
        child = Child(folder, self.cache)
        if random.random() < ANYWHERE:
            ended = child.ended(random.uniform(0, self.starting + self.training))
        else:
            ended = child.ended(600, until=lambda: state_of(folder) != before) or child.ended(
                random.uniform(0, self.training / PART)
            )
        if ended or not may_kill():
            return ended or child.ended(600)
        child.kill()
        seen["kills"] += 1
        seen["writing"] += child.writing
        seen["before any step"] += state_of(folder) == before
        return False

    def check(self, folder: Path) -> None:
        """**Raises** `AssertionError` if a killed run lost or spoilt anything."""
        found = contents(folder)
        for name in found.keys() - {STATE_FILE, LOG_FILE}:
            assert found[name] == self.reference.get(name), f"{folder / name} is not that of the uninterrupted run"
        log = found.get(LOG_FILE, b"")
        assert self.reference[LOG_FILE].startswith(log), f"{folder / LOG_FILE} is not the beginning of the log"
        if STATE_FILE in found:
            step = int(from_bytes(found[STATE_FILE])["step"])
            if step:
                assert log.count(b"\n") >= sum(logged <= step for logged in LOG_STEPS), (
                    f"{folder / LOG_FILE} lacks rows"
                )
            for kept in KEEP_STEPS:
                assert not 0 < kept <= step or step_file(kept) in found, f"{folder} lacks step {kept}"
        if CARD_FILE in found:
            card = read_card(folder)
            assert card.files.keys() == {MODEL_FILE, *map(step_file, KEEP_STEPS)}
            for name in card.files:
                read_tensors(folder, name, card)
        elif folder.exists():
            try:
                checkpoint_folder(folder)
            except NotACheckpointError:
                return
            raise AssertionError(f"{folder} passes for a checkpoint")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a run, but for hidden ones."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def state_of(folder: Path) -> int:
    """What changes when the state is saved."""
    path = folder / STATE_FILE
    return path.stat().st_mtime_ns if path.exists() else 0


def work(killer: Killer, worker: int, seed: int) -> Counter[str]:
    """Runs one after the other, until all kills are done."""
    random, seen, number = Random(f"{seed} {worker}"), Counter(), 0
    while _tickets.value > 0:
        seen += killer.run(f"worker {worker} run {number}", random, take_ticket)
        number += 1
    return seen


def take_ticket() -> bool:
    with _tickets.get_lock():
        _tickets.value -= 1
        return _tickets.value >= 0


def share(tickets: Any) -> None:
    """Give a worker the kills that all of them share."""
    global _tickets
    _tickets = tickets


def main(
    kills: Annotated[int, typer.Option(min=1, help="how many")] = 500,
    workers: Annotated[int, typer.Option(min=1, help="runs at a time")] = os.cpu_count() or 1,
    seed: Annotated[int, typer.Option(help="of the moments")] = 0,
) -> None:
    """Kill trainings; exit with 1 if any loses anything."""
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    killer = Killer(folder, folder / "cache")
    context = multiprocessing.get_context("fork")
    tickets = context.Value("i", kills)
    with ProcessPoolExecutor(workers, context, share, (tickets,)) as pool, Progress() as bar:
        task = bar.add_task("killing", total=kills)
        waiting: set[Future[Counter[str]]] = {pool.submit(work, killer, worker, seed) for worker in range(workers)}
        done: set[Future[Counter[str]]] = set()
        while waiting:
            finished, waiting = wait(waiting, timeout=0.5)
            done |= finished
            bar.update(task, completed=kills - max(0, tickets.value))
    seen, lost = Counter(), 0
    for future in done:
        if error := future.exception():
            print(f"lost: {error} (the folder is kept)", file=sys.stderr)
            lost += 1
        else:
            seen += future.result()
    print(
        f"{seen['kills']} kills, {seen['writing']} of them inside a write, {seen['before any step']} before the first save of a process; "
        f"{seen['runs']} runs came to their end, each equal to the uninterrupted one byte for byte; {lost} lost"
    )
    if lost:
        raise typer.Exit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    typer.run(main)
