"""Preconditioned steps, their sizes and their symmetry, and ReLU attention: Ahn et al. 2023."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array
from matplotlib.axes import Axes

from ....train.losses import over_tasks
from ....train.recipes.theory import VARIANCES
from ....train.tasks.inputs import Gaussian
from ....train.tasks.regression import LinearRegression
from ....train.tasks.teachers import AnisotropicTeacher
from ....train.tuning.baselines import best_baseline
from ....zoo.algorithms.gradient_descent import GradientDescent, GradientDescentPlusPlus
from ....zoo.models.sparse_lsa import SparseLSA
from ....zoo.prompt import Prompt
from ...estimates.errors_on_tasks import half_squared_errors
from ...pictures.curves import colours
from ...pictures.style import Figure
from ...stored_steps import stored_models
from ...theory.exact_losses import least_losses
from ...theory.population_loss import population_loss
from ...weights.heatmap_plot import product_heatmap, symmetric_limit
from ..catalogue import measures
from ..result import RESULT_SEED, CheckpointSource, Measurement, Outcome, exact, percent
from .learned_matrices import (
    Square,
    excess,
    from_multiple_of_identity,
    gamma_inverse,
    learned_preconditioner,
    off_diagonal,
    relative_distance,
)

N, d = 20, len(VARIANCES)
ISOTROPIC = LinearRegression(input_dim=d, num_examples=N, inputs=Gaussian())
ANISOTROPIC = replace(ISOTROPIC, inputs=Gaussian(VARIANCES))
# x ~ N(0, Λ) and w ~ N(0, Λ⁻¹): ISOTROPIC, but for inputs that are multiplied by Λ^½.
WHITENABLE = replace(ANISOTROPIC, teacher=AnisotropicTeacher(tuple(1 / v for v in VARIANCES)))
NUM_TASKS = 100_000
HESSIAN_TASKS = 10_000
CONDITIONS = f"half-MSE on {NUM_TASKS:,} tasks, N = {N}, d = {d}, x ~ N(0, {{}})"
DIAGONAL = f"diag{VARIANCES}"
KEY = jr.key(RESULT_SEED)
LABELS = tuple(f"x{i + 1}" for i in range(d))
NUM_BENT = 8
DISTANCE = "relative distance of Λ^½AΛ^½ from a multiple of I"
PUBLISHED_SIZES = (-0.38, -2.40, -9.59)


@measures("preconditioner", checkpoints=("merged-lsa-anisotropic",))
def preconditioner(source: CheckpointSource) -> Outcome:
    """The matrix that one trained layer steps through, and its exact loss, beside theory."""
    model = source.load("merged-lsa-anisotropic")
    lambdas, trace = np.array(VARIANCES), sum(VARIANCES)
    inverse = gamma_inverse(VARIANCES, N)
    mse = float((lambdas * (lambdas + trace) / ((N + 1) * lambdas + trace)).sum())
    P, least = learned_preconditioner(model, N), least_losses(ANISOTROPIC)
    others = {"GD": best_baseline("gd-1", ANISOTROPIC), "Γ⁻¹": best_baseline("preconditioned-gd", ANISOTROPIC)}
    errors = half_squared_errors({"model": model, **others}, ANISOTROPIC, num_tasks=NUM_TASKS, key=KEY)
    distance, largest = relative_distance(P, inverse), float(np.abs(off_diagonal(P)).max() / inverse.max())
    above = 2 * population_loss(model, ANISOTROPIC) / mse - 1
    gain = f"{100 * (least.gradient_step / least.preconditioned_step - 1):.3g} (closed form)"
    measurements = (
        Measurement("relative distance of −N·W_PV,yy·W_KQ,xx from Γ⁻¹, %", "0", percent(exact(distance)), high=3),
        Measurement("its largest entry off the diagonal, beside ‖Γ⁻¹‖_op", "0", exact(largest), high=0.03),
        Measurement(
            "exact loss of the weights above Σλᵢ(λᵢ+tr Λ)/((N+1)λᵢ+tr Λ), %",
            f"0 (MSE {mse:.6g})",
            percent(exact(above)),
            high=0.3,
        ),
        Measurement("measured loss above a step through Γ⁻¹, %", "0", excess(errors, "model", "Γ⁻¹"), high=0.3),
        Measurement("one step of GD above the trained layer, %", gain, excess(errors, "GD", "model"), low=0),
    )
    return Outcome(measurements, CONDITIONS.format(DIAGONAL), _preconditioner_figure(P, inverse, least.step_size))


def _preconditioner_figure(P: Square, inverse: Square, step_size: float) -> Figure:
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    look: dict[str, Any] = {"labels": LABELS, "limit": symmetric_limit([P, inverse]), "colour_bar": False}
    product_heatmap(P, product="W_KQ", title="trained: $-N\\,W_{PV,yy}\\,W_{KQ,xx}$", ax=left, **look)
    product_heatmap(inverse, product="W_KQ", title="theory: $\\Gamma^{-1}$", ax=middle, **look)
    trained, theory, descent = colours(3)
    lambdas = np.geomspace(min(VARIANCES) / 1.5, 1.5 * max(VARIANCES), 100)
    curve = 1 / ((1 + 1 / N) * lambdas + sum(VARIANCES) / N)
    right.plot(lambdas, curve, color=theory, label="$\\Gamma^{-1}$: 1/((1 + 1/N)λ + tr Λ/N)")
    right.axhline(step_size, color=descent, linestyle="--", label=f"GD, η* = {step_size:.3g}")
    right.plot(VARIANCES, np.diag(P), "o", color=trained, label="trained, diagonal")
    right.set_xscale("log")
    right.set_ylim(0, None)
    right.set(xlabel="variance λᵢ of the coordinate", ylabel="step size of the coordinate")
    right.set_title("step sizes by coordinate", fontsize="medium")
    right.legend(frameon=False, fontsize="small")
    return figure


def made(descent: GradientDescent | GradientDescentPlusPlus) -> SparseLSA:
    """Three layers that, on `WHITENABLE` tasks, take the steps that `descent` takes on `ISOTROPIC` ones: A = −ηΛ⁻¹, B = (Nγ/η) I."""
    gammas = getattr(descent, "gamma", None)
    model = SparseLSA(input_dim=d, num_layers=3, input_updates=gammas is not None, key=KEY)
    etas = descent.step_size
    As = [-eta * jnp.diag(1 / jnp.asarray(VARIANCES)) for eta in etas]
    model = eqx.tree_at(lambda m: [layer.A for layer in m.layers], model, As)
    if gammas is None:
        return model
    Bs = [N * gammas[k] / etas[k] * jnp.eye(d) for k in range(2)]  # the last layer has none
    return eqx.tree_at(lambda m: [layer.B for layer in m.layers[:-1]], model, Bs)


def whitened(model: SparseLSA) -> list[Square]:
    """Λ^½ A Λ^½ of each layer."""
    return [np.asarray(layer.A, np.float64) * np.sqrt(np.outer(VARIANCES, VARIANCES)) for layer in model.layers]


def sizes(model: SparseLSA) -> np.ndarray:
    """The step size of each layer: the mean of the diagonal of Λ^½ A Λ^½, negative for descent."""
    return np.array([np.diag(matrix).mean() for matrix in whitened(model)])


def curvatures(model: SparseLSA) -> np.ndarray:
    """The eigenvalues of the whitened (1/N) Σᵢ xᵢ xᵢᵀ that each layer meets, [num_tasks, num_layers, input_dim]."""
    moments = over_tasks(_second_moments, model, WHITENABLE, num_tasks=HESSIAN_TASKS, key=KEY)
    return np.linalg.eigvalsh(moments / np.sqrt(np.outer(VARIANCES, VARIANCES)))


def _second_moments(model: SparseLSA, prompt: Prompt, target: Array) -> Array:
    tokens, moments = model.embed(prompt), []
    for layer in model.layers:
        context = model.context(tokens)
        moments.append(context[:, :d].T @ context[:, :d] / N)
        tokens = model.advance(tokens, layer(tokens, context))
    return jnp.stack(moments)


@measures("step-sizes", checkpoints=("sparse-lsa-3", "sparse-lsa-3-no-input-update"))
def step_sizes(source: CheckpointSource) -> Outcome:
    """The whitened matrices of three layers, with updates of the inputs and without, and what their sizes mean."""
    names = ("sparse-lsa-3", "sparse-lsa-3-no-input-update")
    updating, still = models = [source.load(name) for name in names]
    gd_pp, gd = best_baseline("gd++-3-free", ISOTROPIC), best_baseline("gd-3-free", ISOTROPIC)
    best = made(gd_pp)
    learners = {**dict(zip(names, models, strict=True)), "GD++": best, "GD": made(gd)}
    learners["reversed"] = eqx.tree_at(lambda model: model.layers, still, still.layers[::-1])
    errors = half_squared_errors(learners, WHITENABLE, num_tasks=NUM_TASKS, key=KEY)
    measurements = [
        Measurement(f"{name}, layer {k + 1}: {DISTANCE}", "→ 0", exact(from_multiple_of_identity(matrix)), high=0.1)
        for name, model in zip(names, models, strict=True)
        for k, matrix in enumerate(whitened(model))
    ]
    of_layers = {}
    for name, model in {"sparse-lsa-3": updating, "weights made of the best GD++": best}.items():
        found, of_layers[name] = sizes(model), curvatures(model)
        for k, (size, published) in enumerate(zip(found, PUBLISHED_SIZES, strict=True)):
            measurements.append(
                Measurement(
                    f"{name}, layer {k + 1}: step size",
                    f"≈ {published:.2f}",
                    exact(size),
                    1.1 * published,
                    0.9 * published,
                )
            )
        growth = exact((found[1:] / found[:-1]).min())
        condition = np.median(of_layers[name][:, :, -1] / of_layers[name][:, :, 0], axis=0)
        better = exact(condition[2] / condition[0])
        measurements += [
            Measurement(f"{name}: least growth of the step size over a layer", "4.0", growth, low=1),
            Measurement(f"{name}: median condition number at layer 3, beside layer 1", "< 1", better, high=1),
        ]
    above_gd_pp, above_gd = excess(errors, names[0], "GD++"), excess(errors, names[1], "GD")
    order = excess(errors, "reversed", names[1])
    measurements += [
        Measurement("sparse-lsa-3: loss above those weights, %", "0", above_gd_pp, high=1),
        Measurement("without input updates: loss above the best three free steps of GD, %", "0", above_gd, high=1),
        Measurement(
            "without input updates, layers in reverse: change of the loss, %", "0: steps commute", order, -1, 1
        ),
    ]
    paths = {name: stored_models(source.place(name)) for name in names}
    return Outcome(
        tuple(measurements),
        CONDITIONS.format(DIAGONAL) + ", w ~ N(0, Λ⁻¹)",
        _step_sizes_figure(paths, {**of_layers, names[1]: curvatures(still)}, best),
    )


def _step_sizes_figure(
    paths: dict[str, dict[int, SparseLSA]], of_layers: dict[str, np.ndarray], best: SparseLSA
) -> Figure:
    figure = Figure(figsize=(12, 6.4), layout="constrained")
    rows = figure.subplots(2, 3)
    for row, (name, path) in zip(rows, paths.items(), strict=True):
        left, middle, right = row
        steps = np.array(list(path))
        by_layer = -np.array([sizes(model) for model in path.values()]).T
        distances = np.array([list(map(from_multiple_of_identity, whitened(model))) for model in path.values()]).T
        for ax, values in ((left, by_layer), (middle, distances)):
            for k, (line, colour) in enumerate(zip(values, colours(3), strict=True)):
                ax.plot(steps, line, "o-", color=colour, markersize=4, label=f"layer {k + 1}: {line[-1]:.3g}")
            ax.set_xscale("symlog", linthresh=1)
            ax.set(xlabel="training step", xlim=(-0.1, 1.1 * steps[-1]))
            ax.legend(title="at the end", frameon=False, fontsize="small", loc="best")
        left.set_yscale("log")
        left.set(ylabel="−(mean of the diagonal)", ylim=(0.01, 20))
        left.set_title(f"{name}:\nstep sizes, from $\\Lambda^{{1/2}}A\\Lambda^{{1/2}}$", fontsize="medium")
        middle.set_yscale("log")
        middle.set(ylabel="relative distance (Frobenius)", ylim=(0.002, 2))
        middle.set_title("$\\Lambda^{1/2}A\\Lambda^{1/2}$ from a multiple of I", fontsize="medium")
        _newton(right, sizes(path[steps[-1]]), of_layers[name], "trained", 0.0)
    for size, colour in zip(-sizes(best), colours(3), strict=True):
        rows[0][0].axhline(size, color=colour, linestyle=":", linewidth=1)
    rows[0][0].text(0.02, 0.97, "dotted: best GD++", transform=rows[0][0].transAxes, va="top", fontsize="small")
    _newton(rows[0][2], sizes(best), of_layers["weights made of the best GD++"], "best GD++", 0.15)
    for ax in rows[:, 2]:
        ax.legend(frameon=False, fontsize="small")
    return figure


def _newton(ax: Axes, of_layer: np.ndarray, met: np.ndarray, name: str, shift: float) -> None:
    """Step size × curvature of each layer: median and 5 to 95 % over tasks and eigenvalues."""
    low, centre, high = np.percentile(-of_layer[:, None] * met, (5, 50, 95), axis=(0, 2))
    ax.errorbar(np.arange(1, 4) + shift, centre, (centre - low, high - centre), fmt="o", capsize=4, label=name)
    ax.axhline(1, color="0.6", linewidth=1, linestyle="--", zorder=0)
    ax.set(xlabel="layer", ylabel="step size × eigenvalue", xticks=(1, 2, 3), xlim=(0.5, 3.5))
    ax.set_title("step size × curvature met by the layer\n(median, 5 to 95 %; at 1 it is Newton's)", fontsize="medium")


@measures("symmetry", checkpoints=("sparse-lsa-2-isotropic",))
def symmetry(source: CheckpointSource) -> Outcome:
    """Two layers for isotropic inputs: their matrices, their loss beside two free steps of GD, and the step of the proof."""
    model = source.load("sparse-lsa-2-isotropic")
    bent = [bend(model, key) for key in jr.split(jr.fold_in(KEY, 1), NUM_BENT)]
    free, shared = best_baseline("gd-2-free", ISOTROPIC), best_baseline("gd-2", ISOTROPIC)
    learners = {"model": model, "free": free, "shared": shared}
    learners |= {f"bent {k}": one for k, one in enumerate(bent)}
    learners |= {f"straightened {k}": jax.tree.map(lambda A: jnp.diag(jnp.diag(A)), one) for k, one in enumerate(bent)}
    errors = half_squared_errors(learners, ISOTROPIC, num_tasks=NUM_TASKS, key=KEY)
    saved = [excess(errors, f"straightened {k}", f"bent {k}") for k in range(NUM_BENT)]
    matrices = [np.asarray(layer.A, np.float64) for layer in model.layers]
    found, best = np.sort([-np.diag(matrix).mean() for matrix in matrices]), np.sort(np.asarray(free.step_size))
    measurements = []
    for k, matrix in enumerate(matrices):
        outside = float(np.linalg.norm(off_diagonal(matrix)) / np.linalg.norm(matrix))
        from_identity = from_multiple_of_identity(matrix)
        measurements += [
            Measurement(f"layer {k + 1}: A off its diagonal, relative", "0", exact(outside), high=0.05),
            Measurement(f"layer {k + 1}: A from a multiple of I, relative", "0", exact(from_identity), high=0.05),
        ]
    apart, largest = percent(exact(np.abs(found / best - 1).max())), max(saved, key=lambda mean: mean.value or 0.0)
    measurements += [
        Measurement("two step sizes, beside those of the best GD: largest difference, %", "0", apart, high=5),
        Measurement("loss above GD with the best two step sizes, %", "0", excess(errors, "model", "free"), -0.5, 0.5),
        Measurement("GD with one step size, above it, %", "> 0", excess(errors, "shared", "model"), low=0),
        Measurement(
            f"loss of (D₁, diag A₂) above (D₁, A₂), largest of {NUM_BENT} random A₂, %", "≤ 0", largest, high=0
        ),
    ]
    return Outcome(tuple(measurements), CONDITIONS.format("I") + ", w ~ N(0, I)", _symmetry_figure(matrices, best))


def bend(model: SparseLSA, key: Array) -> SparseLSA:
    """The model with A₁ diagonal and A₂ symmetric, a random matrix half as large being added to it."""
    first, second = (layer.A for layer in model.layers)
    noise = jr.normal(key, second.shape)
    noise = (noise + noise.T) / jnp.linalg.norm(noise + noise.T)
    A_2 = (second + second.T) / 2 + noise * jnp.linalg.norm(second) / 2
    return eqx.tree_at(lambda m: [layer.A for layer in m.layers], model, [jnp.diag(jnp.diag(first)), A_2])


def _symmetry_figure(matrices: list[Square], best: np.ndarray) -> Figure:
    figure = Figure(figsize=(7.6, 3.4), layout="constrained")
    limit, order = symmetric_limit(matrices), np.argsort(np.argsort([-np.trace(matrix) for matrix in matrices]))
    for k, (ax, matrix) in enumerate(zip(figure.subplots(1, 2), matrices, strict=True)):
        title = f"layer {k + 1}: A  (best GD: −{best[order[k]]:.3g} I)"
        look: dict[str, Any] = {"labels": LABELS, "limit": limit, "colour_bar": False}
        product_heatmap(matrix, product="W_KQ", title=title, ax=ax, **look)
    return figure
