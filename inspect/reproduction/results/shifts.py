"""Trained layers and the steps they take where the task is not the one of training: von Oswald et al. 2023, appendices A.2 and A.6."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import jax.random as jr
import numpy as np

from ....train.tasks.inputs import Uniform
from ....train.tasks.regression import LinearRegression
from ....train.tasks.sweeps import distribution
from ....train.tuning.baselines import best_baseline
from ....zoo.algorithms.gradient_descent import GradientDescent, GradientDescentPlusPlus
from ...behaviour.rollouts import Rollout, Rollouts, rollouts
from ...behaviour.rollouts_plot import rollouts_figure
from ...behaviour.shifts import Shift, shift
from ...behaviour.shifts_plot import shift_curves
from ...estimates.errors_on_tasks import half_squared_errors
from ...estimates.estimate import Estimate
from ...estimates.means import UNDEFINED, finite_mean
from ...pictures.curves import colours, draw_curve, logarithmic_losses
from ...pictures.style import Figure
from ...weights.implied_step import implied_steps
from ...weights.interpolation import with_products
from ...weights.weight_products import gauge_fixed, products
from ..catalogue import measures
from ..result import RESULT_SEED, CheckpointSource, Measurement, Outcome, percent

SEEDS = ("lsa", "lsa-seed-2", "lsa-seed-3")
RECURRENT = ("recurrent-lsa-2", "recurrent-lsa-2-seed-1", "recurrent-lsa-2-seed-2")
TASK = LinearRegression()
HALF_WIDTH = 0.5  # of the inputs in training
KEY = jr.key(RESULT_SEED)
ALPHAS = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)  # as in the paper, in parts of what was trained on
NUM_TASKS = 100_000

DISTRIBUTIONS = ("normal", "exponential", "Laplace")
DISTRIBUTION_ALPHAS = (0.5, 0.75, 1.0, 1.5, 2.0)
DISTRIBUTION_TASKS = 20_000

Errors = dict[str, list[dict[str, np.ndarray]]]  # of each kind of inputs, at each α, by learner

DAMPINGS = (1.0, 0.75, 0.7)
NUM_APPLICATIONS = 30
ROLLED_TASKS = 10_000
PARTS = f"after {NUM_APPLICATIONS} applications, in parts of after 1"
GAIN = f"mean {PARTS}"


@measures("input-shift", checkpoints=SEEDS)
def input_shift(source: CheckpointSource) -> Outcome:
    """Inputs from U(−α/2, α/2)."""
    models, widths = {name: source.load(name) for name in SEEDS}, [alpha * HALF_WIDTH for alpha in ALPHAS]
    measured = _beside_descent(models, "half_width", widths)
    measurements = _overlay(measured, at_twice=5.04)
    for name, model in models.items():
        (step,) = implied_steps(products(model)[0])
        own = {"its step": GradientDescent(step.step_size_over_num_examples * TASK.num_examples), name: model}
        beside_own = shift("half_width", own, TASK, values=widths, num_tasks=NUM_TASKS, key=KEY)
        what = f"{name}: the same from GD with the η its weights imply, %"
        measurements.append(Measurement(what, "–", _largest_difference(beside_own, name), -1, 1))
    conditions = f"half-MSE on {NUM_TASKS:,} tasks, N = d = 10, x ~ U(−α/2, α/2), α from ½ to 2 (training: 1)"
    return Outcome(tuple(measurements), conditions, _scaled_figure(measured))


@measures("teacher-shift", checkpoints=SEEDS)
def teacher_shift(source: CheckpointSource) -> Outcome:
    """Teachers from N(0, α²I)."""
    measured = _beside_descent({name: source.load(name) for name in SEEDS}, "teacher_scale", ALPHAS)
    conditions = (
        f"half-MSE on {NUM_TASKS:,} tasks, N = d = 10, x ~ U(−½, ½), w ~ N(0, α²I), α from ½ to 2 (training: 1)"
    )
    return Outcome(tuple(_overlay(measured, at_twice=0.4949)), conditions, _scaled_figure(measured))


def _beside_descent(models: dict[str, Any], kind: str, values: Sequence[float]) -> Shift:
    """Trained layers beside one step of gradient descent, with the η of training, against a scale."""
    learners = {"one step of GD": best_baseline("gd-1", TASK), **models, "predicting 0": best_baseline("zero", TASK)}
    return shift(kind, learners, TASK, values=values, num_tasks=NUM_TASKS, key=KEY)


def _overlay(measured: Shift, *, at_twice: float) -> list[Measurement]:
    """How far the trained layers are from gradient descent, and how far the scale brings all of them from predicting 0."""
    *learners, nothing = measured.half_mse
    zero = measured.half_mse[nothing][-1].value
    what = "largest difference from GD over the range, %"
    differences = [Measurement(f"{name}: {what}", "0", _largest_difference(measured, name), -1, 1) for name in SEEDS]
    return differences + [
        Measurement(
            f"{name}: half-MSE at α = 2, in parts of that of predicting 0",
            f"{at_twice} (closed form)",
            _ratio(measured.half_mse[name][-1], to=zero),
            round(0.97 * at_twice, 3),
            round(1.03 * at_twice, 3),
        )
        for name in learners
    ]


@measures("distributions", checkpoints=(*SEEDS, *RECURRENT))
def distributions(source: CheckpointSource) -> Outcome:
    """Normal, exponential and Laplace inputs, scaled by α, for one layer and for one layer applied twice."""
    models = {name: source.load(name) for name in (*SEEDS, *RECURRENT)}
    steps = {f"the steps of {name}": _implied_descent(models[name]) for name in RECURRENT}
    learners = {"GD": best_baseline("gd-1", TASK), "GD++": best_baseline("gd++-2", TASK)} | models | steps
    errors: Errors = {inputs: [] for inputs in DISTRIBUTIONS}
    for alpha in DISTRIBUTION_ALPHAS:
        sweep = distribution(replace(TASK, inputs=Uniform(alpha * HALF_WIDTH)), DISTRIBUTIONS)
        for inputs, task in zip(DISTRIBUTIONS, sweep.tasks, strict=True):
            errors[inputs].append(half_squared_errors(learners, task, num_tasks=DISTRIBUTION_TASKS, key=KEY))
    measurements = [
        Measurement(
            f"{name}, {inputs} inputs: largest difference from {algorithm} over α, %",
            "0",
            _largest(_percent_above(at_alpha[name], at_alpha[algorithm]) for at_alpha in errors[inputs]),
            -10,
            10,
        )
        for algorithm, names in (("GD", SEEDS), ("GD++", RECURRENT))
        for inputs in DISTRIBUTIONS
        for name in names
    ]
    measurements += [
        Measurement(
            f"{name}: largest of all from GD++ with the (η, γ) its weights imply, %",
            "–",
            _largest(
                _percent_above(at_alpha[name], at_alpha[f"the steps of {name}"])
                for inputs in DISTRIBUTIONS
                for at_alpha in errors[inputs]
            ),
            -10,
            10,
        )
        for name in RECURRENT
    ]
    conditions = (
        f"half-MSE on {DISTRIBUTION_TASKS:,} tasks, N = d = 10, inputs with E[x²] = α²/12, "
        "α from ½ to 2 (training: α = 1, uniform); GD is one step, GD++ two"
    )
    return Outcome(tuple(measurements), conditions, _distributions_figure(errors))


def _implied_descent(model: Any) -> GradientDescentPlusPlus:
    """The steps of GD++ that the weights of a layer applied twice imply."""
    (step,) = implied_steps(products(model)[0])
    return GradientDescentPlusPlus(step.step_size_over_num_examples * TASK.num_examples, step.gamma, num_steps=2)


def _percent_above(errors: np.ndarray, others: np.ndarray) -> Estimate:
    """How far a half-MSE is above another's on the same tasks, in per cent of that."""
    return percent(finite_mean(errors - others), of=float(others.mean()))


