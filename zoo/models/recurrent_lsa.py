"""One layer of linear self-attention, applied again and again."""

from typing import Annotated

import equinox as eqx
from jaxtyping import PRNGKeyArray

from ..checks.annotations import Clip, InitScale, Repeats, Size
from ..checks.values import Real
from ..factory import register_model
from ..layers.attention import LinearSelfAttention
from ..token_model import ConcatenatingModel, OneLayerModel, QueryInit, QueryInitName, Tokens, clipped, initial_query


@register_model("recurrent_lsa")
class RecurrentLSA(OneLayerModel, ConcatenatingModel):
    """One linear self-attention layer applied `num_loops` times, each update damped by λ = `damping`.

        eⱼ ← clip(eⱼ + λ · Σ_heads W_PV (Σᵢ eᵢ eᵢᵀ) W_KQ eⱼ, ±clip),  repeated

    One set of weights serves every loop; `clip=None` leaves the tokens as they are. von Oswald et al. 2023, Figure 3 and appendix A.6 (λ).
    """

    attention: LinearSelfAttention
    W_0: QueryInit
    input_dim: int = eqx.field(static=True)
    output_dim: int = eqx.field(static=True)
    num_loops: int = eqx.field(static=True)
    damping: float = eqx.field(static=True)
    clip: float | None = eqx.field(static=True)
    query_in_context: bool = eqx.field(static=True)
    init_scale: float = eqx.field(static=True)

    def __init__(
        self,
        *,
        input_dim: Size = 10,
        output_dim: Size = 1,
        num_loops: Repeats = 2,
        damping: Annotated[float, Real(above=0, most=100)] = 1.0,
        clip: Clip = None,
        num_heads: Size = 1,
        head_dim: Size | None = None,
        query_init: QueryInitName = "zero",
        query_in_context: bool = False,
        init_scale: InitScale = 0.002,
        key: PRNGKeyArray,
    ):
        """Weights are drawn with variance `init_scale` / `num_loops` / fan-in."""
        self.attention = LinearSelfAttention(
            embed_dim=input_dim + output_dim,
            num_heads=num_heads,
            head_dim=head_dim,
            init_scale=init_scale / num_loops,
            key=key,
        )
        self.W_0 = initial_query(query_init, output_dim, input_dim)
        self.input_dim, self.output_dim = input_dim, output_dim
        self.num_loops, self.damping, self.clip = num_loops, damping, clip
        self.query_in_context, self.init_scale = query_in_context, init_scale

    @property
    def stack(self) -> tuple[LinearSelfAttention, ...]:
        return (self.attention,) * self.num_loops

    def advance(self, tokens: Tokens, update: Tokens) -> Tokens:
        return clipped(tokens + self.damping * update, self.clip)

    @property
    def update_scale(self) -> float | None:
        return self.damping if self.clip is None else None
