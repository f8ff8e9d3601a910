"""A multi-layer perceptron, then one layer of linear self-attention."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from ..checks.annotations import InitScale, Size
from ..factory import register_model
from ..layers.attention import LinearSelfAttention
from ..layers.mlp import MLPEmbedding
from ..token_model import EmbeddingModel, OneLayerModel


@register_model("mlp_lsa")
class MLPLSA(OneLayerModel, EmbeddingModel):
    """Each token goes through an affine embedding and a residual MLP m; one linear self-attention layer follows.

        eᵢ = m(xᵢ, yᵢ),  e_query = m(x_query, 0),  ŷ = −[e_query + Σ_heads W_PV (Σᵢ eᵢ eᵢᵀ) W_KQ e_query]_y

    where [·]_y are the last `output_dim` entries. Trained, it takes a step of gradient descent on a linear read-out of the
    features. von Oswald et al. 2023, Proposition 2, Figure 4 and appendix A.7.
    """

    embedding: MLPEmbedding
    attention: LinearSelfAttention
    input_dim: int = eqx.field(static=True)
    output_dim: int = eqx.field(static=True)
    query_in_context: bool = eqx.field(static=True)
    init_scale: float = eqx.field(static=True)

    def __init__(
        self,
        *,
        input_dim: Size = 1,
        output_dim: Size = 1,
        embed_dim: Size = 40,
        hidden_dim: Size = 160,
        num_heads: Size = 1,
        head_dim: Size | None = None,
        query_in_context: bool = False,
        init_scale: InitScale = 0.002,
        key: PRNGKeyArray,
    ):
        key_embedding, key_attention = jr.split(key)
        self.embedding = MLPEmbedding(
            in_dim=input_dim + output_dim,
            embed_dim=embed_dim,
            hidden_dim=hidden_dim,
            init_scale=init_scale,
            key=key_embedding,
        )
        self.attention = LinearSelfAttention(
            embed_dim=embed_dim, num_heads=num_heads, head_dim=head_dim, init_scale=init_scale, key=key_attention
        )
        self.input_dim, self.output_dim = input_dim, output_dim
        self.query_in_context, self.init_scale = query_in_context, init_scale

    @property
    def embed_dim(self) -> int:
        return self.embedding.embed_dim

    @property
    def hidden_dim(self) -> int:
        return self.embedding.hidden_dim

    def features(self, x: Float[Array, " input_dim"]) -> Float[Array, " embed_dim"]:
        """m(x): the embedding of x with y = 0."""
        return self.embedding(jnp.concatenate([x, jnp.zeros(self.output_dim, x.dtype)]))
