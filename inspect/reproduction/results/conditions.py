"""Fixed tasks, query initialisation and learning rates: von Oswald et al. 2023, appendix A.11; Rossi et al. 2024."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from ....train.recipes.catalogue import recipe
from ....train.recipes.conditions import NUM_TASKS as POOLS
from ....train.recipes.conditions import TEACHER_MEAN
from ....train.tasks.regression import LinearRegression
from ....train.tasks.teachers import GaussianTeacher
from ....train.tuning.baselines import best_baseline
from ....train.tuning.step_size import optimal_step_size
from ....zoo.algorithms.gradient_descent import GradientDescent
from ...behaviour.alignment import Alignment, alignment
from ...estimates.errors_on_tasks import half_squared_errors
from ...estimates.estimate import Estimate
from ...estimates.means import as_arrays
from ...pictures.curves import colours, draw_curve
from ...pictures.style import Figure
from ..catalogue import measures
from ..result import RESULT_SEED, CheckpointSource, Measurement, Outcome, exact, percent

NUM_TASKS = 100_000
NUM_FITTING_TASKS = 20_000
TASK = LinearRegression()
KEY = jr.key(RESULT_SEED)


def _layer_name(pool: int) -> str:
    return f"lsa-{pool}-prompts"


@measures("task-diversity", checkpoints=tuple(map(_layer_name, POOLS)))
def task_diversity(source: CheckpointSource) -> Outcome:
    """Layers trained on 128 to 8192 fixed prompts, each on those prompts and on fresh ones."""
    descent = best_baseline("gd-1", TASK)
    layers = {pool: source.load(_layer_name(pool)) for pool in POOLS}
    fresh = half_squared_errors({"gd": descent, **_by_name(layers)}, TASK, num_tasks=NUM_TASKS, key=KEY)
    excess = {
        pool: percent(Estimate.of(fresh[str(pool)] - fresh["gd"]), of=float(fresh["gd"].mean())) for pool in POOLS
    }
    aligned = {pool: alignment(layer, descent, TASK, num_tasks=NUM_TASKS, key=KEY) for pool, layer in layers.items()}
    seen = {
        pool: half_squared_errors({"layer": layer}, recipe(_layer_name(pool)).task, num_tasks=NUM_TASKS, key=KEY)[
            "layer"
        ]
        for pool, layer in layers.items()
    }
    measurements = [
        Measurement("128 tasks: excess over GD, %", "fails", excess[128], low=25),
        Measurement("128 tasks: sensitivity cosine", "fails", aligned[128].sensitivity_cosine, high=0.9),
    ]
    for pool in (2048, 8192):
        measurements += [
            Measurement(f"{pool} tasks: excess over GD, %", "nearly perfect", excess[pool], high=2),
            Measurement(
                f"{pool} tasks: sensitivity cosine", "nearly perfect", aligned[pool].sensitivity_cosine, low=0.99
            ),
        ]
    cost = _excess_of_fitting()
    for pool in (2048, 8192):
        expected = percent(excess[pool], of=1e4 * cost / pool)
        measurements.append(
            Measurement(f"{pool} tasks: excess in parts of what fitting costs", "1 (theory)", expected, 0.7, 1.3)
        )
    losses = {pool: Estimate.of(fresh[str(pool)]) for pool in POOLS}, {pool: Estimate.of(seen[pool]) for pool in POOLS}
    figure = _diversity_figure(*losses, Estimate.of(fresh["gd"]), cost, aligned)
    return Outcome(tuple(measurements), f"half-MSE on {NUM_TASKS:,} fresh tasks, N = d = 10, x ~ U(−½, ½)", figure)


@measures("query-init", checkpoints=("query-init-zero", "query-init-known", "query-init-learned"))
def query_init(source: CheckpointSource) -> Outcome:
    """Teachers of mean 2: a layer whose query starts at −W₀ x takes its step from W₀, whether W₀ was given or learned."""
    task = LinearRegression(teacher=GaussianTeacher(mean=TEACHER_MEAN))
    mean = jnp.full((1, task.input_dim), TEACHER_MEAN)
    # Seen from W₀ the teachers have mean zero, so the best step from there is the one of the centred task.
    descent = GradientDescent(optimal_step_size(TASK).step_size, W_0=mean)
    layers = {start: source.load(f"query-init-{start}") for start in ("zero", "known", "learned")}
    learners = {"GD from W₀": descent, "GD from zero": best_baseline("gd-1", task), **layers}
    errors = half_squared_errors(learners, task, num_tasks=NUM_TASKS, key=KEY)
    reference = errors["GD from W₀"]
    measurements = []
    for start in ("known", "learned"):
        measured = alignment(layers[start], descent, task, num_tasks=NUM_TASKS, key=KEY)
        excess = percent(Estimate.of(errors[start] - reference), of=float(reference.mean()))
        measurements += [
            Measurement(f"W₀ {start}: excess over GD from W₀, %", "0", excess, high=0.3),
            Measurement(f"W₀ {start}: sensitivity cosine", "≈ 1", measured.sensitivity_cosine, low=0.999),
            Measurement(f"W₀ {start}: prediction distance", "≈ 0", measured.prediction_distance, high=0.03),
        ]
    learned = np.asarray(layers["learned"].W_0, np.float64)
    above = percent(Estimate.of(errors["zero"] - errors["known"]), of=float(errors["known"].mean()))
    measurements += [
        Measurement(
            "learned W₀: largest distance of an entry from the teachers' mean 2",
            "≈ 0",
            exact(np.abs(learned - TEACHER_MEAN).max()),
            high=0.05,
        ),
        Measurement("W₀ = 0: half-MSE above that with W₀ known, %", "worse", above, low=10),
    ]
    losses = {name: Estimate.of(values) for name, values in errors.items()}
    conditions = f"half-MSE on {NUM_TASKS:,} tasks, N = d = 10, x ~ U(−½, ½), teachers w ~ N(2, I)"
    return Outcome(tuple(measurements), conditions, _start_figure(losses, learned.ravel()))


def _by_name(layers: dict) -> dict:
    return {str(name): layer for name, layer in layers.items()}


def _excess_of_fitting() -> float:
    """What n prompts cost a fitted layer, times n, in parts of the loss, by the classical theory of fitted parameters.

        E[excess] = tr(H⁺ V) / 2n,   H = E[J Jᵀ],   V = E[r² J Jᵀ],   J = ∂ŷ/∂(W_PV's y row, W_KQ),   r = ŷ − y, at the step of GD

    H has the rank of the layer's free numbers, less the gauge.
    """
    d, a = TASK.input_dim, optimal_step_size(TASK).step_size / TASK.num_examples
    row, matrix = jnp.zeros(d + 1).at[-1].set(a), jnp.eye(d + 1, d)

    def predict(row, matrix, prompt):
        tokens = jnp.concatenate([prompt.xs, prompt.ys], axis=1)
        return row @ tokens.T @ tokens @ matrix @ prompt.query

    prompts, targets = TASK.sample_batch(KEY, NUM_FITTING_TASKS)
    J = jax.vmap(jax.grad(predict, argnums=(0, 1)), in_axes=(None, None, 0))(row, matrix, prompts)
    J = np.concatenate([np.asarray(part, np.float64).reshape(NUM_FITTING_TASKS, -1) for part in J], axis=1)
    r = np.asarray(jax.vmap(predict, in_axes=(None, None, 0))(row, matrix, prompts) - targets[:, 0], np.float64)
    H, V = J.T @ J / len(J), (J * r[:, None] ** 2).T @ J / len(J)
    return float(np.trace(np.linalg.pinv(H, rcond=1e-6, hermitian=True) @ V) / (r**2).mean())


def _diversity_figure(
    fresh: dict[int, Estimate], seen: dict[int, Estimate], descent: Estimate, cost: float, aligned: dict[int, Alignment]
) -> Figure:
    figure = Figure(figsize=(10.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    first, second, third = colours(3)
    draw_curve(left, list(fresh), list(fresh.values()), color=first, marker="o", label="on fresh prompts")
    draw_curve(left, list(seen), list(seen.values()), color=second, marker="s", label="on the prompts of its training")
    if descent.value is not None:
        left.axhline(descent.value, color="0.3", linestyle="--", label="one step of GD at η*, fresh prompts")
        pools = np.geomspace(min(fresh), max(fresh), 100)
        theory = descent.value * (1 + cost / pools)
        left.plot(pools, theory, color="0.3", linestyle=":", label="GD and the cost of fitting, to first order")
    left.set(ylabel="half-MSE", title="loss of the layer", yscale="log")
    left.legend(frameon=False, fontsize="small")
    cosines = [one.sensitivity_cosine for one in aligned.values()]
    draw_curve(right, list(aligned), cosines, color=third, marker="o")
    right.axhline(1.0, color="0.7", linewidth=0.8)
    right.set(ylabel="sensitivity cosine with one step of GD", title="alignment on fresh prompts")
    for ax in (left, right):
        ax.set_xscale("log")
        ax.set_xticks(list(fresh), [str(pool) for pool in fresh])
        ax.set_xticks([], minor=True)
        ax.set_xlabel("prompts in the training set")
    return figure


def _start_figure(losses: dict[str, Estimate], learned: np.ndarray) -> Figure:
    figure = Figure(figsize=(10.0, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.6, 1.0))
    names = {
        "GD from zero": "GD, best η,\nfrom zero",
        "zero": "layer,\nW₀ = 0",
        "known": "layer,\nW₀ known",
        "learned": "layer,\nW₀ learned",
        "GD from W₀": "GD at η*,\nfrom W₀ = 2",
    }
    values, errors = as_arrays([losses[name] for name in names])
    first, second = colours(2)
    bars = [second if name.startswith("GD") else first for name in names]
    left.bar(list(names.values()), values, yerr=errors, color=bars, capsize=2)
    for place, value in enumerate(values):
        left.annotate(f"{value:.3f}", (place, value), (0, 4), textcoords="offset points", ha="center", fontsize="small")
    left.margins(y=0.12)
    left.set(ylabel="half-MSE", title="teachers w ~ N(2, I)")
    right.plot(np.arange(1, len(learned) + 1), learned, "o", color=first, label="learned")
    right.axhline(TEACHER_MEAN, color="0.3", linestyle="--", label="mean of the teachers")
    right.set(xlabel="entry of W₀", ylabel="W₀", ylim=(0, 1.25 * TEACHER_MEAN), title="query-init-learned")
    right.set_xticks(np.arange(1, len(learned) + 1))
    right.legend(frameon=False, fontsize="small", loc="lower right")
    return figure
