"""Training by a recipe: in memory, or as a run on disk that can be killed at any moment and resumed bit for bit."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.random as jr
import numpy as np

from ..zoo.config import to_config
from ..zoo.errors import RunError
from ..zoo.prompt import Learner
from .loop import MAX_STEPS, State, compile_advance, start
from .losses import over_tasks, squared_error
from .progress import training_bar
from .recipe import Recipe
from .run_folder import Row, RunFolder

Probe = Callable[[Learner], Mapping[str, float | None]]

EVALUATION_TASKS = 10_000
SAVE_SECONDS = 10.0
UPDATE_SECONDS = 0.5


@dataclass(frozen=True)
class Fit:
    """What a training gives: the model, the log, and the model at the steps the recipe keeps."""

    model: Any
    log: list[Row]
    steps: dict[int, Any]


def fit(
    recipe: Recipe,
    folder: str | Path | None = None,
    *,
    probe: Probe = lambda learner: {},
    resume: bool = False,
    progress: bool = True,
) -> Fit:
    """Train by a recipe; with `folder`, as a run on disk that ends as a checkpoint.

    A row of the log holds the step, `train_loss` (of that step's batch), `half_mse` on `EVALUATION_TASKS` fixed tasks, and what
    `probe(model)` returns. With `resume`, a run that was cut short goes on from its last saved state; weights and log are those of a
    run that was never cut, bit for bit.

    **Raises** `RunError` if the folder is in use, holds a run and `resume` is not set, or holds a run of another recipe; and when the
    loss is no longer finite. Then, and on Ctrl-C, the last good state is saved first.
    """
    if folder is None:
        return _Training(recipe, start(recipe), None, probe).run(progress)
    with RunFolder.opened(Path(folder), recipe, resume=resume) as (disk, state):
        return _Training(recipe, state, disk, probe).run(progress)


def evaluate(learner: Learner, recipe: Recipe) -> float:
    """½·MSE on the recipe's `EVALUATION_TASKS` fixed tasks, which no training step draws."""
    key = jr.fold_in(jr.key(recipe.seed), recipe.num_steps)
    return float(over_tasks(squared_error, learner, recipe.task.fresh, num_tasks=EVALUATION_TASKS, key=key).mean() / 2)


class _Training:
    """One training on its way: the last good state, its log and the models kept."""

    def __init__(self, recipe: Recipe, state: State, disk: RunFolder | None, probe: Probe):
        self.recipe, self.state, self.disk, self.probe = recipe, state, disk, probe
        self.rows = disk.read_log() if disk else []
        self.kept = disk.read_steps(state.model) if disk else {}
        self.log_steps = set(recipe.log.steps(recipe.num_steps))
        self.keep_steps = set(recipe.keep.steps(recipe.num_steps))

    def run(self, progress: bool) -> Fit:
        recipe = self.recipe
        advance = compile_advance(recipe)
        stops = sorted(self.log_steps | self.keep_steps)
        step, saved_at, chunk = int(self.state.step), time.monotonic(), 1
        header = f"{recipe.name}: {to_config(recipe.optimiser)}, batch {recipe.batch_size}, seed {recipe.seed}"
        with training_bar(recipe.name, recipe.num_steps, step, header=header, enabled=progress) as update:
            try:
                if step == 0:
                    self.visit(self.state, 0, None)
                while step < recipe.num_steps:
                    until = min(step + chunk, *(stop for stop in stops if stop > step))
                    began = time.monotonic()
                    state, losses = advance(self.state, until)
                    losses = np.asarray(losses)[: until - step]
                    self.check_finite(losses, step)
                    chunk = min(MAX_STEPS, 1 + int(UPDATE_SECONDS * (until - step) / (time.monotonic() - began)))
                    self.visit(state, until, float(losses[-1]))
                    self.state, step = state, until
                    update(step, float(losses[-1]))
                    if time.monotonic() - saved_at > SAVE_SECONDS:
                        self.save()
                        saved_at = time.monotonic()
            except (KeyboardInterrupt, RunError):
                self.save()
                raise
        self.save()
        if self.disk:
            self.disk.finish(recipe, self.state.model, self.kept)
        return Fit(self.state.model, self.rows, self.kept)

    def visit(self, state: State, step: int, train_loss: float | None) -> None:
        """Log and keep what the recipe asks for at a step, before the state moves there."""
        if step in self.log_steps:
            half_mse = evaluate(state.model, self.recipe)
            row = {"step": step, "train_loss": train_loss, "half_mse": half_mse, **self.probe(state.model)}
            self.rows.append(row)
            if self.disk:
                self.disk.append(row)
        if step in self.keep_steps:
            self.kept[step] = state.model
            if self.disk:
                self.disk.keep(step, state.model)

    def check_finite(self, losses: np.ndarray, step: int) -> None:
        """**Raises** `RunError` if the loss is no longer finite."""
        if not np.isfinite(losses).all():
            bad = step + 1 + int(np.argmin(np.isfinite(losses)))
            raise RunError(
                f"the loss of {self.recipe.name} is not finite at step {bad}; the state of step {step} is kept. "
                "Try a smaller learning_rate, a smaller clip_norm or more warmup_steps"
            )

    def save(self) -> None:
        if self.disk:
            self.disk.save(self.state)
