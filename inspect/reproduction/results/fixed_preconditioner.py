"""What one layer does with prompts unlike those it was trained on, its preconditioner being fixed: Zhang et al. 2024."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from ....train.losses import over_tasks
from ....train.recipes.theory import VARIANCES
from ....train.tasks.inputs import Gaussian
from ....train.tasks.regression import LinearRegression
from ....train.tasks.teachers import GaussianTeacher
from ....zoo.algorithms.least_squares import LeastSquares
from ....zoo.prompt import Learner, Prompt
from ...behaviour.alignment import sensitivity
from ...estimates.errors_on_tasks import half_squared_errors
from ...estimates.estimate import Estimate
from ...estimates.means import as_arrays
from ...pictures.curves import colours
from ...pictures.style import Figure
from ...theory.exact_losses_plot import risk_curve
from ...theory.risk import PreconditionedRisk, risk
from ..catalogue import measures
from ..result import RESULT_SEED, CheckpointSource, Measurement, Outcome, exact, percent
from .learned_matrices import gamma_inverse, learned_preconditioner, off_diagonal

KEY = jr.key(RESULT_SEED)
ANISOTROPIC, RANDOM = "merged-lsa-anisotropic", "merged-lsa-random-covariance"
N, d = 20, len(VARIANCES)
TASK = LinearRegression(input_dim=d, num_examples=N, inputs=Gaussian(VARIANCES))
TRACE = sum(VARIANCES)
LENGTHS, LENGTH_TASKS = (5, 20, 80, 320, 1280), 30_000
TRAINING_LENGTHS = tuple(20 * 2**k for k in range(10))
SCALES, NUM_TASKS = (0.25, 0.5, 1.0, 2.0, 3.0, 4.0), 100_000
ISOTROPIC = ("lsa", "lsa-seed-2", "lsa-seed-3")
SHORT = LinearRegression(
    num_examples=5
)  # of ten input dimensions, as `ISOTROPIC` were trained on, but with fewer examples
RANDOM_N, RANDOM_D = 100, 3
NEW_VARIANCES = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0)


def at_length(model: Any, factor: float) -> Any:
    """The layer with a mean over another number of examples: its 1/N, which is part of W_PV, times `factor`."""
    return eqx.tree_at(lambda m: m.layers[0].W_PV, model, factor * model.layers[0].W_PV)


@measures("prompt-length", checkpoints=(ANISOTROPIC,))
def prompt_length(source: CheckpointSource) -> Outcome:
    """The loss of a trained layer on prompts of other lengths, beside bias and variance of the theory."""
    model, best = source.load(ANISOTROPIC), risk(TASK, num_examples=LENGTHS)
    measured = [Estimate.of(_errors_at(model, M, TASK)) for M in LENGTHS]
    measurements = [
        Measurement(f"M = {M}: measured half-MSE above ½(bias + variance), %", "0", _above(loss, half), -5, 5)
        for M, loss, half in zip(LENGTHS, measured, best.half_mse, strict=True)
    ]
    kappa = max(VARIANCES) / min(VARIANCES)
    bound = (d + 1) * TRACE / np.array(LENGTHS) + (1 + 2 * d + d**2 * kappa) * TRACE / N**2
    largest = exact((2 * as_arrays(measured)[0] / bound).max())
    biases = np.array([risk(replace(TASK, num_examples=n)).squared_bias for n in TRAINING_LENGTHS])
    power = exact(np.log2(biases[-1] / biases[-4]) / 3)
    floor = best.squared_bias / 2
    what = f"M = {LENGTHS[-1]}: measured half-MSE in parts of the floor ½·squared bias = {floor:.4g}"
    measurements += [
        Measurement(what, "≥ 1", _times(measured[-1], 1 / floor), 0.95, 1.25),
        Measurement("largest MSE, in parts of (d+1) tr Λ/M + (1+2d+d²κ) tr Λ/N²", "≤ 1", largest, high=1),
        Measurement(
            f"squared bias ∝ Nᵖ: p between N = {TRAINING_LENGTHS[-4]} and {TRAINING_LENGTHS[-1]}",
            "−2",
            power,
            -2.05,
            -1.9,
        ),
    ]
    conditions = f"half-MSE on {LENGTH_TASKS:,} tasks at each M, d = {d}, x ~ N(0, diag{VARIANCES}), trained at N = {N}"
    return Outcome(tuple(measurements), conditions, _length_figure(best, measured, biases))


def _errors_at(model: Any, num_examples: int, task: LinearRegression) -> np.ndarray:
    """½(ŷ − y)² on prompts of this length, of a layer that takes the mean over them."""
    learners = {"": at_length(model, task.num_examples / num_examples)}
    task = replace(task, num_examples=num_examples)
    return half_squared_errors(learners, task, num_tasks=LENGTH_TASKS, key=KEY)[""]


def _times(mean: Estimate, factor: float) -> Estimate:
    return percent(mean, of=100 / factor)


def _above(mean: Estimate, theory: float) -> Estimate:
    """By how many per cent a mean is above a number."""
    return Estimate(
        None if mean.value is None else 100 * (mean.value / theory - 1), percent(mean, of=theory).standard_error
    )


def _length_figure(best: PreconditionedRisk, measured: Sequence[Estimate], biases: np.ndarray) -> Figure:
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    risk_curve(risk(TASK, num_examples=[5 * 2**k for k in range(11)]), ax=left)
    values, errors = as_arrays(measured)
    left.errorbar(best.num_examples, values, errors, fmt="kx", markersize=7, zorder=4, label=f"measured: {ANISOTROPIC}")
    left.legend(frameon=False, fontsize="small")
    lengths = np.array(TRAINING_LENGTHS)
    right.loglog(lengths, biases / 2, "o-", color=colours(1)[0], markersize=4, label="½·squared bias of Γ⁻¹ for N")
    right.loglog(lengths, biases[-1] / 2 * (lengths[-1] / lengths) ** 2.0, "--", color="0.5", label="∝ 1/N²")
    right.set(xlabel="N, examples in training prompts", ylabel="half-MSE that no length M takes away")
    right.set_title("the floor", fontsize="medium")
    right.legend(frameon=False, fontsize="small")
    return figure


@measures("covariate-shift", checkpoints=(ANISOTROPIC, *ISOTROPIC))
def covariate_shift(source: CheckpointSource) -> Outcome:
    """Scaled inputs, noisy labels, other teachers, and a query that no example points to."""
    model = source.load(ANISOTROPIC)
    learners = {"layer": model, "least squares": LeastSquares()}
    drawn = {c: over_tasks(_predict, learners, _scaled(c), num_tasks=NUM_TASKS, key=KEY) for c in SCALES}
    slopes = {name: [_slope(drawn[c][0][name], drawn[c][1]) for c in SCALES] for name in learners}
    expected = float((np.array(VARIANCES) ** 2 * np.diag(gamma_inverse(VARIANCES, N))).sum() / TRACE)
    at_one = slopes["layer"][SCALES.index(1.0)]
    measurements = [
        Measurement("slope of ŷ on y, c = 1", f"1; {expected:.4f} at N = {N}", at_one, 0.98 * expected, 1.02 * expected)
    ]
    for c, slope in zip(SCALES, slopes["layer"], strict=True):
        if c != 1.0:
            relative = _times(slope, 1 / (at_one.value or 1.0))
            measurements.append(
                Measurement(
                    f"the same at c = {c:g}, in parts of that", f"{c**2:g} (c²)", relative, 0.98 * c**2, 1.02 * c**2
                )
            )
    apart = max(abs((slope.value or 0.0) - 1) for slope in slopes["least squares"])
    measurements.append(
        Measurement("least squares: largest distance of its slope from 1, over all c", "0", exact(apart), high=1e-3)
    )
    tasks = {
        "label noise σ = 1": replace(TASK, noise_std=1.0),
        "teachers N(3·1, I)": replace(TASK, teacher=GaussianTeacher(mean=3.0)),
    }
    errors = {(name, M): _errors_at(model, M, task) for name, task in tasks.items() for M in (N, LENGTHS[-1])}
    for (name, M), values in errors.items():
        theory = risk(TASK, test=tasks[name], num_examples=[M]).half_mse[0]
        what = f"{name}, M = {M}: half-MSE above ½(bias + variance), %"
        measurements.append(Measurement(what, "0", _above(Estimate.of(values), theory), -5, 5))
    cost = Estimate.of(errors["label noise σ = 1", LENGTHS[-1]] - _errors_at(model, LENGTHS[-1], TASK))
    what = f"label noise σ = 1, M = {LENGTHS[-1]}: what it adds to the loss, % of that of predicting 0"
    measurements.append(Measurement(what, "→ 0", percent(cost, of=TRACE / 2), high=1))
    for name in ISOTROPIC:
        answers, norms = over_tasks(_orthogonal, source.load(name), SHORT, num_tasks=NUM_TASKS, key=KEY)
        size = exact((answers**2).mean() ** 0.5 / (norms**2).mean() ** 0.5)
        measurements.append(
            Measurement(
                f"{name}, query orthogonal to all of 5 examples: rms of ŷ in parts of that of y", "0", size, high=0.05
            )
        )
    conditions = (
        f"half-MSE on {NUM_TASKS:,} tasks ({LENGTH_TASKS:,} where M is named), N = {N}, d = {d}, x ~ N(0, c² diag{VARIANCES}), "
        "c = 1 where none is named; orthogonal queries: d = 10, x ~ U(−½, ½)"
    )
    return Outcome(tuple(measurements), conditions, _covariate_figure(slopes, expected, drawn))


def _scaled(c: float) -> LinearRegression:
    return replace(TASK, inputs=Gaussian(tuple(c**2 * v for v in VARIANCES)))


def _predict(learners: Mapping[str, Learner], prompt: Prompt, target: Array) -> tuple[dict[str, Array], Array]:
    return {name: learner(prompt)[0] for name, learner in learners.items()}, target[0]


def _slope(predictions: np.ndarray, targets: np.ndarray) -> Estimate:
    """The slope of the line through zero, E[ŷy]/E[y²], and its standard error."""
    slope = (predictions * targets).mean() / (targets**2).mean()
    error = Estimate.of((predictions - slope * targets) * targets / (targets**2).mean()).standard_error
    return Estimate(float(slope), error)


def _orthogonal(learner: Learner, prompt: Prompt, target: Array) -> tuple[Array, Array]:
    """The prediction for the part of the query that is orthogonal to all examples, and the norm of that part: the rms of its label."""
    along = prompt.xs.T @ jnp.linalg.solve(prompt.xs @ prompt.xs.T, prompt.xs @ prompt.query)
    query = prompt.query - along
    return learner(Prompt(xs=prompt.xs, ys=prompt.ys, query=query))[0], jnp.linalg.norm(query)


def _covariate_figure(slopes: Mapping[str, Sequence[Estimate]], expected: float, drawn: Mapping[float, Any]) -> Figure:
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    scales = np.geomspace(SCALES[0], SCALES[-1], 50)
    left.loglog(scales, scales**2, "--", color="0.5", linewidth=1, label="c²")
    left.loglog(
        scales, expected * scales**2, ":", color="0.3", linewidth=1, label=f"{expected:.3g} c²: theory at N = {N}"
    )
    for (name, means), colour in zip(slopes.items(), colours(2), strict=True):
        left.loglog(SCALES, as_arrays(means)[0], "o", color=colour, label=name)
    left.set(xlabel="c, test inputs ∼ c · training inputs", ylabel="slope of ŷ on y")
    left.set_xticks(SCALES, [f"{c:g}" for c in SCALES])
    left.minorticks_off()
    left.set_title("what scaled inputs do", fontsize="medium")
    left.legend(frameon=False, fontsize="small")
    for c, colour in zip((0.5, 1.0, 2.0), colours(3), strict=True):
        predictions, targets = drawn[c][0]["layer"][:300], drawn[c][1][:300]
        right.plot(targets / c, predictions / c, ".", color=colour, markersize=3)
        right.axline((0, 0), slope=expected * c**2, color=colour, label=f"c = {c:g}: slope {expected * c**2:.3g}")
    right.set(xlabel="y / c", ylabel="ŷ / c", xlim=(-5, 5), ylim=(-15, 15))
    right.set_title("300 tasks for each c, and the slopes of theory", fontsize="medium")
    right.legend(frameon=False, fontsize="small")
    return figure


@measures("random-covariances", checkpoints=(RANDOM,))
def random_covariances(source: CheckpointSource) -> Outcome:
    """The one preconditioner that a layer learns from prompts of every covariance, and what it makes of a new one.

    The best is p I: p = E[λ²] / ((1 + 1/N)E[λ³] + (E[λ³] + (d−1)E[λ²]E[λ])/N), with moments 1, 2 and 6 of Exponential(1).
    """
    model = source.load(RANDOM)
    p = 2 / ((1 + 1 / RANDOM_N) * 6 + (6 + 2 * (RANDOM_D - 1)) / RANDOM_N)
    P = learned_preconditioner(model, RANDOM_N)
    found, largest = exact(np.diag(P).mean()), exact(np.abs(off_diagonal(P)).max() / np.diag(P).mean())
    spread = percent(exact(np.ptp(np.diag(P)) / np.diag(P).mean()))
    measurements = [
        Measurement(
            "preconditioner, mean of the diagonal",
            f"{p:.4f} at N = {RANDOM_N} (closed form)",
            found,
            0.97 * p,
            1.03 * p,
        ),
        Measurement("the same beside N → ∞", "1/3", found, 0.95 / 3, 1.05 / 3),
        Measurement("spread of the diagonal, %", "0: one step size for all", spread, high=5),
        Measurement("largest entry off the diagonal, beside the diagonal", "0", largest, high=0.05),
    ]
    ones = GaussianTeacher(scale=0.0, mean=1.0)
    learners = {"layer": model, "least squares": LeastSquares()}
    factors = {name: [] for name in learners}
    for pair in (NEW_VARIANCES[:3], NEW_VARIANCES[3:]):
        task = LinearRegression(input_dim=RANDOM_D, num_examples=RANDOM_N, inputs=Gaussian(pair), teacher=ones)
        for name, gradients in over_tasks(_weights, learners, task, num_tasks=NUM_TASKS, key=KEY).items():
            factors[name] += [Estimate.of(column) for column in gradients.T]
    for variance, factor in zip(NEW_VARIANCES, factors["layer"], strict=True):
        what = f"λ_new = {variance:g}: factor on its coordinate of w"
        measurements.append(
            Measurement(what, f"{variance / 3:.4g} (λ/3)", factor, 0.95 * variance / 3, 1.05 * variance / 3)
        )
    apart = max(abs((factor.value or 0.0) - 1) for factor in factors["least squares"])
    measurements.append(
        Measurement("least squares: largest distance of its factor from 1", "0", exact(apart), high=1e-3)
    )
    conditions = (
        f"mean ∂ŷ/∂x_query on {NUM_TASKS:,} tasks, w = (1, 1, 1), x ~ N(0, diag λ_new), N = {RANDOM_N}, d = {RANDOM_D}"
    )
    return Outcome(tuple(measurements), conditions, _factors_figure(factors, p))


def _weights(learners: Mapping[str, Learner], prompt: Prompt, target: Array) -> dict[str, Float[Array, " input_dim"]]:
    """The w that each learner predicts with: ∂ŷ/∂x_query."""
    return {name: sensitivity(learner, prompt)[0] for name, learner in learners.items()}


def _factors_figure(factors: Mapping[str, Sequence[Estimate]], p: float) -> Figure:
    figure = Figure(figsize=(5.6, 3.8), layout="constrained")
    ax = figure.subplots()
    lambdas = np.array([0.0, 1.1 * max(NEW_VARIANCES)])
    ax.plot(lambdas, lambdas / 3, "--", color="0.5", linewidth=1, label="λ/3: theory, M and N → ∞")
    ax.plot(lambdas, p * lambdas, ":", color="0.2", linewidth=1, label=f"{p:.4f} λ: theory, N = {RANDOM_N}")
    for (name, means), colour in zip(factors.items(), colours(2), strict=True):
        ax.plot(NEW_VARIANCES, as_arrays(means)[0], "o", color=colour, label=name)
    ax.set(
        xlabel="variance λ of the coordinate in the prompt",
        ylabel="factor on the coordinate of w",
        xlim=(0, None),
        ylim=(0, None),
    )
    ax.set_title("trained on covariances drawn anew for every prompt", fontsize="medium")
    ax.legend(frameon=False, fontsize="small")
    return figure
