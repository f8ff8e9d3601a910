"""Everything a token model computes on the way to its prediction."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .checks.arguments import layered
from .checks.gate import gate
from .prompt import Prompt
from .token_model import TokenModel

AttentionMap = Float[Array, "num_heads num_tokens num_context"]


class Trace(eqx.Module):
    """The intermediates of one forward pass, every token updated in every layer; num_stages is one more than the number of layers."""

    residual: Float[Array, "num_stages num_tokens embed_dim"]  # the tokens, as embedded and after each layer
    scores: tuple[AttentionMap, ...]  # of each layer: eᵢᵀ W_KQ eⱼ for query j (row) and context token i (column)
    pattern: tuple[AttentionMap, ...]  # of each layer: f(scores)
    predictions: Float[Array, "num_stages output_dim"]  # the prediction read out before the first and after each layer


@gate(model=layered)
def trace(model: TokenModel, prompt: Prompt) -> Trace:
    """Run `model` on one prompt and keep what it computed.

    **Raises** `ShapeError` if the prompt has other dimensions than the model reads, `ArgumentError` if it has no layers over tokens.
    """
    tokens = model.embed(prompt)
    residual, scores, pattern = [tokens], [], []
    for layer in model.stack:
        context = model.context(tokens)
        layer_scores, layer_pattern = layer.attend(tokens, context)
        scores.append(layer_scores)
        pattern.append(layer_pattern)
        tokens = model.advance(tokens, layer(tokens, context))
        residual.append(tokens)
    return Trace(
        residual=jnp.stack(residual),
        scores=tuple(scores),
        pattern=tuple(pattern),
        predictions=jnp.stack([model.readout(tokens[-1]) for tokens in residual]),
    )
