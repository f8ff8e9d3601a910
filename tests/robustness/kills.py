"""Processes that are killed again and again, and lose nothing: `python tests/robustness/kills.py --kills 1000`.

Three kinds of process take turns, each killed with SIGKILL and followed by another of its kind, which goes on with what is there:

a training   saves after every step, and turns its folder into a checkpoint at the end. It must equal the uninterrupted one byte for byte:
             weights, kept steps, log and card; until it is done, its log must be the beginning of the other's, and nothing half written.
a writer     saves a checkpoint over the last, with a step, puts another card on it, and loads it, over and over: what was saved last, or
             what was being saved, must load, and never anything older.
a reporter   writes a report on a checkpoint over the last report.

Most kills are aimed: the process says what it is doing (a phase below), and is killed within it.
"""

import json
import mmap
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Annotated, Any, ClassVar

import jax
import jax.random as jr
import numpy as np
import typer
from rich.progress import Progress

from iclzoo.inspect.checkpoint import Checkpoint
from iclzoo.inspect.instrument import INSTRUMENTS
from iclzoo.inspect.report import page as report
from iclzoo.train import run, run_folder
from iclzoo.train.optimiser import Adam
from iclzoo.train.recipes.recipe import Recipe
from iclzoo.train.run_folder import LOG_FILE, STATE_FILE, RunFolder
from iclzoo.train.schedule import Every
from iclzoo.train.tasks.regression import LinearRegression
from iclzoo.zoo.errors import NotACheckpointError
from iclzoo.zoo.factory import create, list_models
from iclzoo.zoo.storage import checkpoint, folders
from iclzoo.zoo.storage.card import Card
from iclzoo.zoo.storage.checkpoint import (
    CARD_FILE,
    MODEL_FILE,
    checkpoint_folder,
    load,
    read_card,
    read_tensors,
    step_file,
)
from iclzoo.zoo.storage.tensors import from_bytes

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
AIMED = 0.7  # the part of the kills that fall within a phase; the others come at any time of the process
PHASES = ("a state", "a row", "the finishing", "a save", "the clean-up", "a card", "a report")
LONGEST_PHASE = 0.004  # seconds after its beginning within which an aimed kill falls


