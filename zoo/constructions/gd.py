"""C1: weights with which linear self-attention takes steps of gradient descent."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from ..attention import LinearSelfAttention
from ..frozen import Frozen
from ..models.deep_lsa import DeepLSA
from ..models.lsa import LSA
from ..token_model import ConcatenatingModel

StepSizes = Sequence[float] | Float[Array, " num_steps"]
InitialWeights = Float[Array, "output_dim input_dim"]


def gd_attention(
    step_size: float | Float[Array, ""],
    *,
    num_examples: int,
    input_dim: int,
    output_dim: int,
    W_0: InitialWeights | None,
) -> LinearSelfAttention:
    """The layer that takes one step of size η on L(W) = 1/(2N) Σ‖W xᵢ − yᵢ‖², from W₀.

        W_K = W_Q = [[I, 0], [0, 0]],   W_V = [[0, 0], [W₀, −I]],   W_P = (η/N) I

    von Oswald et al. 2023, Proposition 1.
    """
    embed_dim = input_dim + output_dim
    x, y = slice(input_dim), slice(input_dim, None)
    zero = jnp.zeros((embed_dim, embed_dim))
    select_x = zero.at[x, x].set(jnp.eye(input_dim))
    W_V = zero.at[y, y].set(-jnp.eye(output_dim))
    if W_0 is not None:
        W_V = W_V.at[y, x].set(W_0)
    return with_weights(W_K=select_x, W_Q=select_x, W_V=W_V, W_P=step_size / num_examples * jnp.eye(embed_dim))


def with_weights(
    *,
    W_K: Float[Array, "head_dim embed_dim"],
    W_Q: Float[Array, "head_dim embed_dim"],
    W_V: Float[Array, "head_dim embed_dim"],
    W_P: Float[Array, "embed_dim head_dim"],
) -> LinearSelfAttention:
    """A linear self-attention layer of one head with the given weights."""
    head_dim, embed_dim = W_K.shape
    layer = LinearSelfAttention(embed_dim=embed_dim, head_dim=head_dim, init_scale=1.0, key=jr.key(0))
    return eqx.tree_at(
        lambda layer: (layer.W_K, layer.W_Q, layer.W_V, layer.W_P), layer, (W_K[None], W_Q[None], W_V[None], W_P[None])
    )


def gradient_descent_lsa(
    step_sizes: StepSizes,
    *,
    num_examples: int,
    input_dim: int,
    output_dim: int = 1,
    W_0: InitialWeights | None = None,
) -> ConcatenatingModel:
    """The model that takes one step of gradient descent for each η of `step_sizes`, starting from W₀.

        W ← W − (η/N) Σᵢ (W xᵢ − yᵢ) xᵢᵀ,   ŷ = W x_query

    An `LSA` for one step, a `DeepLSA` for several. Exact for prompts of `num_examples` examples.
    von Oswald et al. 2023, Proposition 1.
    """
    dims: dict[str, Any] = {"input_dim": input_dim, "output_dim": output_dim}
    layers = tuple(gd_attention(eta, num_examples=num_examples, W_0=W_0, **dims) for eta in jnp.asarray(step_sizes))
    return stack_layers(layers, W_0=W_0, **dims)


def stack_layers(
    layers: tuple[LinearSelfAttention, ...], *, input_dim: int, output_dim: int, W_0: InitialWeights | None = None
) -> ConcatenatingModel:
    """An `LSA` (one layer) or a `DeepLSA` (several) of the given layers, with its query initialised by W₀."""
    dims: dict[str, Any] = {"input_dim": input_dim, "output_dim": output_dim, "head_dim": layers[0].head_dim}
    query_init = "zero" if W_0 is None else "known"
    if len(layers) == 1:
        model = LSA(**dims, query_init=query_init, key=jr.key(0))
        model = eqx.tree_at(lambda m: m.attention, model, layers[0])
    else:
        model = DeepLSA(**dims, num_layers=len(layers), query_init=query_init, key=jr.key(0))
        model = eqx.tree_at(lambda m: m.layers, model, layers)
    if W_0 is not None:
        model = eqx.tree_at(lambda m: m.W_0, model, Frozen(jnp.asarray(W_0)))
    return model
