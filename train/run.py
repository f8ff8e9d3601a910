"""Training by a recipe: in memory, or as a run on disk that can be killed at any moment and resumed bit for bit."""

import math
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import equinox as eqx
import jax
import jax.random as jr
import numpy as np

from ..zoo.checks import values as checks
from ..zoo.checks.gate import gated
from ..zoo.determinism import fixed_settings, key_of
from ..zoo.errors import ConfigError, RunError, said_by
from ..zoo.frozen import trainable
from ..zoo.prompt import Learner
from ..zoo.storage.config import to_config
from ..zoo.storage.files import located
from .devices import Device, Team, first_devices
from .loop import MAX_STEPS, Advance, State, compile_advance, start
from .losses import over_tasks, squared_error
from .progress import training_bar
from .recipes.recipe import Recipe
from .run_folder import Fit, Row, RunFolder
from .stopping import Stop, stopping

Probe = Callable[[Learner], Mapping[str, float | None]]

EVALUATION_TASKS = 10_000
SAVE_SECONDS = 10.0
UPDATE_SECONDS = 0.5
TICK_SECONDS = 1e-3  # of a coarse clock
OWN_COLUMNS = {"step", "train_loss", "half_mse"}  # of the log


@gated
def fit(
    recipe: Recipe,
    folder: str | Path | None = None,
    *,
    probe: Probe = lambda learner: {},
    devices: Sequence[Device] | None = None,
    resume: bool = False,
    progress: bool = True,
) -> Fit:
    """Train by a recipe; with `folder`, as a run on disk that ends as a checkpoint.

    A row of the log holds the step, `train_loss` (of that step's batch), `half_mse` on `EVALUATION_TASKS` fixed tasks, and what
    `probe(model)` returns. With `resume`, a run that was cut short goes on from its last saved state; weights and log are those of a
    run that was never cut, bit for bit. Each batch is split between the `devices`, by default one, or those of all processes.

    **Raises** `RunError` if the folder is in use, holds a run and `resume` is not set, or holds a run of another recipe; and when the
    loss is no longer finite. Then, and on Ctrl-C and SIGTERM, which raise `KeyboardInterrupt` (see train/stopping.py), the last good
    state is saved first. `ConfigError` if a batch cannot be split evenly.
    """
    return _job(recipe, folder, probe, devices, resume, progress).run()


@gated
def fit_ensemble(
    recipe: Recipe,
    seeds: Sequence[int],
    folder: str | Path | None = None,
    *,
    probe: Probe = lambda learner: {},
    devices: Sequence[Device] | None = None,
    resume: bool = False,
    progress: bool = True,
) -> list[Fit]:
    """`fit` for each of several seeds, one after the other by one compiled program; in the order of `seeds`.

    With `folder`, the run of each is `seed-<seed>` within it. With `resume`, those that are done stay as they are.

    **Raises** what `fit` raises, `ArgumentError` for no seed or more than 1024, `ConfigError` for one that is given twice or out of range.
    """
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"an ensemble needs seeds that differ, got {list(seeds)}")
    job = _job(recipe, folder, probe, devices, resume, progress)
    jobs = [
        replace(job, recipe=replace(recipe, seed=seed), folder=job.folder and job.folder / f"seed-{seed}")
        for seed in seeds
    ]
    if job.folder is not None and job.team.leads:
        RunFolder(located(job.folder)).check_is_no_run()
        for one in jobs:
            RunFolder(located(one.folder or "")).holds_run(resume)
    return [one.run() for one in jobs]


@gated
def evaluate(learner: Learner, recipe: Recipe) -> float:
    """½·MSE on the recipe's `EVALUATION_TASKS` fixed tasks, which no training step draws."""
    with fixed_settings():
        key = jr.fold_in(key_of(recipe.seed), recipe.num_steps)
    return float(
        over_tasks(squared_error, learner, recipe.task.population, num_tasks=EVALUATION_TASKS, key=key).mean() / 2
    )


@dataclass(frozen=True)
class _Job:
    """A training to be done: its recipe, and all that it is done with."""

    recipe: Recipe
    folder: Path | None
    probe: Probe
    team: Team
    resume: bool
    progress: bool
    advance: Advance

    def run(self) -> Fit:
        with self.opened() as (disk, state):
            return _Training(self, state, disk).run()

    @contextmanager
    def opened(self) -> Iterator[tuple[RunFolder | None, State]]:
        """The run's folder, which the leading process alone has, and the state that all go on from."""
        if self.folder is None:
            yield None, start(self.recipe)
        elif not self.team.leads:
            yield None, self.team.agree(start(self.recipe))
        else:
            with RunFolder.opened(self.folder, self.recipe, resume=self.resume) as (disk, state):
                yield disk, self.team.agree(state)


def _job(
    recipe: Recipe,
    folder: str | Path | None,
    probe: Probe,
    devices: Sequence[Device] | None,
    resume: bool,
    progress: bool,
) -> _Job:
    team = Team(first_devices() if devices is None else tuple(devices))
    place = None if folder is None else Path(folder)
    return _Job(recipe, place, probe, team, resume, progress and team.leads, compile_advance(recipe, team))


