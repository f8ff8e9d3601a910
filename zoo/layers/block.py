"""The block of a Transformer: attention, then a multi-layer perceptron."""

import equinox as eqx
import jax

from .attention import Context, FactoredSelfAttention, Queries, Scores
from .mlp import MLP

Norm = eqx.nn.LayerNorm | eqx.nn.Identity


class TransformerBlock(eqx.Module):
    """Attention and an MLP, each behind a norm of its own and beside the residual stream.

        aⱼ = Σ_heads Σᵢ W_PV n₁(eᵢ) · f(n₁(eᵢ)ᵀ W_KQ n₁(eⱼ)),   update of eⱼ = aⱼ + MLP(n₂(eⱼ + aⱼ))

    n₁ and n₂ are layer norms, or `eqx.nn.Identity` where there is no norm.
    Vaswani et al. 2017, with the norm before the layer.
    """

    attention_norm: Norm
    attention: FactoredSelfAttention
    mlp_norm: Norm
    mlp: MLP

    @property
    def num_heads(self) -> int:
        return self.attention.num_heads

    @property
    def head_dim(self) -> int:
        return self.attention.head_dim

    def attend(self, queries: Queries, context: Context) -> tuple[Scores, Scores]:
        """The scores between the normalised tokens, and the pattern made of them."""
        normalise = jax.vmap(self.attention_norm)
        return self.attention.attend(normalise(queries), normalise(context))

    def __call__(self, queries: Queries, context: Context) -> Queries:
        normalise = jax.vmap(self.attention_norm)
        attention_update = self.attention(normalise(queries), normalise(context))
        mlp_update = jax.vmap(self.mlp)(jax.vmap(self.mlp_norm)(queries + attention_update))
        return attention_update + mlp_update
