"""The size of the gradient step that a layer is compared with: Rossi et al. 2024."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from jaxtyping import Array
from scipy.optimize import minimize_scalar

from ....train.losses import squared_error
from ....train.tasks.inputs import Gaussian, Uniform
from ....train.tasks.regression import LinearRegression
from ....train.tuning.step_size import optimal_step_size
from ....zoo.algorithms.gradient_descent import GradientDescent
from ....zoo.algorithms.one_step import fitted_step_size
from ....zoo.prompt import Prompt
from ...behaviour.alignment import Alignment, alignment
from ...estimates.estimate import Estimate
from ...pictures.curves import colours, draw_curve
from ...pictures.style import Figure
from ...weights.implied_step import implied_steps
from ...weights.weight_products import products
from ..catalogue import measures
from ..result import RESULT_SEED, CheckpointSource, Measurement, Outcome, exact, percent

NUM_TASKS = 100_000
NUM_STEP_TASKS = 20_000
TASK = LinearRegression()
KEY = jr.key(RESULT_SEED)
LONG = replace(TASK, num_examples=100)
RATES = (5.0, 11.0)  # of the figure of Rossi et al.
SETTINGS = {
    "N = d = 10, x ~ U(−½, ½)": TASK,
    "N = 100, d = 10, x ~ U(−½, ½)": LONG,
    "N = 20, d = 5, x ~ N(0, I)": LinearRegression(input_dim=5, num_examples=20, inputs=Gaussian()),
}


@measures("learning-rates", checkpoints=("lsa-100-examples", "lsa-100-examples-half-width-1"))
def learning_rates(source: CheckpointSource) -> Outcome:
    """A layer for a hundred examples beside steps of several sizes: the cosine does not see the size, the distances do."""
    layer = source.load("lsa-100-examples")
    optimum = optimal_step_size(LONG).step_size
    wide = replace(LONG, inputs=Uniform(1.0))
    (wide_reading,) = implied_steps(products(source.load("lsa-100-examples-half-width-1"))[0])
    small, large = (alignment(layer, GradientDescent(eta), LONG, num_tasks=NUM_TASKS, key=KEY) for eta in RATES)
    measurements = (
        Measurement("η = 5: sensitivity cosine", "aligned", small.sensitivity_cosine, low=0.99),
        Measurement("η = 11: sensitivity cosine", "aligned", large.sensitivity_cosine, low=0.99),
        Measurement(
            "prediction distance, η = 5 over η = 11",
            "≫ 1",
            exact(_ratio(small.prediction_distance, large.prediction_distance)),
            low=5,
        ),
        Measurement(
            "sensitivity distance, η = 5 over η = 11",
            "≫ 1",
            exact(_ratio(small.sensitivity_distance, large.sensitivity_distance)),
            low=5,
        ),
        Measurement("closed-form η* for x ~ U(−½, ½)", "11", exact(optimum), 10.5, 11.5),
        Measurement(
            "closed-form η* for x ~ U(−1, 1), as in the text",
            "11",
            exact(optimal_step_size(wide).step_size),
            10.5,
            11.5,
        ),
        Measurement(
            "η that the layer trained on x ~ U(−1, 1) implies",
            "11",
            exact(wide_reading.step_size_over_num_examples * wide.num_examples),
            10.5,
            11.5,
        ),
    )
    etas = np.unique([*np.linspace(2.0, 20.0, 19), optimum])
    aligned = [alignment(layer, GradientDescent(eta), LONG, num_tasks=2_000, key=KEY) for eta in etas]
    conditions = f"{NUM_TASKS:,} tasks (curves: 2,000), N = 100, d = 10, x ~ U(−½, ½) unless the row says otherwise"
    return Outcome(measurements, conditions, _rates_figure(etas, aligned, optimum))


@measures("closed-form-step")
def closed_form_step(source: CheckpointSource) -> Outcome:
    """η* from labelled tasks, from the distribution, and by searching along the line of losses."""
    measurements, curves = [], {}
    for name, task in SETTINGS.items():
        prompts, targets = task.sample_batch(KEY, NUM_STEP_TASKS)
        fitted = _fitted(prompts, targets)
        optimum = optimal_step_size(task).step_size

        def loss(eta: float, prompts: Prompt = prompts, targets: Array = targets) -> float:
            return float(np.asarray(_squared_errors(GradientDescent(eta), prompts, targets), np.float64).mean() / 2)

        search: Any = minimize_scalar(
            loss, bounds=(0.0, 4 * optimum), method="bounded", options={"xatol": 1e-4 * optimum}
        )
        assert fitted.value is not None
        measurements += [
            Measurement(
                f"{name}: formula relative to line search, %",
                "0",
                exact(100 * (fitted.value / search.x - 1)),
                -0.1,
                0.1,
            ),
            Measurement(
                f"{name}: formula relative to the expected optimum η* = {optimum:.4g}, %",
                "0",
                percent(Estimate(fitted.value - optimum, fitted.standard_error), of=optimum),
                -2,
                2,
            ),
        ]
        etas = np.linspace(0.0, 2.0 * optimum, 11)
        curves[name] = (etas, [loss(eta) for eta in etas], optimum, fitted.value, (search.x, search.fun))
    conditions = f"half-MSE of one step of GD from zero, {NUM_STEP_TASKS:,} labelled tasks a setting"
    return Outcome(tuple(measurements), conditions, _step_figure(curves))


_squared_errors = eqx.filter_jit(jax.vmap(squared_error, in_axes=(None, 0, 0)))


def _ratio(numerator: Estimate, denominator: Estimate) -> float:
    assert numerator.value is not None
    assert denominator.value is not None
    return numerator.value / denominator.value


def _fitted(prompts: Prompt, targets: Array) -> Estimate:
    """`fitted_step_size`, with its standard error: N times that of the mean of s(y − ŷ) at η*, over the mean of s²."""
    eta, N = float(fitted_step_size(prompts, targets)), prompts.num_examples
    s = np.asarray(jax.vmap(GradientDescent(N))(prompts), np.float64)[:, 0]
    error = Estimate.of(s * (np.asarray(targets, np.float64)[:, 0] - eta / N * s)).standard_error
    return Estimate(eta, None if error is None else float(N * error / (s**2).mean()))


def _rates_figure(etas: np.ndarray, aligned: list[Alignment], optimum: float) -> Figure:
    figure = Figure(figsize=(12.0, 3.9), layout="constrained")
    panels = {
        "prediction_distance": "prediction distance",
        "sensitivity_distance": "sensitivity distance",
        "sensitivity_cosine": "sensitivity cosine",
    }
    for ax, (measure, name) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        draw_curve(ax, etas, [getattr(one, measure) for one in aligned], color=colours(1)[0])
        for eta, colour in zip(RATES, colours(3)[1:], strict=True):
            ax.axvline(eta, color=colour, linestyle="--", label=f"η = {eta:g}")
        ax.axvline(optimum, color="0.3", linestyle=":", label=f"closed form, η* = {optimum:.2f}")
        ax.set(xlabel="η of the gradient step", ylabel=name)
        ax.set_ylim(0, 1.05 if measure == "sensitivity_cosine" else None)
    figure.axes[-1].legend(frameon=False, fontsize="small", loc="lower right")
    figure.suptitle("lsa-100-examples beside one step of GD, N = 100, x ~ U(−½, ½)", fontsize="medium")
    return figure


def _step_figure(curves: dict) -> Figure:
    figure = Figure(figsize=(12.0, 3.9), layout="constrained")
    first, second, third = colours(3)
    for ax, (name, (etas, losses, optimum, fitted, searched)) in zip(
        figure.subplots(1, 3), curves.items(), strict=True
    ):
        fine = np.linspace(etas[0], etas[-1], 200)
        ax.plot(
            fine, np.poly1d(np.polyfit(etas, losses, 2))(fine), color="0.6", label="the parabola through the losses"
        )
        ax.plot(etas, losses, "o", color=first, markersize=4, label="half-MSE, measured")
        ax.axvline(fitted, ymax=0.6, color=second, label=f"formula on the tasks: {fitted:.4g}")
        ax.axvline(optimum, ymax=0.6, color="0.3", linestyle=":", label=f"expected optimum: {optimum:.4g}")
        ax.plot(*searched, "D", color=third, label=f"line search: {searched[0]:.4g}")
        ax.set(xlabel="η", ylabel="half-MSE", title=name)
        ax.legend(frameon=False, fontsize="small", loc="upper center")
        ax.set_ylim(top=max(losses) * 1.45)
    return figure
