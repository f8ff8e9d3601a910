"""Two softmax heads of opposite sign, whose difference is linear attention to first order."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from ..algorithms.smoothing import SoftmaxSmoother
from ..checks.annotations import Size
from ..checks.numbers import FiniteNumber, PositiveNumber
from ..models.softmax_attention import SoftmaxAttention
from ..prompt import Learner, Prompt
from .write import block, construction, write_attention


@construction
def two_softmax_heads(
    step_size: FiniteNumber, scale: PositiveNumber, *, input_dim: Size, output_dim: Size = 1
) -> SoftmaxAttention:
    """Softmax attention whose two heads have W_KQ = ±κ I over x and values of opposite sign; κ is `scale`.

        ŷ = (η/2κ) Σᵢ yᵢ [softmax_i(κ s) − softmax_i(−κ s)],   sᵢ = xᵢᵀ x_query
          = (η/N) Σᵢ yᵢ (sᵢ − s̄) + O(κ²),   s̄ = mean of s

    The offset of each head, (η/2κ) ȳ, cancels, and so do the even orders of Taylor's series: the remainder falls as κ². What is left is
    one step of gradient descent on examples with their mean removed: the −s̄, which comes from the softmax's denominator, is of
    the same order as the step itself and no second head cancels it. After von Oswald et al. 2023, appendix A.9.
    """
    dims: dict[str, Any] = {"input_dim": input_dim, "output_dim": output_dim}
    signs = jnp.array([1.0, -1.0])
    return _softmax_heads(step_size / (2 * scale) * signs, scale * signs, **dims)


@construction
def one_softmax_head(
    step_size: FiniteNumber, scale: PositiveNumber, *, input_dim: Size, output_dim: Size = 1
) -> SoftmaxAttention:
    """The first head alone: it keeps the offset that the second one cancels.

        ŷ = (η/κ) Σᵢ yᵢ softmax_i(κ s) = (η/κ) ȳ + (η/N) Σᵢ yᵢ (sᵢ − s̄) + O(κ)

    After von Oswald et al. 2023, appendix A.9.
    """
    dims: dict[str, Any] = {"input_dim": input_dim, "output_dim": output_dim}
    one = jnp.ones(1)
    return _softmax_heads(step_size / scale * one, scale * one, **dims)


def _softmax_heads(
    values: Float[Array, " num_heads"], scales: Float[Array, " num_heads"], *, input_dim: int, output_dim: int
) -> SoftmaxAttention:
    """Heads with W_KQ = scale · I over x, and the value −y times `values`, at inverse temperature 1."""
    num_heads, embed_dim = len(values), input_dim + output_dim
    x, y = slice(input_dim), slice(input_dim, None)
    select_x = block(embed_dim, embed_dim, (x, x), jnp.eye(input_dim))
    select_y = block(embed_dim, embed_dim, (y, y), jnp.eye(output_dim))
    blank = SoftmaxAttention(
        input_dim=input_dim, output_dim=output_dim, num_heads=num_heads, inverse_temperature=1.0, key=jr.key(0)
    )
    layer = write_attention(
        blank.layers[0],
        W_K=jnp.stack([select_x] * num_heads),
        W_Q=scales[:, None, None] * select_x[None],
        W_V=jnp.stack([select_y] * num_heads),
        W_P=-values[:, None, None] * jnp.eye(embed_dim)[None],
    )
    return eqx.tree_at(lambda m: m.layers, blank, (layer,))


def example() -> tuple[Any, Learner]:
    """Two heads for prompts of 5 inputs, and the two softmax smoothers whose difference they are, at any κ."""
    eta, kappa = 0.9, 0.3
    up, down = SoftmaxSmoother(kappa), SoftmaxSmoother(kappa)

    def difference(prompt: Prompt) -> Float[Array, " output_dim"]:
        opposite = Prompt(xs=-prompt.xs, ys=prompt.ys, query=prompt.query)
        return eta / (2 * kappa) * (up(prompt) - down(opposite))

    return two_softmax_heads(eta, kappa, input_dim=5), difference
