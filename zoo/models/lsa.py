"""One layer of linear self-attention."""

import equinox as eqx
from jaxtyping import PRNGKeyArray

from ..checks.annotations import InitScale, Size
from ..factory import register_model
from ..layers.attention import LinearSelfAttention
from ..token_model import ConcatenatingModel, OneLayerModel, QueryInit, QueryInitName, initial_query


@register_model("lsa")
class LSA(OneLayerModel, ConcatenatingModel):
    """One linear self-attention layer over concatenated tokens; trained, it takes one step of gradient descent.

        ŷ = −[e_query + Σ_heads W_PV (Σᵢ eᵢ eᵢᵀ) W_KQ e_query]_y

    von Oswald et al. 2023, Proposition 1 and Figure 2.
    """

    attention: LinearSelfAttention
    W_0: QueryInit
    input_dim: int = eqx.field(static=True)
    output_dim: int = eqx.field(static=True)
    query_in_context: bool = eqx.field(static=True)
    init_scale: float = eqx.field(static=True)

    def __init__(
        self,
        *,
        input_dim: Size = 10,
        output_dim: Size = 1,
        num_heads: Size = 1,
        head_dim: Size | None = None,
        query_init: QueryInitName = "zero",
        query_in_context: bool = False,
        init_scale: InitScale = 0.002,
        key: PRNGKeyArray,
    ):
        self.attention = LinearSelfAttention(
            embed_dim=input_dim + output_dim, num_heads=num_heads, head_dim=head_dim, init_scale=init_scale, key=key
        )
        self.W_0 = initial_query(query_init, output_dim, input_dim)
        self.input_dim, self.output_dim = input_dim, output_dim
        self.query_in_context, self.init_scale = query_in_context, init_scale
