"""Softmax self-attention, with one head or several, and any temperature."""

import equinox as eqx
import jax.random as jr
from jaxtyping import PRNGKeyArray

from ..checks.annotations import InitScale, InverseTemperature, Repeats, Size
from ..factory import register_model
from ..layers.attention import SoftmaxSelfAttention
from ..token_model import ConcatenatingModel, LayeredModel, QueryInit, QueryInitName, initial_query


@register_model("softmax_attention")
class SoftmaxAttention(LayeredModel, ConcatenatingModel):
    """`num_layers` softmax self-attention layers over concatenated tokens.

        eⱼ ← eⱼ + Σ_heads Σᵢ W_PV⁽ᵏ⁾ eᵢ · softmax_i(c · eᵢᵀ W_KQ⁽ᵏ⁾ eⱼ),  k = 1 … num_layers

    c = `inverse_temperature` is 1/√head_dim unless given. One head adds an offset to linear attention that a second head
    can cancel (von Oswald et al. 2023, appendix A.9). One layer is a kernel smoother at finite c, and picks the example of
    the largest score as c → ∞.
    """

    layers: tuple[SoftmaxSelfAttention, ...]
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
        head_dim: Size | None = None,
        inverse_temperature: InverseTemperature | None = None,
        query_init: QueryInitName = "zero",
        query_in_context: bool = False,
        init_scale: InitScale = 0.002,
        key: PRNGKeyArray,
    ):
        """Weights are drawn with variance `init_scale` / `num_layers` / fan-in."""
        self.layers = tuple(
            SoftmaxSelfAttention(
                embed_dim=input_dim + output_dim,
                num_heads=num_heads,
                head_dim=head_dim,
                inverse_temperature=inverse_temperature,
                init_scale=init_scale / num_layers,
                key=layer_key,
            )
            for layer_key in jr.split(key, num_layers)
        )
        self.W_0 = initial_query(query_init, output_dim, input_dim)
        self.input_dim, self.output_dim = input_dim, output_dim
        self.query_in_context, self.init_scale = query_in_context, init_scale

    @property
    def inverse_temperature(self) -> float:
        return self.layers[0].inverse_temperature
