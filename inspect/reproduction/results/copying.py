"""Tokens that must be copied together first: von Oswald et al. 2023, Figure 5."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.random as jr
import numpy as np

from ....train.losses import over_tasks, squared_error
from ....train.tasks.regression import LinearRegression
from ....train.tuning.baselines import best_baseline
from ....zoo.algorithms.least_squares import ZeroPredictor
from ....zoo.prompt import Learner
from ...activations.token_jacobians import CopyingPath, DerivativeNorms, derivative_norms, official_derivative_norms
from ...activations.token_jacobians_plot import copying_curves
from ...estimates.errors_on_tasks import half_squared_errors
from ...estimates.estimate import Estimate
from ...pictures.style import Figure
from ..catalogue import measures
from ..result import RESULT_SEED, CheckpointSource, Measurement, Outcome, exact, percent

SMALL_START = ("copying-small-start", "copying-small-start-seed-1", "copying-small-start-seed-2")
LARGE_START = ("copying", "copying-seed-1", "copying-seed-2")
SEEDS = (*SMALL_START, *LARGE_START)
NUM_TASKS = 200_000
NUM_PATH_TASKS = 4_000  # for the loss at a step
NUM_NORM_TASKS = 50  # for the norms at a step: Jacobians are large
COARSE, FINE = 1000, 100  # steps between two points of the path, where the loss does not fall and where it does
TASK = LinearRegression()
KEY = jr.key(RESULT_SEED)


@dataclass(frozen=True)
class Copied:
    """What the norms of a training say of its copying, by one of their definitions."""

    before: int  # the last point of the path before the next token's norm stands out
    half: float  # the step at which it comes to half of its peak
    quotient: float  # it over another token's, at its peak

    @classmethod
    def along(cls, steps: Sequence[int], norms: Sequence[DerivativeNorms]) -> "Copied":
        following, other = _values(norms, "next"), _values(norms, "other")
        peak, contrast = int(following.argmax()), following - other
        return cls(
            before=int(np.argmax(contrast >= 0.1 * contrast.max())) - 1,
            half=_crossing(steps, following, following[peak] / 2),
            quotient=float(following[peak] / other[peak]),
        )


@measures("copying", checkpoints=SEEDS)
def copying(source: CheckpointSource) -> Outcome:
    """Loss and derivative norms of six trainings: when the first layer comes to copy, and what the second makes of it."""
    descent = best_baseline("gd-1", TASK)
    final = {name: source.load(name) for name in SEEDS}
    errors = half_squared_errors({"gd": descent, **final}, TASK, num_tasks=NUM_TASKS, key=KEY)
    plateau = float(_half_mse(ZeroPredictor()).value or 0.0)
    paths = {name: _path(source, name, plateau) for name in SEEDS}
    measurements = []
    for name, path in paths.items():
        excess = percent(Estimate.of(errors[name] - errors["gd"]), of=float(errors["gd"].mean()))
        losses = np.array([mean.value for mean in path.half_mse], np.float64)
        by_paper = Copied.along(path.steps, path.norms)
        by_frobenius = Copied.along(
            path.steps,
            [
                derivative_norms(source.load(name, step=step), TASK, num_tasks=NUM_NORM_TASKS, key=KEY)
                for step in path.steps
            ],
        )
        learned = _crossing(path.steps, -losses, -(plateau + losses[-1]) / 2)
        learned_from_start = _crossing(path.steps, -losses, -(losses[0] + losses[-1]) / 2)
        before = path.half_mse[by_paper.before]
        rows: tuple[Any, ...] = (
            ("half-MSE before the first layer copies", "≈ 0.40", before, 0.38, 0.44),
            ("excess over one step of GD at the end, %", "0", excess, None, 3),
            ("steps from half of the copying to half of the loss", "> 0", exact(learned - by_paper.half), 0, None),
            ("next token's norm over another's, at its peak", "≫ 1", exact(by_paper.quotient), 10, None),
            ("the steps again, by the Frobenius norm of each task", "> 0", exact(learned - by_frobenius.half), 0, None),
            (
                "the steps again, by the Frobenius norm and half-way from step 0",
                "> 0",
                exact(learned_from_start - by_frobenius.half),
                0,
                None,
            ),
            ("the quotient again, by the Frobenius norm of each task", "≫ 1", exact(by_frobenius.quotient), 10, None),
        )
        measurements += [Measurement(f"{name}: {what}", *row) for what, *row in rows]
    first = paths[SEEDS[0]]
    own, following, other = (_values(first.norms, name) for name in ("own", "next", "other"))
    at = int(following.argmax())
    measurements += [
        Measurement("own token's norm at step 0", "3.16 = √10", exact(own[0]), 3.1, 3.22),
        Measurement("next token's norm at its peak", "> 3.0", exact(following[at]), low=3),
        Measurement("the same, beside the official code", "0.80", exact(following[at]), 0.7, 0.9),
        Measurement("other tokens' norm at that step", "< 0.5", exact(other[at]), high=0.5),
    ]
    conditions = (
        f"half-MSE on {NUM_TASKS:,} tasks at the end, {NUM_PATH_TASKS:,} along the way; norms by the paper's definition, on "
        f"{NUM_NORM_TASKS}; N = d = 10, x ~ U(−½, ½). Weights start with a variance of 0.01 / fan-in in the trainings of small start, as "
        "in the paper, and of 0.15 / fan-in in the others"
    )
    return Outcome(tuple(measurements), conditions, _figure(paths))


def _path(source: CheckpointSource, name: str, plateau: float) -> CopyingPath:
    """Loss and norms over training, at more steps where the loss falls below the plateau, that of predicting zero, than elsewhere."""
    models = {step: source.load(name, step=step) for step in source.steps(name)}
    losses = {step: _half_mse(model) for step, model in models.items()}
    steps, values = np.array(list(losses)), np.array([mean.value for mean in losses.values()], np.float64)
    gone = (plateau - values) / (plateau - values.min())
    falling = steps[(gone > 0.05) & (gone < 0.9)]
    first, last = (falling.min() - COARSE, falling.max() + COARSE) if len(falling) else (0, 0)
    chosen = tuple(
        int(step)
        for step in steps
        if step % COARSE == 0 or step == steps[-1] or (step % FINE == 0 and first <= step <= last)
    )
    return CopyingPath(chosen, tuple(_norms(models[step]) for step in chosen), tuple(losses[step] for step in chosen))


def _norms(model: Any) -> DerivativeNorms:
    """The norms of the paper's code, but with the next token left out of the others."""
    official = official_derivative_norms(model, TASK, num_tasks=NUM_NORM_TASKS, key=KEY)
    num_others = 2 * TASK.num_examples - 1  # what the paper's code divides the sum over other tokens by
    other = official["other"] - official["next"] / num_others
    return DerivativeNorms(exact(official["own"]), exact(official["next"]), exact(other), NUM_NORM_TASKS)