@measures("damping", checkpoints=SEEDS)
def damping(source: CheckpointSource) -> Outcome:
    """The trained layers, and the step of gradient descent, applied again and again, each update times λ."""
    models = {name: source.load(name) for name in SEEDS}
    trained = {name: _rolled(model) for name, model in models.items()}
    frozen = {f"{name} without its update of x": _rolled(_without_input_update(m)) for name, m in models.items()}
    descent = trained["lsa"].descent
    measurements = [
        Measurement("GD, λ = 1: diverging tasks, %", "≈ 3.5", percent(descent[0].diverging), 3, 4),
        Measurement(f"GD, λ = 1: {GAIN}", "diverges", Estimate(_gain(descent[0]).value, None), low=10),
        Measurement("GD, λ = 1: the same of the median", "falls", _median_gain(descent[0]), high=1),
        *(Measurement(f"GD, λ = {r.damping:g}: {GAIN}", "falls", _gain(r), high=1) for r in descent[1:]),
    ]
    for name, rolled in trained.items():
        whole, *damped = rolled.model
        measurements += [
            Measurement(f"{name}, λ = 1: diverging tasks, %", "diverges", percent(whole.diverging), low=3),
            Measurement(f"{name}, λ = 1: median {PARTS}", "falls", _median_gain(whole), high=1),
            *(Measurement(f"{name}, λ = {r.damping:g}: {GAIN}", "falls", _gain(r), high=1) for r in damped),
        ]
    measurements += [
        Measurement(f"{name}, λ = {r.damping:g}: {GAIN}", "–", _gain(r), high=1)
        for name, rolled in frozen.items()
        for r in rolled.model[1:]
    ]
    conditions = (
        f"half-MSE on {ROLLED_TASKS:,} tasks, N = d = 10, x ~ U(−½, ½), {NUM_APPLICATIONS} applications, η of one step"
    )
    return Outcome(tuple(measurements), conditions, rollouts_figure(trained["lsa"], name="lsa"))