class _Training:
    """One training on its way: the last good state, its log and the models kept."""

    def __init__(self, job: _Job, state: State, disk: RunFolder | None):
        self.job, self.recipe, self.state, self.disk = job, job.recipe, state, disk
        self.rows = list(disk.rows) if disk else []
        self.kept = dict(disk.kept) if disk else {}
        self.log_steps = set(self.recipe.log.steps(self.recipe.num_steps))
        self.keep_steps = set(self.recipe.keep.steps(self.recipe.num_steps))

    def run(self) -> Fit:
        recipe = self.recipe
        header = f"{recipe.name}: {to_config(recipe.optimiser)}, batch {recipe.batch_size}, seed {recipe.seed}"
        step = int(self.state.step)
        with (
            stopping(self.save) as stop,
            training_bar(recipe.name, recipe.num_steps, step, header=header, enabled=self.job.progress) as update,
        ):
            try:
                self.train(stop, update)
            except jax.errors.JaxRuntimeError as error:
                if jax.process_count() == 1:
                    raise
                raise RunError(
                    f"another process of this training has gone ({said_by(error)}); start all again with --resume (resume=True)"
                ) from None
            finally:  # whatever came, Ctrl-C among it: the last good state is not lost
                stop.save()
            fit = Fit(self.state.model, self.rows, self.kept)
            if self.disk:
                self.disk.finish(recipe, fit)
        return fit

    def train(self, stop: Stop, update: Callable[[int, float], None]) -> None:
        """Advance the state to the last step, with what the recipe asks for on the way.

        **Raises** `KeyboardInterrupt` where this process, or another one that takes part, is to stop.
        """
        recipe, step, chunk, saved_at = self.recipe, int(self.state.step), 1, time.monotonic()
        team, stops = self.job.team, sorted(self.log_steps | self.keep_steps)
        if step == 0:
            self.visit(self.state, 0, None)
        while step < recipe.num_steps:
            until, stopped = team.meet(min(step + chunk, stops[bisect_right(stops, step)]), stop.asked)
            if stopped:
                stop.settle()
                raise KeyboardInterrupt
            began = time.monotonic()
            state, losses = team.local(self.job.advance(self.state, until, recipe.seed))
            losses = np.asarray(losses)[: until - step]
            self.check_finite(losses, state, step)
            chunk = next_chunk(until - step, time.monotonic() - began)
            self.visit(state, until, float(losses[-1]))
            self.state, step = state, until
            update(step, float(losses[-1]))
            if time.monotonic() - saved_at > SAVE_SECONDS:
                stop.save()
                saved_at = time.monotonic()

    def visit(self, state: State, step: int, train_loss: float | None) -> None:
        """Log and keep what the recipe asks for at a step, before the state moves there."""
        if step in self.log_steps:
            row = self.measure(state.model, step, train_loss)
            self.rows.append(row)
            if self.disk:
                self.disk.append(row)
        if step in self.keep_steps:
            self.kept[step] = state.model
            if self.disk:
                self.disk.keep(step, state.model)

    def measure(self, model: Any, step: int, train_loss: float | None) -> Row:
        """A row of the log."""
        half_mse = evaluate(model, self.recipe)
        if not math.isfinite(half_mse):
            self.stop("half-MSE", step)
        return {
            "step": step,
            "train_loss": train_loss,
            "half_mse": half_mse,
            **checked_columns(self.job.probe(model)),
        }

    def check_finite(self, losses: np.ndarray, state: State, step: int) -> None:
        """**Raises** `RunError` if the losses after `step`, or the state they lead to, are no longer finite."""
        finite = np.isfinite(losses)
        if not finite.all():
            self.stop("loss", step + 1 + int(np.argmin(finite)))
        learned = eqx.filter(state.model, trainable(state.model))
        if not all(np.isfinite(array).all() for array in jax.tree.leaves(learned)):
            self.stop("model", step + len(losses))

    def stop(self, what: str, step: int) -> NoReturn:
        raise RunError(
            f"the {what} of {self.recipe.name} is not finite at step {step}; the state of step {int(self.state.step)} is kept. "
            "Try a smaller learning_rate, a smaller clip_norm or more warmup_steps"
        )

    def save(self) -> None:
        if self.disk:
            self.disk.save(self.state)


def checked_columns(probed: Any) -> Row:
    """What a probe gives, as the log holds it: numbers by name, `None` where they are undefined or not finite.

    **Raises** `ConfigError` for anything else, and for a name that is the log's own.
    """
    if not isinstance(probed, Mapping):
        raise ConfigError(f"a probe must give a mapping from names to numbers, got {checks.shown(probed)}")
    columns: Row = {}
    for name, value in probed.items():
        if not isinstance(name, str) or name in OWN_COLUMNS:
            raise ConfigError(
                f"a probe must name its numbers otherwise than {', '.join(sorted(OWN_COLUMNS))}, got {name!r:.60}"
            )
        undefined = value is None or (isinstance(value, float | np.floating) and not math.isfinite(value))
        columns[name] = None if undefined else checks.Real()(f"the number {name!r:.60} of a probe", value)
    return columns


def next_chunk(num_steps: int, seconds: float) -> int:
    """How many steps to take at once, after so many took so long: about `UPDATE_SECONDS` of them, no time being measurable or not."""
    return min(MAX_STEPS, 1 + int(UPDATE_SECONDS * num_steps / max(seconds, TICK_SECONDS)))
