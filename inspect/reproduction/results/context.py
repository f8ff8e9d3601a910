"""The loss by depth and by the size of the context: Rossi et al. 2024."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import jax.random as jr
import numpy as np
from matplotlib.axes import Axes

from ....train.tasks.regression import LinearRegression
from ....zoo.prompt import Learner
from ...estimates.errors_on_tasks import half_squared_errors
from ...estimates.estimate import Estimate
from ...estimates.means import UNDEFINED, finite_mean
from ...pictures.curves import colours, draw_curve, logarithmic_losses, shades
from ...pictures.style import Figure
from ..catalogue import measures
from ..result import RESULT_SEED, CheckpointSource, Measurement, Outcome, percent

DEPTHS = (1, 2, 3, 4, 5)
SIZES = (2, 5, 10, 20)  # of contexts
NUM_TASKS = 50_000
KEY = jr.key(RESULT_SEED)


def _linear_name(depth: int, num_examples: int) -> str:
    name = f"deep-lsa-{depth}"
    return name if num_examples == 10 else f"{name}-examples-{num_examples}"


def _softmax_name(depth: int, heads: int) -> str:
    return f"softmax-{heads}-head{'s' * (heads > 1)}-{depth}"


@measures(
    "context-and-depth",
    checkpoints=(
        *(_linear_name(depth, N) for N in SIZES for depth in DEPTHS),
        *(_softmax_name(depth, heads) for heads in (1, 2) for depth in DEPTHS),
    ),
)
def context_and_depth(source: CheckpointSource) -> Outcome:
    """Linear layers by depth and size of the context, each trained at its size; softmax layers by depth."""
    linear = {N: {k: source.load(_linear_name(k, N)) for k in DEPTHS} for N in SIZES}
    softmax = {heads: {k: source.load(_softmax_name(k, heads)) for k in DEPTHS} for heads in (1, 2)}
    errors = {N: _by_depth(models, LinearRegression(num_examples=N)) for N, models in linear.items()}
    softmax_errors = {heads: _by_depth(models, LinearRegression()) for heads, models in softmax.items()}
    measurements = [
        Measurement(f"N = {N}: from one layer to the next, largest change, %", "falls", _largest_step(at_N), high=0)
        for N, at_N in errors.items()
    ]
    for depth in DEPTHS:
        by_size = [errors[N][depth] for N in SIZES]
        change = _largest([_unpaired_change(small, large) for small, large in pairwise(by_size)])
        what = f"{depth} layer{'s' * (depth > 1)}: from one N to the next, largest change, %"
        measurements.append(Measurement(what, "falls", change, high=0))
    for N, at_N in errors.items():
        best = min((at_N[depth] for depth in (1, 2, 3)), key=np.mean)
        above = _largest([percent_above(at_N[depth], best) for depth in (4, 5)])
        measurements.append(
            Measurement(f"N = {N}: four and five layers above the best of fewer, %", "below", above, high=0)
        )
    for heads, at_heads in softmax_errors.items():
        what = f"softmax, {heads} head{'s' * (heads > 1)}, N = 10: from one layer to the next, largest change, %"
        measurements.append(Measurement(what, "falls", _largest_step(at_heads), high=0))
    conditions = (
        f"half-MSE on {NUM_TASKS:,} tasks at each N, d = 10, x ~ U(−½, ½), every model at the N it was trained for"
    )
    return Outcome(tuple(measurements), conditions, _grid_figure(errors, softmax_errors))


def percent_above(errors: np.ndarray, others: np.ndarray) -> Estimate:
    """How far a half-MSE is above another's on the same tasks, in per cent of that."""
    return percent(finite_mean(errors - others), of=float(others.mean()))


def _by_depth(models: Mapping[int, Learner], task: LinearRegression) -> dict[int, np.ndarray]:
    named = {str(depth): model for depth, model in models.items()}
    errors = half_squared_errors(named, task, num_tasks=NUM_TASKS, key=KEY)
    return {depth: errors[str(depth)] for depth in models}


def _largest_step(by_depth: Mapping[int, np.ndarray]) -> Estimate:
    """The largest change of the half-MSE from one depth to the next, in per cent."""
    return _largest([percent_above(deeper, shallower) for shallower, deeper in pairwise(by_depth.values())])


def _largest(means: Sequence[Estimate]) -> Estimate:
    """The largest of some means; undefined where one of them is."""
    return max(means, key=lambda mean: np.inf if mean.value is None else mean.value)


def _unpaired_change(errors: np.ndarray, others: np.ndarray) -> Estimate:
    """How far the half-MSE of `others`, on tasks of their own, is above that of `errors`, in per cent."""
    before, after = finite_mean(errors), finite_mean(others)
    if not before.value or after.value is None:
        return UNDEFINED
    error = float(np.hypot(before.standard_error or 0.0, after.standard_error or 0.0))
    return percent(Estimate(after.value - before.value, error), of=before.value)


def _grid_figure(
    linear: Mapping[int, Mapping[int, np.ndarray]], softmax: Mapping[int, Mapping[int, np.ndarray]]
) -> Figure:
    """Half-MSE against N, a curve for each depth; and against depth at N = 10, linear and softmax."""
    figure = Figure(figsize=(10.5, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for colour, depth in zip(shades(len(DEPTHS)), DEPTHS, strict=True):
        means = [finite_mean(linear[N][depth]) for N in SIZES]
        label = f"{depth} layer{'s' * (depth > 1)}"
        draw_curve(left, SIZES, means, color=colour, marker="o", markersize=4, label=label)
    left.set_xscale("log")
    left.set_xticks(SIZES, [str(N) for N in SIZES])
    left.set_xticks([], minor=True)
    left.set(xlabel="examples N in the context", title="linear attention")
    families = {"linear": linear[10], "softmax, 1 head": softmax[1], "softmax, 2 heads": softmax[2]}
    for colour, (name, by_depth) in zip(colours(3), families.items(), strict=True):
        means = [finite_mean(errors) for errors in by_depth.values()]
        draw_curve(right, DEPTHS, means, color=colour, marker="o", markersize=4, label=name)
    right.set(xlabel="layers", xticks=DEPTHS, title="N = 10")
    _finish(left, [errors for at_N in linear.values() for errors in at_N.values()])
    _finish(right, [errors for by_depth in families.values() for errors in by_depth.values()])
    return figure


def _finish(ax: Axes, errors: Sequence[np.ndarray]) -> None:
    logarithmic_losses(ax, [values.mean() for values in errors], decades=(10, 0))
    ax.set_ylabel("half-MSE")
    ax.legend(frameon=False, fontsize="small")
