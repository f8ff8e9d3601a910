"""The best step size of one step of gradient descent, in closed form: from labelled tasks, and for a whole distribution."""

from typing import NamedTuple, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..zoo.algorithms.gradient_descent import GradientDescent
from ..zoo.errors import ConfigError
from ..zoo.prompt import Prompt
from .tasks import LinearRegression, Task


class OneStep(NamedTuple):
    """The optimum of one step of gradient descent from zero on a task distribution."""

    step_size: float  # η*
    half_mse: float  # ½·MSE at η*


def fitted_step_size(prompts: Prompt, targets: Float[Array, "num_tasks output_dim"]) -> Float[Array, ""]:
    """The η that minimises the loss of one step from zero on labelled tasks.

        s_n = Σᵢ yᵢ (xᵢᵀ x_query),   η* = N Σₙ ⟨y_n, s_n⟩ / Σₙ ‖s_n‖²

    Rossi et al. 2024. NaN where every s_n is zero, for then no η is better than another.
    """
    s = jax.vmap(GradientDescent(prompts.num_examples))(prompts)  # one step with η = N
    return prompts.num_examples * (targets * s).sum() / (s**2).sum()


def has_optimal_step_size(task: Task) -> TypeGuard[LinearRegression]:
    """Whether `optimal_step_size` knows the moments of this task: linear regression with a teacher of mean zero."""
    return isinstance(task, LinearRegression) and not np.any(np.asarray(task.teacher.mean))


def optimal_step_size(task: Task) -> OneStep:
    """The η that minimises the expected loss of one step from zero, and that loss, from the moments of the inputs.

        MSE(a) = n_y (α² tr Λ − 2a c₁ + a² c₂),   a = η/N
        c₁ = α² N tr Λ²,   c₂ = α² [N tr M(Λ) + N(N−1) tr Λ³] + σ² N tr Λ²

    for n_y outputs, teacher scale α, label noise σ, Λ = E[x xᵀ] and M(A) = E[x xᵀ A x xᵀ]; the minimum is at a* = c₁/c₂.
    Uniform inputs: a* = N d s₂ / (N Q + N(N−1) d s₂²) with Q = d m₄ + d(d−1) s₂²; Gaussian ones: η* = N/(N + d + 1).

    **Raises** `ConfigError` where `has_optimal_step_size` is false.
    """
    if not has_optimal_step_size(task):
        raise ConfigError("optimal_step_size needs linear regression with a teacher of mean 0; use fitted_step_size")
    N, covariance = task.num_examples, task.inputs.covariance(task.input_dim)
    signal, noise = task.teacher.scale**2, task.noise_std**2
    square = covariance @ covariance
    c1 = signal * N * jnp.trace(square)
    same, different = jnp.trace(task.inputs.fourth_moment(covariance)), jnp.trace(square @ covariance)
    c2 = signal * (N * same + N * (N - 1) * different) + noise * N * jnp.trace(square)
    a = c1 / c2
    mse = task.output_dim * (signal * jnp.trace(covariance) - 2 * a * c1 + a**2 * c2)
    return OneStep(step_size=float(a * N), half_mse=float(mse / 2))
