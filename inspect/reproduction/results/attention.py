"""Softmax heads, layer norms and temperature: von Oswald et al. 2023, section 3 and appendix A.9."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array
from matplotlib.axes import Axes
from scipy.optimize import minimize

from ....train.losses import half_mse, over_tasks
from ....train.tasks.regression import LinearRegression
from ....train.tuning.baselines import best_baseline
from ....zoo.algorithms.gradient_descent import GradientDescent, GradientDescentPlusPlus
from ....zoo.algorithms.smoothing import KNearestNeighbours, NadarayaWatson, SoftmaxSmoother, squared_distances
from ....zoo.prompt import Learner, Prompt
from ...activations.softmax_heads import SoftmaxHeads, softmax_heads
from ...activations.softmax_heads_plot import head_difference, head_parts
from ...behaviour.alignment import alignment, sensitivity
from ...estimates.errors_on_tasks import half_squared_errors
from ...estimates.estimate import Estimate
from ...estimates.means import as_arrays
from ...pictures.curves import colours, draw_curve
from ...pictures.style import Figure
from ...weights.weight_products import products
from ..catalogue import measures
from ..result import RESULT_SEED, CheckpointSource, Measurement, Outcome, exact, percent

NUM_TASKS = 50_000
NUM_TRANSFORMER_TASKS = 10_000
NUM_TUNING_TASKS = 10_000
NUM_SMOOTHER_TASKS = 20_000
NUM_CURVE_TASKS = 5_000
TASK = LinearRegression()
CONDITIONS = "half-MSE on {:,} tasks, N = d = 10, x ~ U(−½, ½)"
KEY = jr.key(RESULT_SEED)

# The worked example of the introduction: softmax(c z) as printed there, by c.
SCORES = (2.0, 1.0, 0.5)
PRINTED = {0.0: (0.33, 0.33, 0.33), 1.0: (0.59, 0.24, 0.17), 10_000.0: (1.00, 0.00, 0.00)}
SHARP = 10_000.0


@measures("softmax-heads", checkpoints=("softmax-1-head-1", "softmax-2-heads-1"))
def heads(source: CheckpointSource) -> Outcome:
    """One softmax head and two, beside one step of gradient descent, and what the heads are made of."""
    one, two = source.load("softmax-1-head-1"), source.load("softmax-2-heads-1")
    descent = best_baseline("gd-1", TASK)
    errors = half_squared_errors({"gd": descent, "one": one, "two": two}, TASK, num_tasks=NUM_TASKS, key=KEY)
    aligned = {
        name: alignment(m, descent, TASK, num_tasks=NUM_TASKS, key=KEY) for name, m in (("one", one), ("two", two))
    }
    (parts_of_one,), (parts_of_two,) = (softmax_heads(model, TASK, key=KEY).layers for model in (one, two))
    first, second = products(two)[0].W_PV[:, -1, -1]
    nearer = _over(aligned["two"].prediction_distance, aligned["one"].prediction_distance)
    offset = _over(parts_of_one.offset, parts_of_one.linear)
    left_over = _over(parts_of_two.offset, parts_of_two.head_offset[0])
    share = Estimate(parts_of_two.identity_share, None)
    gap = percent(Estimate.of(errors["one"] - errors["two"]), of=float(errors["gd"].mean()))
    measurements = (
        Measurement("one head: excess over GD, %", "does not match", _excess(errors["one"], errors["gd"]), low=5),
        Measurement("one head: offset in parts of its linear part", "an offset remains", offset, low=0.1),
        Measurement("loss of one head above that of two, % of GD", "> 0", gap, low=0),
        Measurement("prediction distance to GD, two heads over one", "< 1", nearer, high=1),
        Measurement("two heads: sensitivity cosine", "aligned", aligned["two"].sensitivity_cosine, low=0.95),
        Measurement("two heads: offset of both in parts of the first's", "cancels", left_over, high=0.1),
        Measurement("two heads: y entry of W_PV, second over first", "−1", exact(second / first), -1.25, -0.8),
        Measurement("two heads: share of the identity over x in W₁,KQ − W₂,KQ", "diagonal", share, low=0.9),
    )
    return Outcome(measurements, CONDITIONS.format(NUM_TASKS), _heads_figure(parts_of_one, parts_of_two))


@measures("layer-norm", checkpoints=("transformer-12", "transformer-12-layer-norm"))
def layer_norm(source: CheckpointSource) -> Outcome:
    """Twelve layers with perceptrons, with and without layer norms, beside twelve steps of GD and of GD++."""
    learners = {
        "GD, 12 steps": _tuned(lambda p: GradientDescent(p[0], num_steps=12), (5.0,)),
        "GD++, 12 steps": _tuned(lambda p: GradientDescentPlusPlus(p[0], p[1], num_steps=12), (5.0, 0.1)),
        "transformer-12": source.load("transformer-12"),
        "transformer-12-layer-norm": source.load("transformer-12-layer-norm"),
    }
    errors = half_squared_errors(learners, TASK, num_tasks=NUM_TRANSFORMER_TASKS, key=KEY)
    descent, corrected, plain, normed = (errors[name] for name in learners)
    compared = (learners["transformer-12"], learners["GD, 12 steps"], learners["GD++, 12 steps"])
    cosines = np.stack(over_tasks(_cosines, compared, TASK, num_tasks=NUM_TRANSFORMER_TASKS, key=KEY))
    defined = np.isfinite(cosines).all(axis=0)  # nowhere else is a sensitivity zero, as it is where the model clips
    to_descent, to_corrected = cosines[:, defined]
    medians = exact(float(np.median(normed) / np.median(plain)))
    measurements = (
        Measurement("layer norms: half-MSE above that without, %", "> 0, slightly", _excess(normed, plain), low=0),
        Measurement(
            "layer norms: median error of a task, over that without (added when the mean proved noisy)",
            "> 1",
            medians,
            low=1,
        ),
        Measurement("without: excess over 12 steps of GD, %", "< 0", _excess(plain, descent), high=0),
        Measurement("without: excess over 12 steps of GD++, %", "≈ 0", _excess(plain, corrected), -25, 25),
        Measurement("without: sensitivity cosine with GD++", "≈ 1", Estimate.of(to_corrected), low=0.95),
        Measurement("the same, less that with GD", "> 0", Estimate.of(to_corrected - to_descent), low=0),
    )
    figure = Figure(figsize=(9.6, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    losses = {name.replace(", ", ",\n").replace("-layer", "\n-layer"): Estimate.of(errors[name]) for name in learners}
    _bars(left, losses)
    left.set(ylabel="half-MSE", title=f"mean over {NUM_TRANSFORMER_TASKS:,} tasks")
    levels = (np.arange(1, NUM_TRANSFORMER_TASKS + 1) / NUM_TRANSFORMER_TASKS)[::100]
    for name, colour, style in zip(learners, colours(4), ("--", "--", "-", "-"), strict=True):
        right.plot(np.sort(errors[name])[::100], levels, style, color=colour, label=name)
    right.set(xscale="log", xlim=(1e-6, 10), xlabel="½ (ŷ − y)² of a task", ylabel="share of tasks below")
    right.legend(frameon=False, fontsize="small")
    return Outcome(measurements, CONDITIONS.format(NUM_TRANSFORMER_TASKS), figure)


@measures("temperature")
def temperature(source: CheckpointSource) -> Outcome:
    """Softmax over inner products at any inverse temperature, beside the Gaussian kernel and the nearest neighbour."""
    softmax = {c: np.asarray(jax.nn.softmax(c * jnp.asarray(SCORES)), np.float64) for c in PRINTED}
    example = [
        Measurement(f"softmax(1·[2, 1, 0.5]), entry {i + 1}", f"{at:.2f}", exact(value), at - 0.005, at + 0.005)
        for i, (at, value) in enumerate(zip(PRINTED[1.0], softmax[1.0], strict=True))
    ]
    for c, shown in ((0.0, "(0.33, 0.33, 0.33)"), (SHARP, "(1.00, 0.00, 0.00)")):
        distance = exact(np.abs(softmax[c] - PRINTED[c]).max())
        example.append(Measurement(f"softmax({c:g}·[2, 1, 0.5]): largest distance from", shown, distance, high=0.005))
    even, ten, sharp = (
        over_tasks(_measure, _smoothers(c), TASK, num_tasks=NUM_SMOOTHER_TASKS, key=KEY) for c in (0.0, 10.0, SHARP)
    )
    from_mean, from_kernel = exact(even["from the mean"].max()), exact(ten["from the kernel"].max())
    level, kernel = Estimate.of(sharp["softmax, equal lengths"]), Estimate.of(sharp["Gaussian kernel"])
    measurements = [
        *example,
        Measurement("c = 0: largest distance of a prediction from the mean label", "0", from_mean, high=1e-5),
        Measurement("c = 10, inputs of equal length: from a Gaussian kernel's", "0", from_kernel, high=1e-4),
        Measurement("c = 10000: attention on the nearest example", "1", Estimate.of(sharp["softmax"]), low=0.99),
        Measurement("c = 10000, inputs of equal length: the same", "1", level, low=0.99),
        Measurement("c = 10000, a Gaussian kernel of h = c^(−1/2): the same", "1", kernel, low=0.99),
        Measurement("c = 10000: attention on the largest xᵢ·x", "—", Estimate.of(sharp["largest product"]), low=0.99),
    ]
    conditions = (
        f"{NUM_SMOOTHER_TASKS:,} tasks, N = d = 10, x ~ U(−½, ½), attention of the query on x₁ … x_N; for inputs of equal length, "
        "each x was divided by its norm"
    )
    return Outcome(tuple(measurements), conditions, _temperature_figure())


def _cosines(learners: tuple[Learner, ...], prompt: Prompt, _: Array) -> tuple[Array, ...]:
    """The cosine of the first learner's sensitivity with that of each of the others."""
    first, *others = (sensitivity(learner, prompt).ravel() for learner in learners)
    return tuple(first @ other / (jnp.linalg.norm(first) * jnp.linalg.norm(other)) for other in others)


