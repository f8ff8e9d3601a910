"""Training by a recipe: in memory, or as a run on disk that can be killed at any moment and resumed bit for bit."""

import math
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from .devices import Device, Team, first_devices
from .loop import MAX_STEPS, State, compile_advance, member, members_of, start
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
OWN_COLUMNS = {"step", "seed", "train_loss", "half_mse"}  # of the log


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
    (only,) = _train(recipe, None, folder, probe, devices, resume, progress)
    return only


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
    """`fit` for each of several seeds, trained together by one compiled program, each bit for bit as by itself; in the order of `seeds`.

    With `folder`, each member ends as a checkpoint in `seed-<seed>` within it, as if it had been trained by itself.

    **Raises** what `fit` raises, `ArgumentError` for no seed or more than 1024, `ConfigError` for one that is given twice or out of range.
    """
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"an ensemble needs seeds that differ, got {list(seeds)}")
    return _train(recipe, tuple(seeds), folder, probe, devices, resume, progress)


@gated
def evaluate(learner: Learner, recipe: Recipe) -> float:
    """½·MSE on the recipe's `EVALUATION_TASKS` fixed tasks, which no training step draws."""
    with fixed_settings():
        key = jr.fold_in(key_of(recipe.seed), recipe.num_steps)
    return float(
        over_tasks(squared_error, learner, recipe.task.population, num_tasks=EVALUATION_TASKS, key=key).mean() / 2
    )


def _train(
    recipe: Recipe,
    seeds: tuple[int, ...] | None,
    folder: str | Path | None,
    probe: Probe,
    devices: Sequence[Device] | None,
    resume: bool,
    progress: bool,
) -> list[Fit]:
    team = Team(first_devices() if devices is None else tuple(devices))
    with _opened(recipe, seeds, folder, team, resume) as (disk, state):
        return _Training(recipe, seeds, state, disk, probe, team).run(progress and team.leads)


@contextmanager
def _opened(
    recipe: Recipe, seeds: tuple[int, ...] | None, folder: str | Path | None, team: Team, resume: bool
) -> Iterator[tuple[RunFolder | None, State]]:
    """The run's folder, which the leading process alone has, and the state that all go on from."""
    if folder is None or not team.leads:
        yield None, start(recipe, seeds) if folder is None else team.agree(start(recipe, seeds))
    else:
        with RunFolder.opened(Path(folder), recipe, seeds, resume=resume) as (disk, state):
            yield disk, team.agree(state)


class _Training:
    """One training on its way: the last good state, its log and the models kept; of every member, where it is an ensemble."""

    def __init__(
        self,
        recipe: Recipe,
        seeds: tuple[int, ...] | None,
        state: State,
        disk: RunFolder | None,
        probe: Probe,
        team: Team,
    ):
        self.recipe, self.seeds, self.state, self.disk, self.probe, self.team = recipe, seeds, state, disk, probe, team
        self.rows = list(disk.rows) if disk else []
        self.kept = dict(disk.kept) if disk else {}
        self.log_steps = set(recipe.log.steps(recipe.num_steps))
        self.keep_steps = set(recipe.keep.steps(recipe.num_steps))

    def run(self, progress: bool) -> list[Fit]:
        recipe = self.recipe
        who = f"seed {recipe.seed}" if self.seeds is None else f"seeds {', '.join(map(str, self.seeds))}"
        header = f"{recipe.name}: {to_config(recipe.optimiser)}, batch {recipe.batch_size}, {who}"
        step = int(self.state.step)
        with (
            stopping(self.save) as stop,
            training_bar(recipe.name, recipe.num_steps, step, header=header, enabled=progress) as update,
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
            fits = [
                Fit(model, [row for row in self.rows if row.get("seed") == seed], steps)
                for seed, model, steps in self.members()
            ]
            if self.disk:
                self.disk.finish(recipe, self.seeds, fits)
        return fits

    def train(self, stop: Stop, update: Callable[[int, float], None]) -> None:
        """Advance the state to the last step, with what the recipe asks for on the way.

        **Raises** `KeyboardInterrupt` where this process, or another one that takes part, is to stop.
        """
        recipe, step, chunk, saved_at = self.recipe, int(self.state.step), 1, time.monotonic()
        advance = compile_advance(recipe, self.team, self.seeds)
        stops = sorted(self.log_steps | self.keep_steps)
        if step == 0:
            self.visit(self.state, 0, None)
        while step < recipe.num_steps:
            until, stopped = self.team.meet(min(step + chunk, stops[bisect_right(stops, step)]), stop.asked)
            if stopped:
                stop.settle()
                raise KeyboardInterrupt
            began = time.monotonic()
            state, losses = self.team.local(advance(self.state, until))
            losses = np.asarray(losses)[: until - step]
            self.check_finite(losses, state, step)
            chunk = next_chunk(until - step, time.monotonic() - began)
            self.visit(state, until, np.asarray(losses[-1]))
            self.state, step = state, until
            update(step, float(losses[-1].mean()))
            if time.monotonic() - saved_at > SAVE_SECONDS:
                stop.save()
                saved_at = time.monotonic()

    def members(self) -> Iterator[tuple[int | None, Any, dict[int, Any]]]:
        """The seed of each member, its model and the models kept of it; one without a seed of its own where there is no ensemble."""
        if self.seeds is None:
            yield None, self.state.model, self.kept
        for index, seed in enumerate(self.seeds or ()):
            kept = {step: member(model, index) for step, model in self.kept.items()}
            yield seed, member(self.state.model, index), kept

    def visit(self, state: State, step: int, train_losses: np.ndarray | None) -> None:
        """Log and keep what the recipe asks for at a step, before the state moves there."""
        if step in self.log_steps:
            for row in self.measure(state, step, train_losses):
                self.rows.append(row)
                if self.disk:
                    self.disk.append(row)
        if step in self.keep_steps:
            self.kept[step] = state.model
            if self.disk:
                self.disk.keep(step, state.model)

    def measure(self, state: State, step: int, train_losses: np.ndarray | None) -> Iterator[Row]:
        """A row of the log for each member."""
        for index, recipe in enumerate(members_of(self.recipe, self.seeds)):
            model = state.model if self.seeds is None else member(state.model, index)
            half_mse = evaluate(model, recipe)
            if not math.isfinite(half_mse):
                self.stop("half-MSE", step)
            probed = checked_columns(self.probe(model))
            train_loss = None if train_losses is None else float(train_losses.reshape(-1)[index])
            seed = {} if self.seeds is None else {"seed": recipe.seed}
            yield {"step": step, **seed, "train_loss": train_loss, "half_mse": half_mse, **probed}

    def check_finite(self, losses: np.ndarray, state: State, step: int) -> None:
        """**Raises** `RunError` if the losses after `step`, or the state they lead to, are no longer finite."""
        finite = np.isfinite(losses).reshape(len(losses), -1).all(axis=1)
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
