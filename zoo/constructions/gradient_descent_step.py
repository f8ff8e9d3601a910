"""Weights with which linear self-attention takes steps of gradient descent."""

from typing import Any

import jax.numpy as jnp

from ..algorithms.gradient_descent import GradientDescent, InitialWeights
from ..checks.annotations import Size
from ..checks.numbers import Number
from ..errors import ShapeError
from ..layers.attention import LinearSelfAttention
from ..prompt import Learner
from ..token_model import ConcatenatingModel
from .write import StepSizes, block, construction, linear_attention, stack_layers


def gd_attention(
    step_size: Number,
    *,
    num_examples: int,
    input_dim: int,
    output_dim: int,
    W_0: InitialWeights,
) -> LinearSelfAttention:
    """The layer that takes one step of size η on L(W) = 1/(2N) Σ‖W xᵢ − yᵢ‖², from W₀.

        W_K = W_Q = [[I, 0], [0, 0]],   W_V = [[0, 0], [W₀, −I]],   W_P = (η/N) I

    von Oswald et al. 2023, Proposition 1.
    """
    embed_dim = input_dim + output_dim
    x, y = slice(input_dim), slice(input_dim, None)
    select_x = block(embed_dim, embed_dim, (x, x), jnp.eye(input_dim))
    W_V = block(embed_dim, embed_dim, (y, y), -jnp.eye(output_dim))
    if W_0 is not None:
        if W_0.shape != (output_dim, input_dim):
            raise ShapeError(
                f"W_0 must have the shape [output_dim, input_dim] = {[output_dim, input_dim]}, got {list(W_0.shape)}"
            )
        W_V = W_V.at[y, x].set(W_0)
    return linear_attention(W_K=select_x, W_Q=select_x, W_V=W_V, W_P=step_size / num_examples * jnp.eye(embed_dim))


@construction
def gradient_descent_lsa(
    step_sizes: StepSizes,
    *,
    num_examples: Size,
    input_dim: Size,
    output_dim: Size = 1,
    W_0: InitialWeights = None,
) -> ConcatenatingModel:
    """The model that takes one step of gradient descent for each η of `step_sizes`, starting from W₀.

        W ← W − (η/N) Σᵢ (W xᵢ − yᵢ) xᵢᵀ,   ŷ = W x_query

    An `LSA` for one step, a `DeepLSA` for several. Exact for prompts of `num_examples` examples.
    von Oswald et al. 2023, Proposition 1.
    """
    dims: dict[str, Any] = {"input_dim": input_dim, "output_dim": output_dim}
    layers = tuple(gd_attention(eta, num_examples=num_examples, W_0=W_0, **dims) for eta in step_sizes)
    return stack_layers(layers, W_0=W_0, **dims)


def example() -> tuple[Any, Learner]:
    """Two steps for prompts of 7 examples of 5 inputs, and the algorithm they equal."""
    model = gradient_descent_lsa([0.9, 0.4], num_examples=7, input_dim=5)
    return model, GradientDescent(jnp.array([0.9, 0.4]), num_steps=2)
