"""I9: gradient flow on the exact population loss, and the balanced start from which its limit is known."""

import math
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from ..train.step_size import optimal_preconditioner
from ..train.tasks import LinearRegression, Task
from ..zoo.errors import ZooError
from ..zoo.frozen import trainable
from ..zoo.models.merged_lsa import MergedLSA
from ..zoo.token_model import ConcatenatingModel
from .population_loss import check_one_layer, check_task, exact_half_mse, in_float64, one_layer

Model = TypeVar("Model", bound=ConcatenatingModel)


def gradient_flow(model: Model, task: Task, *, duration: float, num_steps: int, num_kept: int = 50) -> dict[int, Model]:
    """The model at `num_kept` + 1 evenly spaced points of gradient flow on its exact half-MSE, by step, in float64.

        dθ/dt = −∇L(θ),   0 ≤ t ≤ duration,   in at least `num_steps` steps of the classical Runge–Kutta method of fourth order

    θ are the parameters of the model as it is, factors or products; step k is at t = k · duration / (the last step).

    **Raises** `ZooError` where `population_loss` does not apply.
    """
    check_one_layer(model, task)
    if num_kept < 1 or num_steps < 1 or not duration > 0:
        raise ZooError(f"duration, num_steps and num_kept must be positive, got {duration}, {num_steps} and {num_kept}")
    between = math.ceil(num_steps / num_kept)
    with jax.enable_x64(True):
        start, settings = in_float64((model, task))
        parameters, rest = eqx.partition(start, trainable(start))
        path = _integrate(parameters, rest, settings, jnp.asarray(duration / (between * num_kept)), between, num_kept)
        points = [jax.tree.map(lambda leaf, k=k: leaf[k], path) for k in range(num_kept)]
    return {k * between: eqx.combine(point, rest) for k, point in enumerate([parameters, *points])}


@eqx.filter_jit
def _integrate(parameters, rest, task, dt, between: int, num_kept: int):
    """The parameters after each of `num_kept` stretches of `between` steps of length dt."""

    def velocity(theta):
        gradient = jax.grad(lambda theta: exact_half_mse(*one_layer(eqx.combine(theta, rest)), task))(theta)
        return jax.tree.map(jnp.negative, gradient)

    def moved(theta, direction, by):
        return jax.tree.map(lambda t, v: t + by * v, theta, direction)

    def step(theta, _):
        k1 = velocity(theta)
        k2 = velocity(moved(theta, k1, dt / 2))
        k3 = velocity(moved(theta, k2, dt / 2))
        k4 = velocity(moved(theta, k3, dt))
        mean = jax.tree.map(lambda a, b, c, d: (a + 2 * b + 2 * c + d) / 6, k1, k2, k3, k4)
        return moved(theta, mean, dt), None

    def stretch(theta, _):
        theta, _ = jax.lax.scan(step, theta, length=between)
        return theta, theta

    _, path = jax.lax.scan(stretch, parameters, length=num_kept)
    return path


def balanced_start(task: LinearRegression, *, scale: float, key: PRNGKeyArray) -> MergedLSA:
    """The small balanced start of Zhang et al. 2024, from which gradient flow reaches a known global minimum.

        u = σ,  U = σ ΘΘᵀ,  ‖ΘΘᵀ‖_F = 1,  all else 0,   where W_PV[y, y] = −u/√N and W_KQ[x, x] = U/√N

    and Θ is random. The limit is u = ‖Γ⁻¹‖_F^½, U = Γ⁻¹/‖Γ⁻¹‖_F^½. Our 1/N is part of the weights and the prediction is minus the y
    entry, hence −1/√N and 1/√N. Γ⁻¹ is the best preconditioner on `task` (`optimal_preconditioner`).

    **Raises** `ZooError` if σ²‖Γ‖_op √d < 2 does not hold, or the task has several outputs. Theorem 4.1.
    """
    check_task(task)
    if task.output_dim != 1:
        raise ZooError(f"the balanced start is known for one output, this task has {task.output_dim}")
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