def _rolled(model: Any) -> Rollouts:
    return rollouts(model, TASK, dampings=DAMPINGS, num_applications=NUM_APPLICATIONS, num_tasks=ROLLED_TASKS, key=KEY)


def _without_input_update(model: Any) -> Any:
    """The same layer with the x rows of W_PV set to zero: it changes y alone."""
    layers = gauge_fixed(model)
    return with_products(
        model, [replace(p, W_PV=p.W_PV * (np.arange(p.W_PV.shape[1]) >= p.input_dim)[:, None]) for p in layers]
    )


def _gain(rollout: Rollout) -> Estimate:
    return _ratio(rollout.mean[-1], to=rollout.mean[1].value)


def _median_gain(rollout: Rollout) -> Estimate:
    return _ratio(Estimate(rollout.median[-1], None), to=rollout.median[1])


def _ratio(mean: Estimate, to: float | None) -> Estimate:
    return percent(mean, of=100 * to) if to else UNDEFINED


def _difference(measured: Shift, name: str, place: int) -> Estimate:
    """How far a learner's half-MSE is above that of the first learner, in per cent of it."""
    first = next(iter(measured.half_mse.values()))[place].value
    return percent(measured.excess[name][place], of=first) if first else UNDEFINED


def _largest_difference(measured: Shift, name: str) -> Estimate:
    return _largest(_difference(measured, name, place) for place in range(len(measured.values)))


def _largest(means: Iterable[Estimate]) -> Estimate:
    """The mean of the largest size; undefined where one of them is."""
    return max(means, key=lambda mean: float("inf") if mean.value is None else abs(mean.value))


def _scaled_figure(measured: Shift) -> Figure:
    """The losses, and how far each trained layer is from gradient descent."""
    figure = Figure(figsize=(10.5, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    places = np.array(measured.values, np.float64)
    shift_curves(measured, ax=left)
    _, *shades = colours(len(measured.half_mse))
    for colour, name in zip(shades, SEEDS, strict=False):
        differences = [_difference(measured, name, place) for place in range(len(measured.values))]
        draw_curve(right, places, differences, color=colour, marker="o", markersize=4, label=name)
    right.axhline(0, color="0.6", linewidth=0.8, zorder=0)
    right.set_xticks(places, [f"{value:.3g}" for value in places], fontsize="small")
    right.set(xlabel=measured.setting, ylabel="half-MSE above that of GD, %")
    right.legend(frameon=False, fontsize="small")
    return figure


def _distributions_figure(errors: Errors) -> Figure:
    """One layer above, one layer applied twice below, a column for each distribution: half-MSE against α."""
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    axes = figure.subplots(2, len(errors), squeeze=False, sharex=True)
    for row, names in zip(axes, (("GD", *SEEDS), ("GD++", *RECURRENT)), strict=True):
        for ax, (inputs, at_alphas) in zip(row, errors.items(), strict=True):
            drawn = []
            for colour, style, name in zip(colours(len(names)), ("-", "--", ":", "-."), names, strict=True):
                means = [finite_mean(at_alpha[name]) for at_alpha in at_alphas]
                style = {"color": colour, "linestyle": style, "marker": "o", "markersize": 4, "label": name}
                draw_curve(ax, DISTRIBUTION_ALPHAS, means, **style)
                drawn += [mean.value for mean in means]
            logarithmic_losses(ax, drawn, decades=(10, 0))
            ax.set_title(f"{inputs} inputs", fontsize="medium")
        row[0].set_ylabel("half-MSE")
        row[0].legend(frameon=False, fontsize="small")
    for ax in axes[-1]:
        ax.set_xlabel("scale α of the inputs, E[x²] = α²/12")
    return figure
