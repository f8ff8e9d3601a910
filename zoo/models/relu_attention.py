"""ReLU self-attention."""

import equinox as eqx
import jax.random as jr
from jaxtyping import PRNGKeyArray

from ..checks.annotations import InitScale, Repeats, Size
from ..factory import register_model
from ..layers.attention import ReLUSelfAttention
from ..token_model import ConcatenatingModel, LayeredModel, QueryInit, QueryInitName, initial_query


@register_model("relu_attention")
class ReLUAttention(LayeredModel, ConcatenatingModel):
    """`num_layers` ReLU self-attention layers over concatenated tokens.

        eⱼ ← eⱼ + Σ_heads Σᵢ W_PV⁽ᵏ⁾ eᵢ · relu(eᵢᵀ W_KQ⁽ᵏ⁾ eⱼ),  k = 1 … num_layers

    With `mean_over_context` the sum over i is a mean, as in the theory, where one layer takes a step of gradient descent
    with a step size of its own: Ahn et al. 2023.
    """

    layers: tuple[ReLUSelfAttention, ...]
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
        mean_over_context: bool = False,
        query_init: QueryInitName = "zero",
        query_in_context: bool = False,
        init_scale: InitScale = 0.002,
        key: PRNGKeyArray,
    ):
        """Weights are drawn with variance `init_scale` / `num_layers` / fan-in."""
        self.layers = tuple(
            ReLUSelfAttention(
                embed_dim=input_dim + output_dim,
                num_heads=num_heads,
                head_dim=head_dim,
                mean_over_context=mean_over_context,
                init_scale=init_scale / num_layers,
                key=layer_key,
            )
            for layer_key in jr.split(key, num_layers)
        )
        self.W_0 = initial_query(query_init, output_dim, input_dim)
        self.input_dim, self.output_dim = input_dim, output_dim
        self.query_in_context, self.init_scale = query_in_context, init_scale

    @property
    def mean_over_context(self) -> bool:
        return self.layers[0].mean_over_context
