"""Gradient flow on the exact population loss, and the balanced start from which its limit is known."""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from ...train.tasks.regression import Task
from ...train.tuning.step_size import optimal_preconditioner
from ...zoo.checks.gate import gated
from ...zoo.errors import NotApplicable, ZooError
from ...zoo.frozen import trainable
from ...zoo.models.merged_lsa import MergedLSA
from ...zoo.token_model import ConcatenatingModel
from .population_loss import check_one_layer, exact_half_mse, exact_moments, in_float64, one_layer

TOLERANCE = 1e-10  # of the integration, relative and absolute

Model = TypeVar("Model", bound=ConcatenatingModel)


@gated
def gradient_flow(model: Model, task: Task, *, duration: float, num_points: int = 50) -> dict[int, Model]:
    """The model at `num_points` + 1 evenly spaced times of gradient flow on its exact half-MSE, in float64.

        dθ/dt = −∇L(θ),   point k at t = k · duration/num_points

    θ are the parameters of the model as it is, factors or products. Dormand and Prince's method chooses its own steps.

    **Raises** `ZooError` where `population_loss` does not apply.
    """
    check_one_layer(model, task)
    with jax.enable_x64(True):
        start, settings = in_float64((model, task))
        parameters, rest = eqx.partition(start, trainable(start))
        path = _integrate(parameters, rest, settings, jnp.linspace(0.0, duration, num_points + 1))
        points = [jax.tree.map(lambda leaf, k=k: leaf[k], path) for k in range(num_points + 1)]
    return {k: eqx.combine(point, rest) for k, point in enumerate(points)}


@eqx.filter_jit
def _integrate(parameters, rest, task, times):
    def velocity(t, theta, _):
        gradient = jax.grad(lambda theta: exact_half_mse(*one_layer(eqx.combine(theta, rest)), task))(theta)
        return jax.tree.map(jnp.negative, gradient)

    import diffrax  # which takes half a second

    return diffrax.diffeqsolve(
        diffrax.ODETerm(velocity),
        diffrax.Dopri5(),
        t0=times[0],
        t1=times[-1],
        dt0=None,
        y0=parameters,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=TOLERANCE, atol=TOLERANCE),
        max_steps=None,
    ).ys


@gated
def balanced_start(task: Task, *, scale: float, key: PRNGKeyArray) -> MergedLSA:
    """The small balanced start of Zhang et al. 2024, from which gradient flow reaches a known global minimum.

        u = σ,  U = σ ΘΘᵀ,  ‖ΘΘᵀ‖_F = 1,  all else 0,   where W_PV[y, y] = −u/√N and W_KQ[x, x] = U/√N

    and Θ is random. The limit is u = ‖Γ⁻¹‖_F^½, U = Γ⁻¹/‖Γ⁻¹‖_F^½. Our 1/N is part of the weights and the prediction is minus the y
    entry, hence −1/√N and 1/√N. Γ⁻¹ is the best preconditioner on `task` (`optimal_preconditioner`).

    **Raises** `ZooError` if σ²‖Γ‖_op √d < 2 does not hold, or the task has several outputs. Theorem 4.1.
    """
    exact_moments(task)
    if task.output_dim != 1:
        raise NotApplicable(f"the balanced start is known for one output, this task has {task.output_dim}")
    N, d = task.num_examples, task.input_dim
    with jax.enable_x64(True):
        inverse = np.asarray(optimal_preconditioner(in_float64(task)).preconditioner)
    largest = float(
        (2 * np.linalg.norm(inverse, -2) / d**0.5) ** 0.5
    )  # ‖Γ‖_op is one over the least singular value of Γ⁻¹
    if not 0 < scale < largest:
        raise ZooError(
            f"scale must be positive and less than (2/(‖Γ‖_op √d))^½ = {largest:.4g} on this task, got {scale}"
        )
    Theta = jr.normal(key, (d, d))
    U = scale * Theta @ Theta.T / jnp.linalg.norm(Theta @ Theta.T)
    model = MergedLSA(input_dim=d, key=key)
    layer = model.layers[0]
    W_KQ = jnp.zeros_like(layer.W_KQ).at[0, :d, :d].set(U / N**0.5)
    W_PV = jnp.zeros_like(layer.W_PV).at[0, d, d].set(-scale / N**0.5)
    return eqx.tree_at(lambda m: (m.layers[0].W_KQ, m.layers[0].W_PV), model, (W_KQ, W_PV))