class Child:
    """A process of its own. `phases` says what it is doing, or was when it ended; `done`, the last piece of work it has finished."""

    def __init__(self, work: Callable[["Child"], None], done: int = 0):
        # Forked before JAX has started anything, so that each child pays for its compilations alone, and finds them in the cache.
        self._shared = mmap.mmap(-1, 16)
        self.done = done
        self.pid = os.fork()
        if not self.pid:
            status = 1
            try:
                work(self)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)

    @property
    def done(self) -> int:
        return int.from_bytes(self._shared[8:16], "little")

    @done.setter
    def done(self, number: int) -> None:
        self._shared[8:16] = number.to_bytes(8, "little")

    @property
    def phases(self) -> list[str]:
        return [phase for index, phase in enumerate(PHASES) if self._shared[0] >> index & 1]

    def marked(self, owner: Any, name: str, phase: str) -> None:
        """From now on, a function says while it works that the process is in this phase."""
        function, bit = getattr(owner, name), 1 << PHASES.index(phase)

        def work(*arguments: Any, **options: Any) -> Any:
            self._shared[0] |= bit
            result = function(*arguments, **options)
            self._shared[0] &= ~bit
            return result

        setattr(owner, name, work)

    def ended(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Whether it comes to its end within some seconds. **Raises** `AssertionError` if that is not a good one."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not until():
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                assert status == 0, f"a process failed with status {os.waitstatus_to_exitcode(status)}"
                return True
            time.sleep(0.0001)
        return False

    def kill(self) -> list[str]:
        """Kill it; what it was doing then."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return self.phases


class Victim:
    """Interface: one kind of process, in a folder of its own, and what must hold after each kill."""

    aims: ClassVar[tuple[str, ...]]

    def __init__(self, folder: Path, cache: Path):
        self.folder, self.cache, self.done = folder, cache, 0
        self.seconds = 4.0  # within which a kill at any time falls

    def work(self, child: Child) -> None:
        """What the process does."""
        jax.config.update("jax_compilation_cache_dir", str(self.cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        self.act(child)

    @abstractmethod
    def act(self, child: Child) -> None: ...

    @abstractmethod
    def check(self) -> None:
        """**Raises** `AssertionError` if a killed process lost or spoilt anything."""

    def ends_well(self) -> None:
        """**Raises** `AssertionError` if the end of a process is not as it should be."""

    def life(self, random: Random, may_kill: Callable[[], bool]) -> Counter[str]:
        """One process: killed, if that is still allowed, or let to its end; counts what happened."""
        child, seen = Child(self.work, self.done), Counter[str]()
        if random.random() < AIMED:
            aim = random.choice(self.aims)
            ended = child.ended(60, until=lambda: aim in child.phases)
            time.sleep(random.choice((0.0, random.uniform(0, LONGEST_PHASE))))
        else:
            ended = child.ended(random.uniform(0, self.seconds))
        if ended or not may_kill():
            assert ended or child.ended(600)
            self.ends_well()
            return Counter({f"ends of {type(self).__name__.lower()}": 1})
        seen["kills"] += 1
        seen.update(f"in {phase}" for phase in child.kill())
        self.done = child.done
        self.check()
        return seen


class Training(Victim):
    aims = ("a state", "a row", "the finishing")
    reference: ClassVar[dict[str, bytes]]  # the files of the uninterrupted run

    def act(self, child: Child) -> None:
        run.SAVE_SECONDS = run.UPDATE_SECONDS = 0.0
        run.EVALUATION_TASKS = 100
        child.marked(run_folder, "write_atomically", "a state")
        child.marked(RunFolder, "append", "a row")
        child.marked(RunFolder, "finish", "the finishing")
        run.fit(RECIPE, self.folder, resume=True, progress=False)

    def ends_well(self) -> None:
        assert contents(self.folder) == self.reference, f"{self.folder} is not the uninterrupted run"
        no_leftovers(self.folder)
        shutil.rmtree(self.folder)

    def check(self) -> None:
        folder, found = self.folder, contents(self.folder)
        for name in found.keys() - {STATE_FILE, LOG_FILE}:
            assert found[name] == self.reference.get(name), f"{folder / name} is not that of the uninterrupted run"
        log = found.get(LOG_FILE, b"")
        assert self.reference[LOG_FILE].startswith(log), f"{folder / LOG_FILE} is not the beginning of the log"
        if STATE_FILE in found:
            step = int(from_bytes(found[STATE_FILE])["step"])
            if step:
                assert log.count(b"\n") >= sum(at <= step for at in LOG_STEPS), f"{folder / LOG_FILE} lacks rows"
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


class Writer(Victim):
    aims = ("a save", "the clean-up", "a card")

    @property
    def place(self) -> Path:
        return self.folder / "checkpoint"

    def act(self, child: Child) -> None:
        child.marked(folders.FolderKind, "replace", "a save")
        child.marked(folders.FolderKind, "discard", "the clean-up")
        child.marked(checkpoint, "write_card", "a card")
        model = create("lsa", key=jr.key(0), input_dim=3)
        for number in range(child.done + 1, child.done + 200):
            weights = jax.tree.map(lambda array, number=number: np.full(array.shape, number, np.float32), model)
            checkpoint.save(
                self.place,
                weights,
                Card(description=f"{number}"),
                steps={number: weights},
                overwrite=self.place.exists(),
            )
            child.done = number
            assert float(load(self.place).attention.W_K.max()) == number
            assert [entry.name for entry in self.folder.iterdir()] == [self.place.name], "something was left beside it"
            checkpoint.write_card(self.place, replace(read_card(self.place), description=f"{number}, measured"))

    def check(self) -> None:
        if not self.done and not self.place.exists():
            return
        card = read_card(self.place)
        (step,) = card.steps
        assert step in (self.done, self.done + 1), f"{self.place} holds {step}, but {self.done} was saved"
        assert card.description in (f"{step}", f"{step}, measured")
        for file in card.files:
            for array in read_tensors(self.place, file, card).values():
                assert (array == step).all(), f"{self.place} mixes two checkpoints"
        visible = [entry.name for entry in self.folder.iterdir() if not entry.name.startswith(".")]
        assert visible == [self.place.name], f"{visible} lie in {self.folder}"
        self.done = step


class Reporter(Victim):
    aims = ("a report",)

    def act(self, child: Child) -> None:
        child.marked(report, "write_report", "a report")
        for _ in range(5):
            report.write_report(Checkpoint("lsa-fast"), self.folder, [INSTRUMENTS["metrics"]])
        no_leftovers(self.folder)

    def check(self) -> None:
        page, numbers = self.folder / "index.html", self.folder / "numbers" / "metrics.json"
        assert not page.exists() or page.read_text("utf-8").rstrip().endswith("</html>"), f"{page} is half written"
        assert not numbers.exists() or json.loads(numbers.read_bytes())["about"]["learner"] == "lsa-fast"


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a run, but for hidden ones."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def no_leftovers(folder: Path) -> None:
    left = [path.name for path in folder.rglob("*.unfinished")]
    assert not left, f"{folder} holds what a killed process left: {left}"


def work(folder: Path, worker: int, seed: int) -> Counter[str]:
    """Processes one after the other, until all kills are done; then each kind comes to its end once."""
    random, seen = Random(f"{seed} {worker}"), Counter[str]()
    victims = [kind(folder / f"{kind.__name__} {worker}", folder / "cache") for kind in (Training, Writer, Reporter)]
    while _tickets.value > 0:
        seen += random.choice(victims).life(random, take_ticket)
    for victim in victims:
        seen += victim.life(random, take_ticket)
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
    kills: Annotated[int, typer.Option(min=1, help="how many")] = 1000,
    workers: Annotated[int, typer.Option(min=1, help="processes at a time")] = os.cpu_count() or 1,
    seed: Annotated[int, typer.Option(help="of the moments")] = 0,
) -> None:
    """Kill processes; exit with 1 if any loses anything."""
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    list_models()  # imported here once, not by every child: all work by the same code
    uninterrupted = Training(folder / "reference", folder / "cache")
    for _ in range(2):  # the first fills the cache
        assert Child(uninterrupted.work).ended(600)
        Training.reference = contents(uninterrupted.folder)
        shutil.rmtree(uninterrupted.folder)
    context = multiprocessing.get_context("fork")
    tickets = context.Value("i", kills)
    with ProcessPoolExecutor(workers, context, share, (tickets,)) as pool, Progress() as bar:
        task = bar.add_task("killing", total=kills)
        waiting: set[Future[Counter[str]]] = {pool.submit(work, folder, worker, seed) for worker in range(workers)}
        done: set[Future[Counter[str]]] = set()
        while waiting:
            finished, waiting = wait(waiting, timeout=0.5)
            done |= finished
            bar.update(task, completed=kills - max(0, tickets.value))
    seen, lost = Counter[str](), 0
    for future in done:
        if error := future.exception():
            print(f"lost: {error} (the folder {folder} is kept)", file=sys.stderr)
            lost += 1
        else:
            seen += future.result()
    phases = ", ".join(f"{seen[f'in {phase}']} in {phase}" for phase in PHASES)
    ends = ", ".join(f"{seen[name]} {name}" for name in sorted(seen) if name.startswith("ends"))
    print(f"{seen['kills']} kills ({phases}); {ends}; {lost} lost")
    if lost:
        raise typer.Exit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    typer.run(main)
