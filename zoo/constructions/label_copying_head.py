"""Weights that copy each label to its input, and then take a step of gradient descent on the merged tokens."""

from typing import Any, TypeVar

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr

from ..algorithms.gradient_descent import GradientDescent
from ..checks.annotations import Size
from ..checks.numbers import FiniteNumber, PositiveNumber
from ..layers.attention import FactoredSelfAttention
from ..models.copying_transformer import CopyingTransformer
from ..prompt import Learner
from .write import block, construction, write_attention

Layer = TypeVar("Layer", bound=FactoredSelfAttention)


@construction
def copying_transformer(
    *, num_examples: Size, input_dim: Size, output_dim: Size = 1, softmax_scale: PositiveNumber | None = None
) -> CopyingTransformer:
    """One layer that writes each label where the position of its input stood: (xⱼ, p_2j) ← (xⱼ, (0, yⱼ)).

        W_K = (0, I),   W_Q = s (0, S),   W_V : ((u, v), p) ↦ (0, v) − Sᵀ p,   with S p_2j = p_2j+1 and S p_2j+1 = 0

    over one-hot positions of size 2N + 1, to which `output_dim` entries are added that no position uses: there the labels go, and the
    query's prediction starts at 0. With linear attention (s = 1) the copy is exact. With softmax, of `softmax_scale` s, the
    successor has the weight eˢ/(eˢ + 2N − 1) among the 2N context tokens, and the copy is exact as s → ∞.
    von Oswald et al. 2023, Proposition 3, whose weight e/(e + 2N) is that of s = 1 with the query among the tokens.
    """
    model = _blank(num_examples, input_dim, output_dim, num_layers=1, softmax=softmax_scale is not None)
    layer = _write_copy(
        model.layers[0], num_examples, input_dim, output_dim, 1.0 if softmax_scale is None else softmax_scale
    )
    return eqx.tree_at(lambda m: m.layers, model, (layer,))


@construction
def copy_then_descend(
    step_size: FiniteNumber, *, num_examples: Size, input_dim: Size, output_dim: Size = 1
) -> CopyingTransformer:
    """A layer that copies, then one that takes a step of gradient descent on the merged tokens, from W₀ = 0.

        ΔW = (η/N) Σᵢ yᵢ xᵢᵀ,   ŷ = ΔW x_query

    Both layers are linear, so the copy is exact, and a label's own token takes no part in the step: nothing is written where its
    label would be. (A softmax layer, which must attend somewhere, would write there; and the step itself does, so a second
    one would differ from gradient descent.) von Oswald et al. 2023, Proposition 3 and section 4.
    """
    model = _blank(num_examples, input_dim, output_dim, num_layers=2, softmax=False)
    copy, descend = model.layers
    embed_dim = copy.embed_dim
    x, label = slice(input_dim), slice(embed_dim - output_dim, None)
    select_x = block(embed_dim, embed_dim, (x, x), jnp.eye(input_dim))[None]
    written = write_attention(
        descend,
        W_K=select_x,
        W_Q=select_x,
        W_V=block(embed_dim, embed_dim, (label, label), -jnp.eye(output_dim))[None],
        W_P=step_size / num_examples * jnp.eye(embed_dim)[None],
    )
    return eqx.tree_at(
        lambda m: m.layers, model, (_write_copy(copy, num_examples, input_dim, output_dim, 1.0), written)
    )


def _blank(num_examples: int, input_dim: int, output_dim: int, *, num_layers: int, softmax: bool) -> CopyingTransformer:
    return CopyingTransformer(
        input_dim=input_dim,
        output_dim=output_dim,
        num_layers=num_layers,
        num_softmax_layers=int(softmax),
        inverse_temperature=1.0 if softmax else None,
        positions="one_hot",
        position_dim=2 * num_examples + 1 + output_dim,
        key=jr.key(0),
    )


def _write_copy(layer: Layer, num_examples: int, input_dim: int, output_dim: int, scale) -> Layer:
    embed_dim, width, num_tokens = layer.embed_dim, max(input_dim, output_dim), 2 * num_examples + 1
    inputs = jnp.arange(0, num_tokens - 1, 2)  # the places of x_1 … x_N; the label of each is the next
    successor = jnp.zeros((num_tokens, num_tokens)).at[inputs + 1, inputs].set(1.0)
    place, label = slice(width, width + num_tokens), slice(embed_dim - output_dim, None)
    value = slice(width - output_dim, width)
    W_V = block(embed_dim, embed_dim, (place, place), -successor.T).at[label, value].set(jnp.eye(output_dim))
    return write_attention(
        layer,
        W_K=block(embed_dim, embed_dim, (place, place), jnp.eye(num_tokens))[None],
        W_Q=scale * block(embed_dim, embed_dim, (place, place), successor)[None],
        W_V=W_V[None],
        W_P=jnp.eye(embed_dim)[None],
    )


def example() -> tuple[Any, Learner]:
    """Copying and a step for prompts of 7 examples of 5 inputs, and the algorithm they equal."""
    return copy_then_descend(0.9, num_examples=7, input_dim=5), GradientDescent(0.9)
