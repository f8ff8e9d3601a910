"""Several layers and several steps: von Oswald et al. 2023, Figure 3 and appendix A.10; Rossi et al. 2024."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from matplotlib.figure import Figure

from ...train.baselines import best_baseline, fitted_baseline
from ...train.tasks import LinearRegression
from ...zoo.algorithms.gradient_descent import GradientDescent, GradientDescentPlusPlus
from ...zoo.prompt import Learner
from ..alignment import Mean, alignment
from ..curves_plot import colours, draw_curve, logarithmic_losses
from ..errors_on_tasks import half_squared_errors
from ..fitted_steps import fitted_steps
from ..interpolation import Interpolation, interpolation, read_construction
from ..interpolation_plot import interpolation_figure
from ..means import finite_mean
from ..reproduction import RESULT_SEED, Bar, Finding, Outcome, Result, Shelf, exact, percent
from ..rollouts import read_outs
from ..training_path import alignment_path, weight_path
from ..training_path_plot import alignment_curves, loss_curve, readings_curves
from ..weights import products, read_step
from .context import CONTEXT_AND_DEPTH, DEPTHS, percent_above

RECURRENT = ("recurrent-lsa-2", "recurrent-lsa-2-seed-1", "recurrent-lsa-2-seed-2")
TASK = LinearRegression()
NUM_TASKS = 100_000
ALIGNED_TASKS = 10_000
TUNING_TASKS = 20_000
FITTING_TASKS = 2_000
KEY = jr.key(RESULT_SEED)
CONDITIONS = "half-MSE on {:,} tasks, N = d = 10, x ~ U(−½, ½)"


def recurrent(shelf: Shelf) -> Outcome:
    """One layer applied twice, from three seeds, beside two steps of GD and of GD++ with one (η, γ)."""
    descent, corrected = best_baseline("gd-2", TASK), best_baseline("gd++-2", TASK)
    models = {name: shelf.load(name) for name in RECURRENT}
    errors = half_squared_errors({"gd": descent, "gd++": corrected, **models}, TASK, num_tasks=NUM_TASKS, key=KEY)
    findings = [
        Finding("half-MSE of two steps of GD", "≈ 0.12", Mean.of(errors["gd"]), Bar(0.11, 0.13)),
        Finding("half-MSE of `recurrent-lsa-2`", "≈ 0.08", Mean.of(errors[RECURRENT[0]]), Bar(0.07, 0.09)),
        Finding("two steps of GD, official code", "0.1588", Mean.of(errors["gd"]), Bar(0.1535, 0.1641)),
        Finding("two steps of GD++, official code", "0.1116", Mean.of(errors["gd++"]), Bar(0.1075, 0.1157)),
        Finding("two recurrent layers, official code", "0.1136", Mean.of(errors[RECURRENT[0]]), Bar(0.1095, 0.1177)),
    ]
    for name, model in models.items():
        measured = alignment(model, corrected, TASK, num_tasks=ALIGNED_TASKS, key=KEY)
        (reading,) = read_step(products(model)[0])
        findings += [
            Finding(f"{name}: above GD, %", "below", percent_above(errors[name], errors["gd"]), Bar(high=0)),
            Finding(f"{name}: above GD++, %", "0", percent_above(errors[name], errors["gd++"]), Bar(high=1.5)),
            Finding(f"{name}: sensitivity cosine with GD++", "≈ 1", measured.sensitivity_cosine, Bar(low=0.99)),
            Finding(
                f"{name}: η/N that the weights spell", "–", exact(reading.step_size_over_num_examples), Bar(1.30, 1.40)
            ),
            Finding(f"{name}: γ that the weights spell", "–", exact(reading.gamma), Bar(0.165, 0.185)),
        ]
    figure = _training_figure(shelf.place(RECURRENT[0]), corrected, Mean.of(errors["gd"]))
    return Outcome(tuple(findings), CONDITIONS.format(NUM_TASKS), figure)


def recurrent_ten(shelf: Shelf) -> Outcome:
    """One layer applied ten times beside ten steps of GD, and of the GD++ with one (η, γ) that it is closest to."""
    model, descent = shelf.load("recurrent-lsa-10"), _descent(10)
    prompts, _ = TASK.sample_batch(jr.key(RESULT_SEED + 1), FITTING_TASKS)
    corrected = fitted_baseline("gd++-10", prompts, jax.vmap(model)(prompts))
    learners = {"gd": descent, "gd++": corrected, "trained": model}
    errors = half_squared_errors(learners, TASK, num_tasks=NUM_TASKS, key=KEY)
    measured = alignment(model, corrected, TASK, num_tasks=ALIGNED_TASKS, key=KEY)
    findings = (
        Finding("trained: above GD, %", "below", percent_above(errors["trained"], errors["gd"]), Bar(high=0)),
        Finding("trained: from GD++, %", "0", percent_above(errors["trained"], errors["gd++"]), Bar(-5, 5)),
        Finding("trained: sensitivity cosine with GD++", "≈ 1", measured.sensitivity_cosine, Bar(low=0.99)),
    )
    assert isinstance(corrected, GradientDescentPlusPlus)
    return Outcome(findings, CONDITIONS.format(NUM_TASKS), _step_by_step_figure(model, descent, corrected))


def deep(shelf: Shelf) -> Outcome:
    """One to five layers beside as many steps of GD, and of GD++ with the (η, γ) of each layer."""
    models = {depth: shelf.load(f"deep-lsa-{depth}") for depth in DEPTHS}
    descents = {depth: _descent(depth) for depth in DEPTHS}
    corrected = {depth: _layer_steps(model) for depth, model in models.items() if depth > 1}
    errors = {
        kind: half_squared_errors(_named(learners), TASK, num_tasks=NUM_TASKS, key=KEY)
        for kind, learners in (("trained", models), ("gd", descents), ("gd++", corrected))
    }
    cosines = {
        kind: {depth: _cosine(models[depth], other) for depth, other in others.items()}
        for kind, others in (("gd", descents), ("gd++", corrected))
    }
    above = {depth: percent_above(errors["trained"][str(depth)], errors["gd"][str(depth)]) for depth in DEPTHS}
    findings = [
        Finding("1 layer: above one step of GD, %", "0", above[1], Bar(-0.3, 0.3)),
        Finding("1 layer: sensitivity cosine with GD", "≈ 1", cosines["gd"][1], Bar(low=0.99)),
    ]
    for depth, cosine in cosines["gd++"].items():
        findings += [
            Finding(f"{depth} layers: above as many steps of GD, %", "below", above[depth], Bar(high=0)),
            Finding(f"{depth} layers: sensitivity cosine with GD++", "≈ 1", cosine, Bar(low=0.99)),
        ]
    return Outcome(tuple(findings), CONDITIONS.format(NUM_TASKS), _deep_figure(errors, cosines))


def _named(learners: Mapping[int, Learner]) -> dict[str, Learner]:
    return {str(depth): learner for depth, learner in learners.items()}


def naive_interpolation(shelf: Shelf) -> Outcome:
    """The loss on the straight line between five trained layers and the construction each of them spells."""
    model = shelf.load("deep-lsa-5")
    line = interpolation(model, read_construction(model), TASK, num_tasks=10_000, key=KEY)
    findings = (
        Finding(
            "largest change of the loss for t in [0, 1], products as they are, %",
            "large",
            _deviation(line, "products"),
            Bar(low=5),
        ),
        Finding("the same of the factors, %", "large", _deviation(line, "factors"), Bar(low=5)),
        Finding("the same of the products, gauge removed, %", "–", _deviation(line, "gauge removed"), Bar(low=0.5)),
    )
    return Outcome(
        findings, CONDITIONS.format(10_000), interpolation_figure(line, names=("deep-lsa-5", "construction"))
    )


def _deviation(line: Interpolation, curve: str) -> Mean:
    return percent(Mean(line.deviation(curve), None))


def _cosine(model: Learner, other: Learner) -> Mean:
    return alignment(model, other, TASK, num_tasks=ALIGNED_TASKS, key=KEY).sensitivity_cosine


def _descent(num_steps: int) -> GradientDescent:
    """Steps of GD with one η, the best of all on `TUNING_TASKS` tasks."""
    tuned = fitted_baseline(f"gd-{num_steps}", *TASK.sample_batch(jr.key(RESULT_SEED + 1), TUNING_TASKS))
    assert isinstance(tuned, GradientDescent)
    return tuned


def _layer_steps(model: Any) -> GradientDescentPlusPlus:
    """The steps of GD++ whose (η, γ) come closest to what each layer of a model does to its tokens."""
    layers = fitted_steps(model, TASK, num_tasks=FITTING_TASKS, key=jr.key(RESULT_SEED + 1)).layers
    etas = [(layer.step_size_over_num_examples.value or 0.0) * TASK.num_examples for layer in layers]
    gammas = [layer.gamma.value or 0.0 for layer in layers]
    return GradientDescentPlusPlus(jnp.array(etas), jnp.array(gammas), num_steps=len(layers))


def _training_figure(place: Any, corrected: Learner, descent: Mean) -> Figure:
    """Loss beside both algorithms, alignment with GD++ and what the weights spell, over training."""
    path = alignment_path(place, "gd++-2", corrected, TASK, key=KEY)
    figure = Figure(figsize=(15.5, 4.4), layout="constrained")
    loss, aligned, readings = figure.subplots(1, 3)
    loss_curve(path, ax=loss)
    if descent.value is not None:
        loss.axhline(descent.value, color="0.3", linestyle="-.", label="gd-2")
    loss.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, fontsize="small", ncols=2)
    alignment_curves(path, ax=aligned)
    readings_curves(weight_path(place), ax=readings)
    return figure


def _step_by_step_figure(model: Any, descent: GradientDescent, corrected: GradientDescentPlusPlus) -> Figure:
    """The half-MSE read out after each application, and after each step of the two algorithms tuned for all of them."""
    counts = range(1, model.num_loops + 1)
    learners = {f"gd {k}": GradientDescent(descent.step_size, num_steps=k) for k in counts}
    learners |= {
        f"gd++ {k}": GradientDescentPlusPlus(corrected.step_size, corrected.gamma, num_steps=k) for k in counts
    }
    errors = half_squared_errors(learners, TASK, num_tasks=10_000, key=KEY)
    trained = read_outs(model, TASK, num_tasks=10_000, key=KEY).mean
    curves = {
        "recurrent-lsa-10": trained,
        "gd-10": [trained[0], *(finite_mean(errors[f"gd {k}"]) for k in counts)],
        "gd++-10": [trained[0], *(finite_mean(errors[f"gd++ {k}"]) for k in counts)],
    }
    figure = Figure(figsize=(5.6, 4.0), layout="constrained")
    ax = figure.subplots()
    for colour, style, (name, means) in zip(colours(3), ("-", "-.", "--"), curves.items(), strict=True):
        draw_curve(ax, [0, *counts], means, color=colour, linestyle=style, marker="o", markersize=4, label=name)
    logarithmic_losses(ax, [mean.value for means in curves.values() for mean in means])
    ax.set(xlabel="applications of the layer, or steps", ylabel="half-MSE, 10,000 tasks")
    ax.legend(frameon=False, fontsize="small")
    return figure


def _deep_figure(errors: Mapping[str, Mapping[str, np.ndarray]], cosines: Mapping[str, Mapping[int, Mean]]) -> Figure:
    """Half-MSE and sensitivity cosine against depth."""
    figure = Figure(figsize=(10, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = {"trained": "trained layers", "gd": "GD, one η", "gd++": "GD++, (η, γ) of the layers"}
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


RESULTS = (
    Result(
        id="recurrent",
        claim="Two applications of one trained layer beat two steps of gradient descent and match two steps of GD++ with one (η, γ).",
        source="von Oswald et al. 2023, Figure 3",
        checkpoints=RECURRENT,
        measure=recurrent,
        because="The 0.08 and 0.12 of the digest are not what the official code of the paper gives with its published settings (0.1136 and "
        "0.1588), nor what two steps of GD++ with one (η, γ) can reach: 0.110, which every trained layer comes to.",
    ),
    Result(
        id="recurrent-ten",
        claim="Ten applications of one trained layer beat ten steps of gradient descent and match ten steps of GD++ with one (η, γ).",
        source="von Oswald et al. 2023, section 3 and appendix A.9",
        checkpoints=("recurrent-lsa-10",),
        measure=recurrent_ten,
    ),
    Result(
        id="deep",
        claim="Two to five trained layers beat as many steps of gradient descent and align with GD++ that has an η and a γ for each step.",
        source="von Oswald et al. 2023, Figure 3 and appendix A.10",
        checkpoints=tuple(f"deep-lsa-{depth}" for depth in DEPTHS),
        measure=deep,
    ),
    Result(
        id="naive-interpolation",
        claim="On the straight line between five trained layers and their construction the loss does change: deep weights need not match.",
        source="von Oswald et al. 2023, Figure 3",
        checkpoints=("deep-lsa-5",),
        measure=naive_interpolation,
    ),
    CONTEXT_AND_DEPTH,
)
