"""A prompt in its singular basis, where steps of gradient descent are products of numbers: for tuning them on many tasks.

With X = U S Vᵀ, the examples as rows, gradient descent and GD++ never leave the basis (U, V): neither the residuals nor the inputs mix
singular directions. After one decomposition of a prompt a step costs O(d), and not O(N d²).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .prompt import Prompt


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


spectra = jax.jit(jax.vmap(spectrum))
