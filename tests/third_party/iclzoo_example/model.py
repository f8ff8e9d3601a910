"""Attention whose pattern saturates, in a class of its own, and a model of it."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

import iclzoo


class SoftsignAttention(iclzoo.SelfAttention):
    """f(s) = s / (1 + |s|), divided by the number of context tokens; its parameters are the products."""

    W_KQ: Float[Array, "num_heads embed_dim embed_dim"]
    W_PV: Float[Array, "num_heads embed_dim embed_dim"]

    def pattern(self, scores):
        return scores / (1 + jnp.abs(scores)) / scores.shape[-1]


@iclzoo.register_model("softsign_attention")
class SoftsignModel(iclzoo.ConcatenatingModel):
    """One layer of attention whose pattern saturates: eⱼ ← eⱼ + Σᵢ W_PV eᵢ f(eᵢᵀ W_KQ eⱼ)/N, f(s) = s/(1 + |s|)."""

    attention: SoftsignAttention
    input_dim: int = eqx.field(static=True)
    output_dim: int = eqx.field(static=True)
    init_scale: float = eqx.field(static=True)
    query_in_context: bool = eqx.field(static=True, default=False)
    W_0: None = None

    def __init__(self, *, input_dim: int = 10, output_dim: int = 1, init_scale: float = 0.02, key: PRNGKeyArray):
        size = input_dim + output_dim
        products = (init_scale / size) ** 0.5 * jr.normal(key, (2, 1, size, size))
        self.attention = SoftsignAttention(*products)
        self.input_dim, self.output_dim, self.init_scale = input_dim, output_dim, init_scale

    @property
    def stack(self):
        return (self.attention,)