def _half_mse(learner: Learner) -> Estimate:
    return Estimate.of(over_tasks(squared_error, learner, TASK, num_tasks=NUM_PATH_TASKS, key=KEY) / 2)


def _values(norms: Sequence[DerivativeNorms], name: str) -> np.ndarray:
    return np.array([getattr(one, name).value for one in norms], np.float64)


def _crossing(steps: Sequence[int], values: np.ndarray, level: float) -> float:
    """The first step at which a curve reaches a level, on the line between two points."""
    after = int(np.argmax(values >= level))
    if after == 0:
        return float(steps[0])
    before = after - 1
    part = (level - values[before]) / (values[after] - values[before])
    return float(steps[before] + part * (steps[after] - steps[before]))


def _figure(paths: dict[str, CopyingPath]) -> Figure:
    """The change of phase of each training: all kept steps but the first and the last, which lie far from it."""
    figure = Figure(figsize=(17.0, 9.0), layout="constrained")
    for ax, (name, path) in zip(figure.subplots(2, 3).flat, paths.items(), strict=True):
        copying_curves(CopyingPath(path.steps[1:-1], path.norms[1:-1], path.half_mse[1:-1]), ax=ax)
        ax.set(
            xlabel=f"training step of {name}, of {path.steps[-1]:,}",
            ylabel=r"norm of $\partial t(e_j)\,/\,\partial e_i$, the paper's definition",
        )
    return figure
