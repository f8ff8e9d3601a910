"""The best regularisation of ridge regression: in closed form where Bayes' rule gives it, else from labelled tasks."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..zoo.gate import gated
from ..zoo.prompt import Prompt
from .tasks import LinearRegression, Task
from .teachers import GaussianTeacher
from .tuning import GRADIENT_TOLERANCE, minimise


@gated
def bayes_regularisation(task: Task) -> float | None:
    """ρ = σ²/α², with which ridge regression is Bayes-optimal; `None` where the task is not W ~ N(0, α²) with Gaussian noise.

    Zero without label noise: the limit of ridge regression is then least squares.
    """
    if not isinstance(task, LinearRegression) or not isinstance(task.teacher, GaussianTeacher):
        return None
    if task.num_distractors or np.any(np.asarray(task.teacher.mean)) or not task.teacher.scale:
        return None
    return float(task.noise_std**2 / task.teacher.scale**2)


@gated
@jax.jit
def fitted_regularisation(
    prompts: Prompt,
    targets: Float[Array, "num_tasks output_dim"],
    gradient_tolerance: float | Float[Array, ""] = GRADIENT_TOLERANCE,
) -> Float[Array, ""]:
    """The ρ that minimises the half-MSE of ridge regression on labelled tasks.

        X = U S Vᵀ,   ŷ(ρ) = Σ_r (Yᵀu_r) s_r (v_rᵀx_query) / (s_r² + ρ)

    Not below the rounding of XXᵀ, where ridge regression is least squares. The singular value decompositions are made once: in the
    CPU backend of JAX 0.10 a batch of linear solves inside nested loops can lock up, so `Ridge` itself is not tuned.
    """
    U, S, Vt = jnp.linalg.svd(prompts.xs, full_matrices=False)
    parts = jnp.einsum("nir,nio,nr,nrd,nd->nro", U, prompts.ys, S, Vt, prompts.query)
    hessian = (S**2)[:, :, None]
    start = hessian.mean()

    def half_mse(theta: Float[Array, ""]) -> Float[Array, ""]:
        predictions = (parts / (hessian + start * jnp.exp(theta))).sum(axis=1)
        return ((predictions - targets) ** 2).sum(axis=1).mean() / 2

    theta, _ = minimise(half_mse, jnp.zeros_like(start), 50, gradient_tolerance)
    return start * jnp.maximum(jnp.exp(theta), 10 * jnp.finfo(start.dtype).eps)
