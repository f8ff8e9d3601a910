"""Several layers of linear self-attention, each with weights of its own."""

import equinox as eqx
import jax.random as jr
from jaxtyping import PRNGKeyArray

from ..checks.annotations import Clip, InitScale, Repeats, Size
from ..factory import register_model
from ..layers.attention import LinearSelfAttention
from ..token_model import ConcatenatingModel, LayeredModel, QueryInit, QueryInitName, Tokens, clipped, initial_query


@register_model("deep_lsa")
class DeepLSA(LayeredModel, ConcatenatingModel):
    """`num_layers` linear self-attention layers; trained, they take steps of GD++.

        eⱼ ← clip(eⱼ + Σ_heads W_PV⁽ᵏ⁾ (Σᵢ eᵢ eᵢᵀ) W_KQ⁽ᵏ⁾ eⱼ, ±clip),  k = 1 … num_layers

    `clip=None` leaves the tokens as they are; the paper clips to ±10 where there are more than two layers.
    von Oswald et al. 2023, Figure 3 and appendix A.12.
    """

    layers: tuple[LinearSelfAttention, ...]
    W_0: QueryInit
    input_dim: int = eqx.field(static=True)
    output_dim: int = eqx.field(static=True)
    clip: float | None = eqx.field(static=True)
    query_in_context: bool = eqx.field(static=True)
    init_scale: float = eqx.field(static=True)

    def __init__(
        self,
        *,
        input_dim: Size = 10,
        output_dim: Size = 1,
        num_layers: Repeats = 2,
        clip: Clip = None,
        num_heads: Size = 1,
        head_dim: Size | None = None,
        query_init: QueryInitName = "zero",
        query_in_context: bool = False,
        init_scale: InitScale = 0.002,
        key: PRNGKeyArray,
    ):
        """Weights are drawn with variance `init_scale` / `num_layers` / fan-in."""
        self.layers = tuple(
            LinearSelfAttention(
                embed_dim=input_dim + output_dim,
                num_heads=num_heads,
                head_dim=head_dim,
                init_scale=init_scale / num_layers,
                key=layer_key,
            )
            for layer_key in jr.split(key, num_layers)
        )
        self.W_0 = initial_query(query_init, output_dim, input_dim)
        self.input_dim, self.output_dim, self.clip = input_dim, output_dim, clip
        self.query_in_context, self.init_scale = query_in_context, init_scale

    def advance(self, tokens: Tokens, update: Tokens) -> Tokens:
        return clipped(tokens + update, self.clip)

    @property
    def update_scale(self) -> float | None:
        return 1.0 if self.clip is None else None
