"""Weights with which an MLP and a linear self-attention layer take a step of kernel regression."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from ..algorithms.kernel import KernelGradientDescent
from ..checks.annotations import Size
from ..checks.numbers import FiniteNumber
from ..layers.mlp import MLPEmbedding
from ..models.mlp_lsa import MLPLSA
from ..prompt import Learner
from .gradient_descent_step import gd_attention
from .write import construction


@construction
def kernel_regression_mlp_lsa(
    features: MLPEmbedding,
    step_size: FiniteNumber,
    *,
    num_examples: Size,
    output_dim: Size = 1,
) -> MLPLSA:
    """The `MLPLSA` that takes one step of size η on 1/(2N) Σᵢ ‖W m(xᵢ) − yᵢ‖² from W₀ = 0, m being `features`.

        eᵢ = (m(xᵢ), yᵢ),   ŷ = (η/N) Σᵢ yᵢ k(xᵢ, x_query),   k(x, x') = m(x)ᵀ m(x')

    The embedding of x is that of `features`; y passes it untouched. von Oswald et al. 2023, Proposition 2.
    """
    feature_dim, input_dim = features.affine.weight.shape
    embed_dim = feature_dim + output_dim
    blank = MLPLSA(
        input_dim=input_dim, output_dim=output_dim, embed_dim=embed_dim, hidden_dim=features.hidden_dim, key=jr.key(0)
    )
    attention = gd_attention(
        step_size, num_examples=num_examples, input_dim=feature_dim, output_dim=output_dim, W_0=None
    )
    embedding = blank.embedding
    written = eqx.tree_at(
        lambda m: (m.affine, m.mlp.inner, m.mlp.outer),
        embedding,
        (
            _beside(features.affine, jnp.eye(output_dim)),
            _beside(features.mlp.inner, jnp.zeros((0, output_dim))),
            _beside(features.mlp.outer, jnp.zeros((output_dim, 0))),
        ),
    )
    return eqx.tree_at(lambda m: (m.embedding, m.attention), blank, (written, attention))


def _beside(linear: eqx.nn.Linear, other: Float[Array, "m n"]) -> eqx.nn.Linear:
    """The map (u, v) ↦ (linear(u), other v)."""
    (rows, columns), (more_rows, more_columns) = linear.weight.shape, other.shape
    weight = jnp.zeros((rows + more_rows, columns + more_columns), linear.weight.dtype)
    weight = weight.at[:rows, :columns].set(linear.weight).at[rows:, columns:].set(other)
    bias = jnp.zeros(rows + more_rows, linear.weight.dtype)
    bias = bias if linear.bias is None else bias.at[:rows].set(linear.bias)
    blank = eqx.nn.Linear(columns + more_columns, rows + more_rows, key=jr.key(0))
    return eqx.tree_at(lambda m: (m.weight, m.bias), blank, (weight, bias))


def example() -> tuple[Any, Learner]:
    """A step on three features for prompts of 7 examples of 5 inputs, and the algorithm it equals."""
    features = MLPEmbedding(in_dim=5, embed_dim=3, hidden_dim=4, init_scale=1.0, key=jr.key(0))
    model = kernel_regression_mlp_lsa(features, 0.9, num_examples=7)
    return model, KernelGradientDescent(features, None, jnp.array(0.9))
