"""Several layers and several steps: von Oswald et al. 2023, Figure 3 and appendix A.10; Rossi et al. 2024."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from ....train.tasks.regression import LinearRegression
from ....train.tuning.baselines import best_baseline, fitted_baseline
from ....zoo.algorithms.gradient_descent import GradientDescentPlusPlus
from ....zoo.constructions.gd_plus_plus import gd_plus_plus_lsa
from ....zoo.prompt import Learner
from ...behaviour.alignment import alignment
from ...behaviour.rollouts import read_outs
from ...behaviour.training_path import alignment_path
from ...behaviour.training_path_plot import alignment_curves, implied_step_curves, loss_curve
from ...estimates.errors_on_tasks import half_squared_errors
from ...estimates.estimate import Estimate
from ...estimates.means import finite_mean
from ...pictures.curves import colours, draw_curve, logarithmic_losses
from ...pictures.style import Figure, figure_of
from ...weights.implied_step import implied_steps
from ...weights.interpolation import Interpolation, implied_construction, interpolation
from ...weights.weight_path import weight_path
from ...weights.weight_products import products
from ..catalogue import measures
from ..result import RESULT_SEED, CheckpointSource, Measurement, Outcome, exact, percent
from .context import DEPTHS, percent_above

RECURRENT = ("recurrent-lsa-2", "recurrent-lsa-2-seed-1", "recurrent-lsa-2-seed-2")
TASK = LinearRegression()
NUM_TASKS = 100_000
ALIGNED_TASKS = 10_000
TUNING_TASKS = 5_000
KEY = jr.key(RESULT_SEED)
CONDITIONS = "half-MSE on {:,} tasks, N = d = 10, x ~ U(−½, ½)"


@measures("recurrent", checkpoints=RECURRENT)
def recurrent(source: CheckpointSource) -> Outcome:
    """One layer applied twice, from three seeds, beside two steps of GD and of GD++ with one (η, γ)."""
    descent, corrected = best_baseline("gd-2", TASK), best_baseline("gd++-2", TASK)
    models = {name: source.load(name) for name in RECURRENT}
    errors = half_squared_errors({"gd": descent, "gd++": corrected, **models}, TASK, num_tasks=NUM_TASKS, key=KEY)
    measurements = [
        Measurement("half-MSE of two steps of GD", "≈ 0.12", Estimate.of(errors["gd"]), 0.11, 0.13),
        Measurement("half-MSE of `recurrent-lsa-2`", "≈ 0.08", Estimate.of(errors[RECURRENT[0]]), 0.07, 0.09),
        Measurement("two steps of GD, official code", "0.1588", Estimate.of(errors["gd"]), 0.1535, 0.1641),
        Measurement("two steps of GD++, official code", "0.1116", Estimate.of(errors["gd++"]), 0.1075, 0.1157),
        Measurement("two recurrent layers, official code", "0.1136", Estimate.of(errors[RECURRENT[0]]), 0.1095, 0.1177),
    ]
    for name, model in models.items():
        measured = alignment(model, corrected, TASK, num_tasks=ALIGNED_TASKS, key=KEY)
        (step,) = implied_steps(products(model)[0])
        measurements += [
            Measurement(f"{name}: above GD, %", "below", percent_above(errors[name], errors["gd"]), high=0),
            Measurement(f"{name}: above GD++, %", "0", percent_above(errors[name], errors["gd++"]), high=1.5),
            Measurement(f"{name}: sensitivity cosine with GD++", "≈ 1", measured.sensitivity_cosine, low=0.99),
            Measurement(
                f"{name}: η/N that the weights imply", "–", exact(step.step_size_over_num_examples), 1.30, 1.40
            ),
            Measurement(f"{name}: γ that the weights imply", "–", exact(step.gamma), 0.165, 0.185),
        ]
    figure = _training_figure(source.place(RECURRENT[0]), corrected, Estimate.of(errors["gd"]))
    return Outcome(tuple(measurements), CONDITIONS.format(NUM_TASKS), figure)


@measures("recurrent-ten", checkpoints=("recurrent-lsa-10",))
def recurrent_ten(source: CheckpointSource) -> Outcome:
    """One layer applied ten times beside ten steps of GD, of the best GD++ with one (η, γ), and of the GD++ its weights imply."""
    model = source.load("recurrent-lsa-10")
    best, implied = best_baseline("gd++-10", TASK), _implied_descent(model, 10)
    algorithms = {"best GD": _tuned("gd-10"), "best GD++": best, "GD++ of the weights": implied}
    errors = half_squared_errors({"trained": model, **algorithms}, TASK, num_tasks=NUM_TASKS, key=KEY)
    above = {name: percent_above(errors["trained"], errors[name]) for name in algorithms}
    measurements = [Measurement("above ten steps of the best GD, %", "below", above["best GD"], high=0)]
    for name, published in (("best GD++", ("0", "≈ 1")), ("GD++ of the weights", ("–", "–"))):
        cosine = _cosine(model, algorithms[name])
        measurements += [
            Measurement(f"above ten steps of the {name}, %", published[0], above[name], -5, 5),
            Measurement(f"sensitivity cosine with the {name}", published[1], cosine, low=0.99),
        ]
    ratio = exact(float(implied.step_size[0] / best.step_size))
    measurements.append(Measurement("η of the weights, in parts of that of the best GD++", "1", ratio, 0.9, 1.1))
    return Outcome(tuple(measurements), CONDITIONS.format(NUM_TASKS), _step_by_step_figure(model, algorithms))


@measures("deep", checkpoints=tuple(f"deep-lsa-{depth}" for depth in DEPTHS))
def deep(source: CheckpointSource) -> Outcome:
    """One to five layers beside as many steps of GD, and of the GD++ that their weights imply."""
    models = {depth: source.load(f"deep-lsa-{depth}") for depth in DEPTHS}
    descents = {depth: _tuned(f"gd-{depth}") for depth in DEPTHS}
    corrected = {depth: _implied_descent(model, depth) for depth, model in models.items() if depth > 1}
    errors = {
        kind: half_squared_errors(_named(learners), TASK, num_tasks=NUM_TASKS, key=KEY)
        for kind, learners in (("trained", models), ("gd", descents), ("gd++", corrected))
    }
    cosines = {
        kind: {depth: _cosine(models[depth], other) for depth, other in others.items()}
        for kind, others in (("gd", descents), ("gd++", corrected))
    }
    above = {depth: percent_above(errors["trained"][str(depth)], errors["gd"][str(depth)]) for depth in DEPTHS}
    measurements = [
        Measurement("1 layer: above one step of GD, %", "0", above[1], -0.3, 0.3),
        Measurement("1 layer: sensitivity cosine with GD", "≈ 1", cosines["gd"][1], low=0.99),
    ]
    for depth, cosine in cosines["gd++"].items():
        measurements += [
            Measurement(f"{depth} layers: above as many steps of GD, %", "below", above[depth], high=0),
            Measurement(f"{depth} layers: sensitivity cosine with GD++", "≈ 1", cosine, low=0.99),
        ]
    return Outcome(tuple(measurements), CONDITIONS.format(NUM_TASKS), _deep_figure(errors, cosines))


def _named(learners: Mapping[int, Learner]) -> dict[str, Learner]:
    return {str(depth): learner for depth, learner in learners.items()}


@measures("naive-interpolation", checkpoints=("deep-lsa-5",))
def naive_interpolation(source: CheckpointSource) -> Outcome:
    """The loss on the straight line between five trained layers and the construction each of them implies."""
    model = source.load("deep-lsa-5")
    line = interpolation(model, implied_construction(model), TASK, num_tasks=10_000, key=KEY)
    measurements = (
        Measurement(
            "largest change of the loss for t in [0, 1], products as they are, %",
            "large",
            _deviation(line, "products"),
            low=5,
        ),
        Measurement("the same of the factors, %", "large", _deviation(line, "factors"), low=5),
        Measurement("the same of the products, gauge removed, %", "–", _deviation(line, "gauge removed"), low=0.5),
    )
    return Outcome(measurements, CONDITIONS.format(10_000), figure_of(line.plot(names=("deep-lsa-5", "construction"))))


def _deviation(line: Interpolation, curve: str) -> Estimate:
    return percent(Estimate(line.deviation(curve), None))


def _cosine(model: Learner, other: Learner) -> Estimate:
    return alignment(model, other, TASK, num_tasks=ALIGNED_TASKS, key=KEY).sensitivity_cosine


def _tuned(name: str) -> Learner:
    """The algorithm called `name` at its best on `TUNING_TASKS` tasks that nothing is measured on."""
    return fitted_baseline(name, *TASK.sample_batch(jr.key(RESULT_SEED + 1), TUNING_TASKS))


def _implied_descent(model: Any, num_steps: int) -> GradientDescentPlusPlus:
    """The steps of GD++ that the weights of each layer, or of one applied several times, imply."""
    steps = [step for layer in products(model) for step in implied_steps(layer)]
    etas = jnp.array([step.step_size_over_num_examples * TASK.num_examples for step in steps])
    gammas = jnp.array([step.gamma for step in steps])
    return GradientDescentPlusPlus(*(jnp.broadcast_to(p, num_steps) for p in (etas, gammas)), num_steps=num_steps)


def _training_figure(place: Any, corrected: Learner, descent: Estimate) -> Figure:
    """Loss beside both algorithms, alignment with GD++ and what the weights imply, over training."""
    path = alignment_path(place, "gd++-2", corrected, TASK, key=KEY)
    figure = Figure(figsize=(15.5, 4.4), layout="constrained")
    loss, aligned, implied = figure.subplots(1, 3)
    loss_curve(path, ax=loss)
    if descent.value is not None:
        loss.axhline(descent.value, color="0.3", linestyle="-.", label="gd-2")
    loss.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, fontsize="small", ncols=2)
    alignment_curves(path, ax=aligned)
    implied_step_curves(weight_path(place), ax=implied)
    return figure


def _step_by_step_figure(model: Any, algorithms: Mapping[str, Any]) -> Figure:
    """The half-MSE read out after each application of the layer, and after each step of algorithms tuned for ten."""
    layers = {name: _constructed(algorithm) for name, algorithm in algorithms.items()}
    figure = Figure(figsize=(5.6, 4.0), layout="constrained")
    ax, drawn = figure.subplots(), []
    for colour, line, (name, learner) in zip(
        colours(4), ("-", "-.", "--", ":"), ({"recurrent-lsa-10": model} | layers).items(), strict=True
    ):
        means = read_outs(learner, TASK, num_tasks=ALIGNED_TASKS, key=KEY).mean
        draw_curve(ax, range(len(means)), means, color=colour, linestyle=line, marker="o", markersize=4, label=name)
        drawn += [mean.value for mean in means]
    logarithmic_losses(ax, drawn)
    ax.set(xlabel="applications of the layer, or steps", ylabel=f"half-MSE, {ALIGNED_TASKS:,} tasks")
    ax.legend(frameon=False, fontsize="small")
    return figure


def _constructed(algorithm: Any) -> Any:
    """Layers that take the steps of an algorithm, so that each can be read out."""
    etas, gammas = (
        jnp.broadcast_to(getattr(algorithm, name, 0.0), algorithm.num_steps) for name in ("step_size", "gamma")
    )
    return gd_plus_plus_lsa(etas, gammas, num_examples=TASK.num_examples, input_dim=TASK.input_dim)


def _deep_figure(
    errors: Mapping[str, Mapping[str, np.ndarray]], cosines: Mapping[str, Mapping[int, Estimate]]
) -> Figure:
    """Half-MSE and sensitivity cosine against depth."""
    figure = Figure(figsize=(10, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = {"trained": "trained layers", "gd": "best GD, one η", "gd++": "GD++ of their weights"}
    for colour, line, (kind, name) in zip(colours(3), ("-", "-.", "--"), names.items(), strict=True):
        style = {"color": colour, "linestyle": line, "marker": "o", "markersize": 4}
        depths, means = [int(depth) for depth in errors[kind]], [finite_mean(e) for e in errors[kind].values()]
        draw_curve(left, depths, means, label=name, **style)
        if kind in cosines:
            draw_curve(right, list(cosines[kind]), list(cosines[kind].values()), label=f"with {name}", **style)
    logarithmic_losses(left, [values.mean() for by_depth in errors.values() for values in by_depth.values()])
    for ax, label in ((left, "half-MSE"), (right, "sensitivity cosine of the trained layers")):
        ax.set(xlabel="layers, or steps", ylabel=label, xticks=DEPTHS)
        ax.legend(frameon=False, fontsize="small")
    return figure
