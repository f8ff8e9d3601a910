"""The best single step of gradient descent, in closed form: from labelled tasks, and for a whole distribution.

With K = Σᵢ xᵢ xᵢᵀ over the n examples whose labels follow the teacher, and ω the total variance of the noise in all labels,

    G = α² E[K²] + ω Λ = α² [n M(I) + n(n−1) Λ²] + ω Λ,   Λ = E[x xᵀ],   M(A) = E[x xᵀ A x xᵀ]

decides which step is best for teachers of scale α. Label noise σ and m distractors give n = N − m and ω = nσ² + m.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..checks.gate import gated
from ..checks.numbers import Number
from ..errors import ConfigError, NotApplicable
from ..moments import Matrix, Moments
from ..prompt import Prompt


class OneStep(NamedTuple):
    """The optimum of one step of gradient descent from zero on a task distribution."""

    step_size: float  # η*
    half_mse: float  # ½·MSE at η*


class OnePreconditionedStep(NamedTuple):
    """The optimum of one step of preconditioned gradient descent from zero on a task distribution."""

    preconditioner: Matrix  # P*
    half_mse: float  # ½·MSE at P*


@gated
@jax.jit
def fitted_step_size(prompts: Prompt, targets: Float[Array, "num_tasks output_dim"]) -> Float[Array, ""]:
    """The η that minimises the loss of one step from zero on labelled tasks.

        s_n = Σᵢ yᵢ (xᵢᵀ x_query),   η* = N Σₙ ⟨y_n, s_n⟩ / Σₙ ‖s_n‖²

    Rossi et al. 2024. NaN where every s_n is zero, for then no η is better than another.
    """
    s = jax.vmap(_one_step_of_size_N)(prompts)
    return prompts.num_examples * (targets * s).sum() / (s**2).sum()


@gated
@jax.jit
def fitted_preconditioner(prompts: Prompt, targets: Float[Array, "num_tasks output_dim"]) -> Matrix:
    """The P that minimises the loss of one preconditioned step from zero on labelled tasks: least squares in its entries.

        ŷ_n = Σ_ab P_ab (1/N Σᵢ yᵢ xᵢ_a) x_query_b

    Where the tasks leave it open, the smallest such P.
    """
    gradients = jnp.einsum("nio,nia->noa", prompts.ys, prompts.xs) / prompts.num_examples
    features = jnp.einsum("noa,nb->noab", gradients, prompts.query).reshape(targets.size, -1)
    entries, *_ = jnp.linalg.lstsq(features.T @ features, features.T @ targets.reshape(-1))
    return entries.reshape(prompts.input_dim, prompts.input_dim)


@gated
def best_step_size(moments: Moments) -> OneStep:
    """The η that minimises the expected loss of one step from zero, and that loss, from the moments of the inputs.

        MSE(a) = n_y (α² tr Λ − 2a α² n tr Λ² + a² tr GΛ),   a = η/N,   a* = α² n tr Λ² / tr GΛ

    for n_y outputs. Uniform inputs without noise: a* = N d s₂ / (N Q + N(N−1) d s₂²) with Q = d m₄ + d(d−1) s₂²;
    Gaussian ones: η* = N/(N + d + 1).

    **Raises** `NotApplicable` for teachers of another mean than 0, or inputs that depend on each other.
    """
    signal, covariance, gain, G, scale = _scaled(moments)
    gained = jnp.trace(gain @ covariance)
    a = (
        gained / jnp.trace(G @ covariance) if gained else gained
    )  # nothing is gained by a step for teachers that are zero
    mse = moments.output_dim * (signal * jnp.trace(covariance) - a * gained)
    return OneStep(step_size=_finite(float(a * moments.num_examples) / scale), half_mse=_finite(float(mse / 2) * scale))


@gated
def best_preconditioner(moments: Moments) -> OnePreconditionedStep:
    """The P that minimises the expected loss of one preconditioned step from zero, and that loss.

        MSE(P) = n_y tr[α² Λ − 2(α² n/N) Λ²P + G P Λ Pᵀ/N²],   P* = N α² n G⁻¹Λ,   MSE* = n_y α² tr[Λ − (n/N) Λ²P*]

    from E‖W(I − KP/N)x_query‖² and the noise. Gaussian inputs without noise: P* = Γ⁻¹ with Γ = (1 + 1/N) Λ + (tr Λ/N) I; isotropic
    inputs: P* = η* I. Zhang et al. 2024; Ahn et al. 2023.

    **Raises** `NotApplicable` for teachers of another mean than 0, or inputs that depend on each other.
    """
    signal, covariance, gain, G, scale = _scaled(moments)
    least, most = np.linalg.eigvalsh(np.asarray(G))[[0, -1]]
    singular = (
        least <= len(G) * np.finfo(G.dtype).eps * most
    )  # then the smallest of the best P, as for inputs that are constant
    P_over_N = jnp.linalg.lstsq(G, gain)[0] if singular else jnp.linalg.solve(G, gain)
    mse = moments.output_dim * jnp.trace(signal * covariance - gain @ P_over_N @ covariance)
    return OnePreconditionedStep(
        preconditioner=_finite(moments.num_examples * P_over_N / scale), half_mse=_finite(float(mse / 2) * scale)
    )


def _finite(number: Any) -> Any:
    """**Raises** `ConfigError` for what does not fit into the floating-point numbers that JAX is set to."""
    if not np.isfinite(number).all():
        raise ConfigError(
            "the moments of this task are too large or too small for the closed form; scale its inputs or teacher"
        )
    return number


def _scaled(moments: Moments) -> tuple[Number, Matrix, Matrix, Matrix, float]:
    """α², Λ, α² n Λ and G with inputs scaled by 1/√s, so that no product of moments overflows, and s: a power of two, which rounds
    nothing.
    """
    if np.any(np.asarray(moments.teacher_mean)) or not moments.independent_inputs:
        raise NotApplicable("the closed form needs a Gaussian teacher of mean 0 and independent inputs")
    n, signal, covariance = moments.num_examples - moments.num_distractors, moments.teacher_scale**2, moments.covariance
    scale = 2.0 ** round(math.log2(np.abs(covariance).max()))
    M = moments.fourth_moment(jnp.eye(moments.input_dim, dtype=covariance.dtype)) / scale / scale
    covariance, noise = covariance / scale, (n * moments.noise_std**2 + moments.num_distractors) / scale
    G = signal * (n * M + n * (n - 1) * covariance @ covariance) + noise * covariance
    return signal, covariance, signal * n * covariance, G, scale


def _one_step_of_size_N(prompt: Prompt) -> Float[Array, " output_dim"]:
    """Σᵢ yᵢ (xᵢᵀ x_query)."""
    return prompt.ys.T @ prompt.xs @ prompt.query
