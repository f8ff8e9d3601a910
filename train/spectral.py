"""Gradient descent in the singular basis of a prompt, where its steps are products of numbers: for tuning it on many tasks.

With X = U S Vᵀ, the examples as rows, gradient descent and GD++ never leave the basis (U, V): neither the residuals nor the inputs mix
singular directions. After one decomposition of a prompt a step costs O(d), and not O(N d²).
"""

from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..zoo.algorithms.gradient_descent import GradientDescent, GradientDescentPlusPlus
from ..zoo.prompt import Prompt

Descent: TypeAlias = GradientDescent | GradientDescentPlusPlus


class Spectrum(eqx.Module):
    """A prompt in its singular basis: the diagonal of S, and the coordinates Uᵀ Y and Vᵀ x_query."""

    singular_values: Float[Array, " rank"]
    ys: Float[Array, "rank output_dim"]
    query: Float[Array, " rank"]
    num_examples: int = eqx.field(static=True)


def spectrum(prompt: Prompt) -> Spectrum:
    """The prompt in its singular basis."""
    U, S, Vt = jnp.linalg.svd(prompt.xs, full_matrices=False)
    return Spectrum(S, U.T @ prompt.ys, Vt @ prompt.query, prompt.num_examples)


class SpectralDescent(eqx.Module):
    """What `algorithm`, started from W₀ = 0, predicts; from the spectrum of a prompt.

    ŷ ← ŷ + (η_k/N) Σ_r y_r s_r q_r,   y_r ← (1 − (η_k/N) s_r²) y_r,   (s_r, q_r) ← (1 − γ_k s_r²) (s_r, q_r)
    """

    algorithm: Descent

    def __call__(self, spectrum: Spectrum) -> Float[Array, " output_dim"]:
        s, ys, q = spectrum.singular_values, spectrum.ys, spectrum.query
        num_steps = self.algorithm.num_steps
        etas = jnp.broadcast_to(self.algorithm.step_size, (num_steps,)) / spectrum.num_examples
        gamma = self.algorithm.gamma if isinstance(self.algorithm, GradientDescentPlusPlus) else jnp.zeros(())
        gammas = jnp.broadcast_to(gamma, (num_steps,))
        prediction = jnp.zeros(ys.shape[1], ys.dtype)
        for eta, gamma in zip(etas, gammas, strict=True):
            prediction = prediction + eta * (s * q) @ ys
            ys = (1 - eta * s**2)[:, None] * ys
            s, q = (1 - gamma * s**2) * s, (1 - gamma * s**2) * q
        return prediction


spectra = jax.jit(jax.vmap(spectrum))