def _tuned(algorithm: Callable[[Array], Learner], start: tuple[float, ...]) -> Learner:
    """The algorithm with the positive parameters that lower its half-MSE the most, by Nelder and Mead's method from `start`."""
    tasks = TASK.sample_batch(jr.key(0), NUM_TUNING_TASKS)
    loss = jax.jit(
        lambda theta, *tasks: half_mse(algorithm(jnp.exp(theta)), *tasks)
    )  # tasks as constants would be folded

    def at(theta: np.ndarray) -> float:
        return float(loss(theta, *tasks))

    found: Any = minimize(at, np.log(start), method="Nelder-Mead", options={"xatol": 1e-3})
    return algorithm(jnp.exp(found.x))


def _smoothers(c: float) -> tuple[SoftmaxSmoother, NadarayaWatson]:
    """Softmax at inverse temperature c, and the Gaussian kernel of its width."""
    return SoftmaxSmoother(c), NadarayaWatson(jnp.inf if c == 0 else c**-0.5)


def _measure(smoothers: tuple[SoftmaxSmoother, NadarayaWatson], prompt: Prompt, _: Array) -> dict[str, Array]:
    """The share of the nearest example under each smoother, and distances between predictions."""
    softmax, kernel = smoothers
    level = _equal_lengths(prompt)
    nearest, nearest_level = (jnp.argmin(squared_distances(p)) for p in (prompt, level))
    weights = softmax.weights(prompt)
    return {
        "softmax": weights[nearest],
        "softmax, equal lengths": softmax.weights(level)[nearest_level],
        "Gaussian kernel": kernel.weights(prompt)[nearest],
        "largest product": weights[jnp.argmax(prompt.xs @ prompt.query)],
        "from the mean": jnp.abs(softmax(prompt) - prompt.ys.mean(axis=0)).max(),
        "from the kernel": jnp.abs(softmax(level) - kernel(level)).max(),
    }


