"""Attention over separate tokens for x and y, which must be copied together before anything can be learned."""

import equinox as eqx
import jax.random as jr
from jaxtyping import PRNGKeyArray

from ..checks.annotations import InitScale, InverseTemperature, Repeats, Size
from ..checks.values import whole_number
from ..factory import register_model
from ..interleaving import InterleavingModel
from ..layers.attention import LinearSelfAttention, SoftmaxSelfAttention
from ..layers.positions import PositionsName
from ..token_model import LayeredModel


@register_model("copying_transformer")
class CopyingTransformer(LayeredModel, InterleavingModel):
    """Softmax self-attention layers that copy labels to their inputs, then linear ones that take steps of gradient descent.

        eⱼ ← eⱼ + Σ_heads Σᵢ W_PV⁽ᵏ⁾ eᵢ · f⁽ᵏ⁾(eᵢᵀ W_KQ⁽ᵏ⁾ eⱼ),  k = 1 … num_layers

    f is softmax in the first `num_softmax_layers` layers, where `inverse_temperature` is 1/√head_dim unless given, and the
    identity in the others. von Oswald et al. 2023, Proposition 3 and Figure 5.
    """

    layers: tuple[SoftmaxSelfAttention | LinearSelfAttention, ...]
    input_dim: int = eqx.field(static=True)
    output_dim: int = eqx.field(static=True)
    num_softmax_layers: int = eqx.field(static=True)
    inverse_temperature: float | None = eqx.field(static=True)
    positions: str = eqx.field(static=True)
    position_dim: int = eqx.field(static=True)
    query_in_context: bool = eqx.field(static=True)
    init_scale: float = eqx.field(static=True)

    def __init__(
        self,
        *,
        input_dim: Size = 10,
        output_dim: Size = 1,
        num_layers: Repeats = 2,
        num_softmax_layers: int = 1,
        num_heads: Size = 1,
        head_dim: Size | None = None,
        inverse_temperature: InverseTemperature | None = None,
        positions: PositionsName = "sinusoidal",
        position_dim: Size = 10,
        query_in_context: bool = False,
        init_scale: InitScale = 0.02,
        key: PRNGKeyArray,
    ):
        """Weights are drawn with variance `init_scale` / `num_layers` / fan-in.

        **Raises** `ConfigError` if there are more softmax layers than layers.
        """
        whole_number("num_softmax_layers", num_softmax_layers, 0, num_layers)
        keys = jr.split(key, num_layers)
        size = {
            "embed_dim": max(input_dim, output_dim) + position_dim,
            "num_heads": num_heads,
            "head_dim": head_dim,
            "init_scale": init_scale / num_layers,
        }
        copying = (
            SoftmaxSelfAttention(**size, inverse_temperature=inverse_temperature, key=layer_key)
            for layer_key in keys[:num_softmax_layers]
        )
        learning = (LinearSelfAttention(**size, key=layer_key) for layer_key in keys[num_softmax_layers:])
        self.layers = (*copying, *learning)
        self.input_dim, self.output_dim = input_dim, output_dim
        self.num_softmax_layers, self.inverse_temperature = num_softmax_layers, inverse_temperature
        self.positions, self.position_dim = positions, position_dim
        self.query_in_context, self.init_scale = query_in_context, init_scale
