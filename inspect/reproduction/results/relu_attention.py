"""One layer of ReLU attention: Ahn et al. 2023."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from ....train.tasks.inputs import Gaussian
from ....train.tasks.regression import LinearRegression
from ....zoo.models.relu_attention import ReLUAttention
from ...estimates.errors_on_tasks import half_squared_errors
from ...estimates.estimate import Estimate
from ...pictures.style import Figure
from ...weights.heatmap_plot import product_heatmap
from ...weights.weight_products import products
from ..catalogue import measures
from ..result import RESULT_SEED, CheckpointSource, Measurement, Outcome, exact
from .learned_matrices import Square, excess, from_multiple_of_identity, learned_preconditioner

N, d = 20, 5
TASK = LinearRegression(input_dim=d, num_examples=N, inputs=Gaussian())
NUM_TASKS = 100_000
CONDITIONS = f"half-MSE on {NUM_TASKS:,} tasks, N = {N}, d = {d}, x ~ N(0, I), w ~ N(0, I)"
KEY = jr.key(RESULT_SEED)
LABELS = tuple(f"x{i + 1}" for i in range(d))


@measures("relu-attention", checkpoints=("relu-attention",))
def relu_attention(source: CheckpointSource) -> Outcome:
    """The products of a trained layer of ReLU attention, and its loss beside the least of the theory.

    E‖(β/N) Σᵢ xᵢ relu(xᵢᵀv) − v‖² = ‖v‖² [(N−1+2(d+2))/(4N) β² − β + 1] is least, ‖v‖² (1 − β/2), at β = 2N/(N−1+2(d+2)).
    """
    model = source.load("relu-attention")
    beta = 2 * N / (N - 1 + 2 * (d + 2))
    half_mse = d * (1 - beta / 2) / 2
    P = learned_preconditioner(model, 1)  # the layer itself takes the mean
    (layer,) = products(model)
    W_KQ, W_PV = layer.W_KQ[0], layer.W_PV[0]
    sign = float(np.sign(np.trace(W_KQ)))  # either is best; on the same tasks they err differently
    made = {name: relu_step(c * beta, sign) for name, c in (("made", 1.0), ("smaller", 0.9), ("larger", 1.1))}
    errors = half_squared_errors({"model": model, **made}, TASK, num_tasks=NUM_TASKS, key=KEY)
    last_row = float(np.abs(W_KQ[d, :d]).max() / np.abs(np.diag(W_KQ)[:d]).mean())
    from_inputs = float(np.abs(W_PV[d, :d]).max() / abs(W_PV[d, d]))
    coefficient, identity = exact(-np.diag(P).mean()), exact(from_multiple_of_identity(P))
    least, trained = Estimate.of(errors["made"]), excess(errors, "model", "made")
    smaller, larger = excess(errors, "smaller", "made"), excess(errors, "larger", "made")
    measurements = (
        Measurement(
            "b·A of the trained layer, mean of the diagonal", f"{-beta:.4f}", coefficient, -1.03 * beta, -0.97 * beta
        ),
        Measurement("b·A from a multiple of I, relative", "0", identity, high=0.05),
        Measurement(
            "last row of W_KQ, largest entry beside the diagonal over x", "0 (assumed)", exact(last_row), high=0.05
        ),
        Measurement("W_PV,yx, largest entry beside W_PV,yy", "0", exact(from_inputs), high=0.05),
        Measurement(
            "half-MSE of weights with b·A = −2N/(N−1+2(d+2)) I",
            f"{half_mse:.4f}",
            least,
            0.98 * half_mse,
            1.02 * half_mse,
        ),
        Measurement("with a coefficient 10 % smaller: above it, %", "> 0", smaller, low=0),
        Measurement("with a coefficient 10 % larger: above it, %", "> 0", larger, low=0),
        Measurement("the trained layer above those weights, %", "0", trained, -0.5, 0.5),
    )
    return Outcome(measurements, CONDITIONS, _relu_figure(W_KQ, W_PV, P))


def relu_step(coefficient: float, sign: float) -> ReLUAttention:
    """ReLU attention with W_KQ = diag(±I, 0) and W_PV,yy = ∓coefficient, all else being zero."""
    model = ReLUAttention(input_dim=d, mean_over_context=True, key=KEY)
    x, y = jnp.diag(jnp.append(jnp.ones(d), 0.0))[None], jnp.diag(jnp.append(jnp.zeros(d), 1.0))[None]
    weights = lambda model: [getattr(model.layers[0], name) for name in ("W_K", "W_Q", "W_V", "W_P")]  # noqa: E731
    return eqx.tree_at(weights, model, [x, sign * x, y, -sign * coefficient * y])


def _relu_figure(W_KQ: np.ndarray, W_PV: np.ndarray, P: Square) -> Figure:
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    c = abs(np.diag(W_KQ)[:d].mean())  # the positive scale that the ReLU leaves free
    look: dict[str, Any] = {"labels": (*LABELS, "y"), "colour_bar": False}
    product_heatmap(W_KQ / c, product="W_KQ", title=f"trained: $W_{{KQ}}$ / c,  c = {c:.3g}", ax=left, **look)
    product_heatmap(W_PV * c, product="W_PV", title="trained: $W_{PV}$ · c", ax=middle, **look)
    look["labels"] = LABELS
    product_heatmap(-P, product="W_KQ", title="b·A = $W_{PV,yy}\\,W_{KQ,xx}$", ax=right, **look)
    figure.supxlabel("the column y of $W_{KQ}$ and the rows x of $W_{PV}$ reach no prediction", fontsize="small")
    return figure