def _equal_lengths(prompt: Prompt) -> Prompt:
    """The prompt with every input at norm 1; labels stay."""
    xs = prompt.xs / jnp.linalg.norm(prompt.xs, axis=1, keepdims=True)
    return eqx.tree_at(lambda p: (p.xs, p.query), prompt, (xs, prompt.query / jnp.linalg.norm(prompt.query)))


def _excess(errors: np.ndarray, others: np.ndarray) -> Estimate:
    """How far the mean of paired errors is above that of others, in %."""
    return percent(Estimate.of(errors - others), of=float(others.mean()))


def _over(numerator: Estimate, denominator: Estimate) -> Estimate:
    """The quotient of two means, with the standard error it would have were they independent; on the same tasks it is smaller."""
    if not numerator.value or not denominator.value:
        return Estimate(None, None)
    ratio = numerator.value / denominator.value
    errors = (one.standard_error or 0.0 for one in (numerator, denominator))
    parts = (error / value for error, value in zip(errors, (numerator.value, denominator.value), strict=True))
    return Estimate(ratio, abs(ratio) * math.hypot(*parts))


def _bars(ax: Axes, means: dict[str, Estimate]) -> None:
    values, errors = as_arrays(list(means.values()))
    ax.bar(list(means), np.nan_to_num(values), yerr=np.nan_to_num(errors), color=colours(len(means)), capsize=2)
    for place, (value, error) in enumerate(zip(values, np.nan_to_num(errors), strict=True)):
        where = (place, value + error)
        ax.annotate(f"{value:.3g}", where, (0, 4), textcoords="offset points", ha="center", fontsize="small")
    ax.tick_params(axis="x", labelsize="small")
    ax.margins(y=0.12)


