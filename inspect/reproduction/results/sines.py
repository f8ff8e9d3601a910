"""Sine regression and its control: von Oswald et al. 2023, Figure 4."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from ....train.losses import over_tasks
from ....train.recipes.catalogue import recipe
from ....zoo.algorithms.least_squares import ZeroPredictor
from ....zoo.prompt import Learner, Prompt
from ...behaviour.alignment import alignment, sensitivity
from ...estimates.errors_on_tasks import half_squared_errors
from ...estimates.estimate import Estimate
from ...pictures.curves import colours
from ...pictures.style import Figure
from ..catalogue import measures
from ..result import RESULT_SEED, CheckpointSource, Measurement, Outcome, exact, percent

MODEL, CONTROL = "mlp-lsa-sine", "mlp-gradient-descent-sine"
NUM_TASKS = 100_000
NUM_ALIGNMENT_TASKS = 20_000
NUM_WAVES = 6
TASK = recipe(MODEL).task
KEY = jr.key(RESULT_SEED)


@measures("sines", checkpoints=(MODEL, CONTROL))
def sines(source: CheckpointSource) -> Outcome:
    """A perceptron and an attention layer beside the perceptron that was meta-learned through a step of gradient descent."""
    model, control = source.load(MODEL), source.load(CONTROL)
    learners = {MODEL: model, CONTROL: control, "zero": ZeroPredictor()}
    errors = half_squared_errors(learners, TASK, num_tasks=NUM_TASKS, key=KEY)
    measured = alignment(model, control, TASK, num_tasks=NUM_ALIGNMENT_TASKS, key=KEY)
    control_loss = float(errors[CONTROL].mean())
    slopes = np.stack(over_tasks(_slopes, (model, control), TASK, num_tasks=NUM_ALIGNMENT_TASKS, key=KEY))
    differ = slopes.prod(axis=0) < 0
    flat = np.abs(slopes[:, differ]).mean() / np.abs(slopes[:, ~differ]).mean()
    excess = percent(Estimate.of(errors[MODEL] - errors[CONTROL]), of=control_loss)
    unexplained = percent(Estimate.of(errors[MODEL]), of=float(errors["zero"].mean()))
    measurements = (
        Measurement("half-MSE", "≈ 0.001", Estimate.of(errors[MODEL]), high=0.002),
        Measurement("half-MSE of the control", "≈ 0.001", Estimate.of(errors[CONTROL]), high=0.002),
        Measurement("excess over the control, %", "≈ 0", excess, -20, 20),
        Measurement("sensitivity cosine with the control", "> 0.95", measured.sensitivity_cosine, low=0.95),
        Measurement("prediction distance to the control", "close to 0", measured.prediction_distance, high=0.05),
        Measurement("half-MSE in % of that of predicting 0", "—", unexplained, high=5),
        Measurement(
            "cosine of the sensitivities of all tasks as one vector", "> 0.95", exact(_joint_cosine(slopes)), low=0.95
        ),
        Measurement("size of the slope where their signs differ, over its size elsewhere", "—", exact(flat), high=0.5),
    )
    conditions = (
        f"half-MSE on {NUM_TASKS:,} tasks, N = 10, x ~ U(−5, 5), a ~ U(0.1, 0.5) and ρ ~ U(0, π) independent; "
        f"alignment on {NUM_ALIGNMENT_TASKS:,} of them"
    )
    return Outcome(measurements, conditions, _waves_figure({MODEL: model, CONTROL: control}))


def _slopes(learners: tuple[Learner, Learner], prompt: Prompt, _: jax.Array) -> tuple[jax.Array, ...]:
    """∂ŷ/∂x_query of each learner, one number."""
    return tuple(sensitivity(learner, prompt)[0, 0] for learner in learners)


def _joint_cosine(slopes: np.ndarray) -> float:
    """Σ ab / √(Σ a² Σ b²), the sums over tasks."""
    first, second = slopes
    return float(first @ second / np.sqrt((first @ first) * (second @ second)))


def _waves_figure(learners: dict[str, Learner]) -> Figure:
    """Some waves with both predictions, and the predictions of many tasks against each other."""
    figure = Figure(figsize=(14.0, 5.6), layout="constrained")
    grid = figure.add_gridspec(2, 5)
    queries = jnp.linspace(-5.0, 5.0, 201)[:, None]
    styles = dict(zip(learners, zip(colours(2), ("-", "--"), strict=True), strict=True))
    prompts, _ = TASK.sample_batch(KEY, NUM_WAVES)
    for index in range(NUM_WAVES):
        ax = figure.add_subplot(grid[divmod(index, 3)])
        xs, ys = prompts.xs[index], prompts.ys[index]
        for name, (colour, style) in styles.items():
            curve = jax.vmap(lambda query, n=name, x=xs, y=ys: learners[n](Prompt(xs=x, ys=y, query=query)))(queries)
            ax.plot(queries[:, 0], curve[:, 0], style, color=colour, label=name)
        ax.plot(queries[:, 0], _wave_through(xs, ys, queries), ":", color="0.3", label="the wave itself")
        ax.plot(xs[:, 0], ys[:, 0], "o", color="black", markersize=4, label="examples")
        ax.set(ylim=(-0.6, 0.6), xlabel="x" if index >= 3 else "", ylabel="y" if index % 3 == 0 else "")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)

    ax = figure.add_subplot(grid[:, 3:])
    prompts, _ = TASK.sample_batch(KEY, 2_000)
    one, other = (np.asarray(jax.vmap(learner)(prompts))[:, 0] for learner in learners.values())
    ax.plot([-0.6, 0.6], [-0.6, 0.6], color="0.7", linewidth=0.8, zorder=0)
    ax.plot(one, other, ".", markersize=3, color=colours(3)[2])
    ax.set(xlabel=f"prediction of {MODEL}", ylabel=f"prediction of {CONTROL}", title=f"{len(one):,} queries")
    ax.set_aspect("equal")
    return figure


def _wave_through(xs: jax.Array, ys: jax.Array, queries: jax.Array) -> np.ndarray:
    """The wave of period 2π through examples without noise: least squares in sin x and cos x."""

    def waves(x: jax.Array) -> np.ndarray:
        return np.concatenate([np.sin(x), np.cos(x)], axis=1, dtype=np.float64)

    coefficients, *_ = np.linalg.lstsq(waves(xs), np.asarray(ys, np.float64))
    return waves(queries) @ coefficients[:, 0]
