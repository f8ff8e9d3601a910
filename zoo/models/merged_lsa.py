"""Linear self-attention whose parameters are the products themselves."""

import equinox as eqx
import jax.random as jr
from jaxtyping import PRNGKeyArray

from ..checks.annotations import InitScale, Repeats, Size
from ..factory import register_model
from ..layers.attention import MergedLinearSelfAttention
from ..token_model import ConcatenatingModel, LayeredModel, QueryInit, QueryInitName, initial_query


@register_model("merged_lsa")
class MergedLSA(LayeredModel, ConcatenatingModel):
    """`num_layers` linear self-attention layers parametrised by W_KQ and W_PV.

        eⱼ ← eⱼ + Σ_heads W_PV⁽ᵏ⁾ (Σᵢ eᵢ eᵢᵀ) W_KQ⁽ᵏ⁾ eⱼ

    The learner of the theory: Ahn et al. 2023; Zhang, Frei and Bartlett 2024. Its 1/N sits in W_PV.
    """

    layers: tuple[MergedLinearSelfAttention, ...]
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
        num_layers: Repeats = 1,
        num_heads: Size = 1,
        query_init: QueryInitName = "zero",
        query_in_context: bool = False,
        init_scale: InitScale = 0.002,
        key: PRNGKeyArray,
    ):
        """Products are drawn with variance `init_scale` / `num_layers` / embed_dim."""
        self.layers = tuple(
            MergedLinearSelfAttention(
                embed_dim=input_dim + output_dim, num_heads=num_heads, init_scale=init_scale / num_layers, key=layer_key
            )
            for layer_key in jr.split(key, num_layers)
        )
        self.W_0 = initial_query(query_init, output_dim, input_dim)
        self.input_dim, self.output_dim = input_dim, output_dim
        self.query_in_context, self.init_scale = query_in_context, init_scale