def _heads_figure(one: SoftmaxHeads, two: SoftmaxHeads) -> Figure:
    figure = Figure(figsize=(14.5, 4.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.0, 1.2, 1.3))
    head_parts(one, ax=left)
    left.set_title(f"one head  ({one.num_tasks:,} tasks)", fontsize="medium")
    head_parts(two, ax=middle)
    middle.set_title(f"two heads  ({two.num_tasks:,} tasks)", fontsize="medium")
    head_difference(two, ax=right)
    right.set_title(f"two heads: {right.get_title().split(': ', 1)[1]}", fontsize="medium")
    return figure


def _temperature_figure() -> Figure:
    figure = Figure(figsize=(14.0, 4.2), layout="constrained")
    example, share, loss = figure.subplots(1, 3)
    cs = np.linspace(0.0, 5.0, 101)
    curves = np.asarray(jax.nn.softmax(cs[:, None] * np.asarray(SCORES), axis=1))
    for entry, colour in enumerate(colours(3)):
        example.plot(cs, curves[:, entry], color=colour, label=f"z = {SCORES[entry]:g}")
        for c in (0.0, 1.0):
            example.plot(c, PRINTED[c][entry], "x", color=colour, label="as printed" if c and entry == 2 else None)
    example.set(xlabel="inverse temperature c", ylabel="entry of softmax(c·[2, 1, 0.5])", ylim=(0, 1.02))
    example.legend(frameon=False, fontsize="small")

    grid = np.logspace(-1, 4, 21)
    measured = [over_tasks(_measure, _smoothers(c), TASK, num_tasks=NUM_CURVE_TASKS, key=KEY) for c in grid]
    lines = {"softmax": "-", "softmax, equal lengths": "-", "Gaussian kernel": "--"}
    for (name, style), colour in zip(lines.items(), colours(3), strict=True):
        draw_curve(share, grid, [Estimate.of(at[name]) for at in measured], color=colour, linestyle=style, label=name)
    share.set(xlabel=r"inverse temperature c, h = c$^{-1/2}$", ylabel="share of attention on the nearest example")
    share.set(xscale="log", ylim=(0, 1.02))
    share.legend(frameon=False, fontsize="small")

    pairs: list[dict[str, Learner]] = [
        dict(zip(("softmax", "Gaussian kernel"), _smoothers(c), strict=True)) for c in grid
    ]
    losses = [half_squared_errors(pair, TASK, num_tasks=NUM_CURVE_TASKS, key=KEY) for pair in pairs]
    for name, colour, style in (("softmax", colours(3)[0], "-"), ("Gaussian kernel", colours(3)[2], "--")):
        draw_curve(loss, grid, [Estimate.of(at[name]) for at in losses], color=colour, linestyle=style, label=name)
    limits: dict[str, Learner] = {"mean label, c = 0": SoftmaxSmoother(0.0), "nearest neighbour": KNearestNeighbours(1)}
    errors = half_squared_errors(limits, TASK, num_tasks=NUM_CURVE_TASKS, key=KEY)
    for name, grey in zip(limits, ("0.6", "0.2"), strict=True):
        loss.axhline(float(errors[name].mean()), color=grey, linestyle=":", label=name)
    loss.set(xscale="log", xlabel=r"inverse temperature c, h = c$^{-1/2}$", ylabel="half-MSE")
    loss.legend(frameon=False, fontsize="small")
    return figure
