"""The full Transformer, with perceptrons and, where wanted, layer norms between its attention layers."""

from functools import partial
from typing import Literal

import equinox as eqx
import jax.random as jr
from jaxtyping import PRNGKeyArray

from ..checks.annotations import Clip, InitScale, Repeats, Size
from ..factory import register_model
from ..layers.attention import LinearSelfAttention, ReLUSelfAttention, SoftmaxSelfAttention
from ..layers.block import TransformerBlock
from ..layers.mlp import MLP, draw_linear
from ..token_model import EmbeddingModel, LayeredModel, Tokens, clipped

AttentionType = Literal["linear", "softmax", "relu"]
ATTENTION: dict[AttentionType, type[LinearSelfAttention | SoftmaxSelfAttention | ReLUSelfAttention]] = {
    "linear": LinearSelfAttention,
    "softmax": SoftmaxSelfAttention,
    "relu": ReLUSelfAttention,
}


@register_model("transformer")
class Transformer(LayeredModel, EmbeddingModel):
    """An affine embedding of concatenated tokens, then `num_layers` blocks of attention and an MLP.

        eᵢ = A (xᵢ, yᵢ) + a,  e_query = A (x_query, 0) + a,  eⱼ ← clip(eⱼ + block⁽ᵏ⁾(eⱼ), ±clip),  ŷ = −[e_query]_y

    where [·]_y are the last `output_dim` entries. `attention_type` is "linear", "softmax" or "relu"; the MLPs have
    `widening_factor` · embed_dim GELU units. With `layer_norm` every MLP, and every attention layer but the first, reads
    normalised tokens. `clip=None` leaves the tokens as they are. von Oswald et al. 2023, section 3 and appendix A.9.
    """

    embedding: eqx.nn.Linear
    layers: tuple[TransformerBlock, ...]
    input_dim: int = eqx.field(static=True)
    output_dim: int = eqx.field(static=True)
    embed_dim: int = eqx.field(static=True)
    attention_type: str = eqx.field(static=True)
    widening_factor: int = eqx.field(static=True)
    layer_norm: bool = eqx.field(static=True)
    clip: float | None = eqx.field(static=True)
    query_in_context: bool = eqx.field(static=True)
    init_scale: float = eqx.field(static=True)

    def __init__(
        self,
        *,
        input_dim: Size = 10,
        output_dim: Size = 1,
        embed_dim: Size = 40,
        num_layers: Repeats = 12,
        num_heads: Size = 4,
        head_dim: Size = 10,
        attention_type: AttentionType = "linear",
        widening_factor: Size = 4,
        layer_norm: bool = False,
        clip: Clip = None,
        query_in_context: bool = False,
        init_scale: InitScale = 1.0,
        key: PRNGKeyArray,
    ):
        """Weights are drawn with variance `init_scale` / `num_layers` / fan-in; biases are zero.

        The 0.002 of the attention-only models would start twelve layers on a long plateau.
        """
        embedding_key, *block_keys = jr.split(key, num_layers + 1)
        scale = init_scale / num_layers
        norm = partial(eqx.nn.LayerNorm, embed_dim) if layer_norm else eqx.nn.Identity

        def draw_block(index: int, key: PRNGKeyArray) -> TransformerBlock:
            attention_key, mlp_key = jr.split(key)
            return TransformerBlock(
                attention_norm=norm() if index else eqx.nn.Identity(),
                attention=ATTENTION[attention_type](
                    embed_dim=embed_dim, num_heads=num_heads, head_dim=head_dim, init_scale=scale, key=attention_key
                ),
                mlp_norm=norm(),
                mlp=MLP(embed_dim=embed_dim, hidden_dim=widening_factor * embed_dim, init_scale=scale, key=mlp_key),
            )

        self.embedding = draw_linear(input_dim + output_dim, embed_dim, init_scale=scale, key=embedding_key)
        self.layers = tuple(draw_block(index, key) for index, key in enumerate(block_keys))
        self.input_dim, self.output_dim, self.embed_dim = input_dim, output_dim, embed_dim
        self.attention_type, self.widening_factor, self.layer_norm = attention_type, widening_factor, layer_norm
        self.clip, self.query_in_context, self.init_scale = clip, query_in_context, init_scale

    def advance(self, tokens: Tokens, update: Tokens) -> Tokens:
        return clipped(tokens + update, self.clip)
