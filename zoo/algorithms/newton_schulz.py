"""Least squares by Newton's iteration for an inverse."""

from collections.abc import Sequence
from typing import Annotated

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..algorithm import Algorithm, Targets, average, register_algorithm
from ..checks.annotations import Steps, checked
from ..checks.gate import gated
from ..checks.numbers import Number
from ..checks.values import Scalar
from ..prompt import Learner, Prompt
from ..spectrum import Spectrum
from ..storage.config import setting

Alpha = Annotated[Number, Scalar(above=0, most=1e12)]  # whose square is finite in 32 bits


@setting("newton_schulz")
class NewtonSchulz(eqx.Module):
    """Newton–Schulz iteration for the inverse of S = Σᵢ xᵢ xᵢᵀ, and the least squares that it leads to.

        M ← 2M − M S M from M = αI,   ŷ = Σᵢ yᵢ xᵢᵀ M x_query,   residual filter R(λ) = (1 − αλ)^(2^K)

    It converges where αλ < 2 for every eigenvalue λ of S. Schulz 1933; as what a Transformer computes, Fu et al. 2024.
    """

    alpha: Float[Array, ""]
    num_iterations: int = eqx.field(static=True)

    @checked
    def __init__(self, alpha: Alpha, *, num_iterations: Steps = 1):
        self.alpha, self.num_iterations = jnp.asarray(alpha, jnp.result_type(float)), num_iterations

    @gated
    def __call__(self, prompt: Prompt) -> Float[Array, " output_dim"]:
        hessian = prompt.xs.T @ prompt.xs
        M = self.alpha * jnp.eye(prompt.input_dim, dtype=prompt.xs.dtype)
        for _ in range(self.num_iterations):
            M = 2 * M - M @ hessian @ M
        return prompt.ys.T @ prompt.xs @ M @ prompt.query

    def from_spectrum(self, spectrum: Spectrum) -> Float[Array, " output_dim"]:
        """The prediction for a prompt in its singular basis: (1 − R(λ))/λ = α Π_j (1 + (1 − αλ)^(2^j)), j < K."""
        residual = 1 - self.alpha * spectrum.singular_values**2
        inverse = self.alpha
        for _ in range(self.num_iterations):
            inverse, residual = inverse * (1 + residual), residual**2
        return (inverse * spectrum.singular_values * spectrum.query) @ spectrum.ys


@register_algorithm("newton-schulz-K")
class Newton(Algorithm):
    """K iterations of Newton and Schulz for the inverse of Σᵢ xᵢ xᵢᵀ, from αI."""

    special_cases = ("zero",)

    def start(self, prompts: Prompt, targets: Targets) -> Learner:
        largest = average(lambda prompt: jnp.linalg.norm(prompt.xs, ord=2) ** 2, prompts)
        return NewtonSchulz(1 / jnp.maximum(largest, jnp.finfo(largest.dtype).tiny), num_iterations=self.number)

    @classmethod
    def numbers(cls, depth: int) -> Sequence[int]:
        return range(1, depth + 1)
