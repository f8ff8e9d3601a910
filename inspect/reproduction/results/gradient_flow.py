"""What gradient flow converges to, and how its predictor generalises: Zhang et al. 2024."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array

from ....train.tasks.inputs import Gaussian
from ....train.tasks.regression import LinearRegression
from ....zoo.models.merged_lsa import MergedLSA
from ...estimates.estimate import Estimate
from ...pictures.curves import colours
from ...pictures.style import Figure
from ...theory.exact_losses import least_losses
from ...theory.gradient_flow import balanced_start, gradient_flow
from ...theory.population_loss import population_loss
from ...weights.conserved_quantities import conserved_quantities
from ...weights.conserved_quantities_plot import conserved_curves
from ..catalogue import measures
from ..result import RESULT_SEED, CheckpointSource, Measurement, Outcome, exact, percent
from .learned_matrices import Square, gamma_inverse, relative_distance

KEY = jr.key(RESULT_SEED)
FLOW_VARIANCES = (1.0, 0.5, 0.25)
FLOW_TASK = LinearRegression(input_dim=3, num_examples=20, inputs=Gaussian(FLOW_VARIANCES))
N, d = FLOW_TASK.num_examples, FLOW_TASK.input_dim
DURATION, NUM_POINTS = 15.0, 150
SCALES = (0.05, 0.3, 0.9)
UNBALANCED_SCALE, FACTORS = 0.5, (4.0, 0.25)
NUM_RANDOM = 20
FLOW_CONDITIONS = (
    f"exact half-MSE, no tasks drawn; N = {N}, d = {d}, x ~ N(0, diag{FLOW_VARIANCES}), time 0 to {DURATION:g}"
)

Flow = dict[int, MergedLSA]


def parameters(model: MergedLSA) -> tuple[float, Square]:
    """u = −√N W_PV,yy and U = √N W_KQ,xx, the weights of Zhang et al., whose 1/N is no part of them."""
    (layer,) = model.layers
    u, U = np.asarray(layer.W_PV, np.float64)[0, d, d], np.asarray(layer.W_KQ, np.float64)[0, :d, :d]
    return float(-(N**0.5) * u), N**0.5 * U


def with_parameters(u: Array | float, U: Array | Square) -> MergedLSA:
    """The layer that has these u and U, and zeros elsewhere."""
    zeros = jnp.zeros((1, d + 1, d + 1))
    weights = zeros.at[0, :d, :d].set(jnp.asarray(U) / N**0.5), zeros.at[0, d, d].set(-u / N**0.5)
    return eqx.tree_at(lambda m: (m.layers[0].W_KQ, m.layers[0].W_PV), MergedLSA(input_dim=d, key=KEY), weights)


def flow_from(scale: float, factor: float = 1.0) -> Flow:
    """The flow from a start (u, U) that is balanced, or from (factor·u, U/factor), each with a random Θ of its own."""
    key = jr.fold_in(KEY, int(1000 * scale * factor))
    u, U = parameters(balanced_start(FLOW_TASK, scale=scale, key=key))
    return gradient_flow(with_parameters(factor * u, U / factor), FLOW_TASK, duration=DURATION, num_points=NUM_POINTS)


@measures("hyperbola")
def hyperbola(source: CheckpointSource) -> Outcome:
    """Where the flow ends from several starts, and that there are no other minima."""
    inverse = gamma_inverse(FLOW_VARIANCES, N)
    flows = {f"balanced, σ = {scale}": flow_from(scale) for scale in SCALES}
    flows |= {f"(u, U) ← ({c:g}u, U/{c:g}), σ = {UNBALANCED_SCALE}": flow_from(UNBALANCED_SCALE, c) for c in FACTORS}
    measurements = []
    for name, flow in flows.items():
        u, U = parameters(flow[NUM_POINTS])
        apart = percent(exact(relative_distance(u * U, inverse)))
        measurements.append(Measurement(f"{name}: distance of u·U from Γ⁻¹ at the end, %", "0", apart, high=0.1))
    least = least_losses(FLOW_TASK).preconditioned_step
    differences = []
    for key in jr.split(KEY, NUM_RANDOM):
        model = with_parameters(jr.normal(key), jr.normal(jr.fold_in(key, 1), (d, d)))
        above = population_loss(model, FLOW_TASK) - least
        differences.append(abs(completed_square(*parameters(model)) / above - 1))
    what = f"½‖Γ^½(uΛ^½UΛ^½ − ΛΓ⁻¹)‖²_F beside what the loss is above its least, {NUM_RANDOM} random (u, U): largest difference, %"
    measurements.append(Measurement(what, "0", percent(exact(max(differences))), high=1e-4))
    return Outcome(tuple(measurements), FLOW_CONDITIONS, _hyperbola_figure(flows, float(np.linalg.norm(inverse))))


def completed_square(u: float, U: Square) -> float:
    """½‖Γ^½(uΛ^½UΛ^½ − ΛΓ⁻¹)‖²_F, which is zero on u·U = Γ⁻¹ alone."""
    inverse, root = gamma_inverse(FLOW_VARIANCES, N), np.diag(np.sqrt(FLOW_VARIANCES))
    rest = np.sqrt(np.linalg.inv(inverse)) @ (u * root @ U @ root - root @ root @ inverse)
    return float(np.linalg.norm(rest) ** 2 / 2)


def _hyperbola_figure(flows: dict[str, Flow], norm: float) -> Figure:
    figure = Figure(figsize=(7.6, 4.4), layout="constrained")
    ax = figure.subplots()
    us = np.geomspace(0.01, 20, 200)
    ax.plot(us, norm / us, color="0.4", label="u·‖U‖ = ‖Γ⁻¹‖: the minima")
    for (name, flow), colour in zip(flows.items(), colours(len(flows)), strict=True):
        path = np.array([(u, np.linalg.norm(U)) for u, U in map(parameters, flow.values())])
        ax.plot(*path.T, "-", color=colour, label=name)
        ax.plot(*path[0], "o", color=colour, markerfacecolor="white")
        ax.plot(*path[-1], "o", color=colour)
    ax.set(xscale="log", yscale="log", xlim=(0.03, 8), ylim=(0.03, 8), xlabel="u", ylabel="‖U‖ (Frobenius)")
    ax.set_title("gradient flow, from circles to dots", fontsize="medium")
    ax.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


@measures("balance")
def balance(source: CheckpointSource) -> Outcome:
    """What the flow conserves, and the limit that this picks."""
    inverse = gamma_inverse(FLOW_VARIANCES, N)
    size = float(np.linalg.norm(inverse))
    flows = {scale: flow_from(scale) for scale in SCALES}
    measurements = []
    for scale, flow in flows.items():
        u, U = parameters(flow[NUM_POINTS])
        off, apart = percent(exact(u / size**0.5 - 1)), percent(exact(relative_distance(U, inverse / size**0.5)))
        measurements += [
            Measurement(f"σ = {scale}: drift of u² − ‖U‖²_F, of the largest u² + ‖U‖²_F", "0", drift(flow), high=1e-6),
            Measurement(f"σ = {scale}: limit of u beside ‖Γ⁻¹‖^½, %", "0", off, -0.1, 0.1),
            Measurement(f"σ = {scale}: limit of U, distance from Γ⁻¹/‖Γ⁻¹‖^½, %", "0", apart, high=0.1),
        ]
    for factor in FACTORS:
        unbalanced = flow_from(UNBALANCED_SCALE, factor)
        (u_0, U_0), (u, _) = parameters(unbalanced[0]), parameters(unbalanced[NUM_POINTS])
        conserved = u_0**2 - np.linalg.norm(U_0) ** 2
        limit = float(((conserved + (conserved**2 + 4 * size**2) ** 0.5) / 2) ** 0.5)
        name = f"start with u/‖U‖ = {factor**2:g}"
        measurements += [
            Measurement(f"{name}: drift of u² − ‖U‖²_F", "0", drift(unbalanced), high=1e-6),
            Measurement(f"{name}: limit of u", f"{limit:.4f} (closed form)", exact(u), 0.999 * limit, 1.001 * limit),
        ]
    return Outcome(tuple(measurements), FLOW_CONDITIONS, _conserved_figure(flows, size))


def drift(flow: Flow) -> Estimate:
    """The largest change of u² − ‖U‖²_F over a flow, relative to the largest u² + ‖U‖²_F."""
    (of_blocks,) = (balance for balance in conserved_quantities(flow).differences if balance.law.startswith("u²"))
    return Estimate(of_blocks.drift, None)


def _conserved_figure(flows: dict[float, Flow], size: float) -> Figure:
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    shown = slice(0, NUM_POINTS // 3)
    times = np.linspace(0, DURATION, NUM_POINTS + 1)[shown]
    for (scale, flow), colour in zip(flows.items(), colours(len(flows)), strict=True):
        path = np.array([(u, np.linalg.norm(U)) for u, U in map(parameters, flow.values())])[shown]
        left.plot(times, path[:, 0], color=colour, label=f"u, σ = {scale}")
        left.plot(times, path[:, 1], ".", color=colour, label=f"‖U‖, σ = {scale}")
    left.axhline(size**0.5, color="0.5", linestyle="--", linewidth=1, label="‖Γ⁻¹‖$^{1/2}$")
    left.set(xlabel="time of the flow", ylabel="u and ‖U‖ (Frobenius)", ylim=(0, None))
    left.set_title("from a balanced start u = ‖U‖ stays", fontsize="medium")
    left.legend(frameon=False, fontsize="small", loc="lower right")
    path = conserved_quantities({k: flows[SCALES[1]][k] for k in range(shown.stop)})
    conserved_curves(
        path, logarithmic=False, xlabel=f"point of the flow, {NUM_POINTS / DURATION:g} to a unit of time", ax=right
    )
    right.set_title(f"what the flow conserves, σ = {SCALES[1]}", fontsize="medium")
    return figure
