"""Weights with which linear self-attention takes steps of GD++, gradient descent with curvature correction."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..algorithms.gradient_descent import GradientDescentPlusPlus
from ..checks.annotations import Size
from ..checks.numbers import Number
from ..errors import ShapeError
from ..layers.attention import LinearSelfAttention
from ..prompt import Learner
from ..token_model import ConcatenatingModel
from .write import StepSizes, construction, linear_attention, stack_layers


def gd_plus_plus_attention(
    step_size: Number,
    gamma: Number,
    *,
    num_examples: int,
    input_dim: int,
    output_dim: int,
) -> LinearSelfAttention:
    """The layer that takes one step of GD++ from W₀ = 0.

        W_K = W_Q = [[I, 0], [0, 0]],   W_V = diag(I, −I),   W_P = diag(−γ I, (η/N) I)

    von Oswald et al. 2023, appendix A.10.
    """
    x_block = jnp.concatenate([jnp.ones(input_dim), jnp.zeros(output_dim)])
    y_block = 1 - x_block
    select_x = jnp.diag(x_block)
    return linear_attention(
        W_K=select_x,
        W_Q=select_x,
        W_V=jnp.diag(x_block - y_block),
        W_P=jnp.diag(-gamma * x_block + step_size / num_examples * y_block),
    )


def gd_plus_plus_products(
    step_size_over_num_examples: float, gamma: float, scale: float = 1.0, *, input_dim: int, output_dim: int
) -> tuple[np.ndarray, np.ndarray]:
    """The products of the layer that takes a step of GD++, W_KQ having the gauge `scale`.

    W_KQ = diag(scale · I, 0),   W_PV = diag(−γ I, −(η/N) I)
    """
    W_KQ = np.diag([scale] * input_dim + [0.0] * output_dim)
    return W_KQ, np.diag([-gamma] * input_dim + [-step_size_over_num_examples] * output_dim)


@construction
def gd_plus_plus_lsa(
    step_sizes: StepSizes, gammas: StepSizes, *, num_examples: Size, input_dim: Size, output_dim: Size = 1
) -> ConcatenatingModel:
    """The model that takes one step of GD++ for each pair (η, γ), starting from W₀ = 0.

        ΔW = (η/N) Σᵢ yᵢ xᵢᵀ,   yⱼ ← yⱼ − ΔW xⱼ,   xⱼ ← (I − γ Σᵢ xᵢ xᵢᵀ) xⱼ

    The x-update maps the eigenvalues of the Hessian Σᵢ xᵢ xᵢᵀ by λ ↦ λ(1 − γλ)². An `LSA` for one step, a `DeepLSA` for several.
    von Oswald et al. 2023, appendix A.10.
    """
    if step_sizes.shape != gammas.shape:
        raise ShapeError(
            f"step_sizes and gammas must be one each a step, got shapes {step_sizes.shape} and {gammas.shape}"
        )
    dims: dict[str, Any] = {"input_dim": input_dim, "output_dim": output_dim}
    layers = tuple(
        gd_plus_plus_attention(eta, gamma, num_examples=num_examples, **dims)
        for eta, gamma in zip(step_sizes, gammas, strict=True)
    )
    return stack_layers(layers, **dims)


def example() -> tuple[Any, Learner]:
    """Two steps for prompts of 7 examples of 5 inputs, and the algorithm they equal."""
    model = gd_plus_plus_lsa([0.9, 0.4], [0.05, 0.02], num_examples=7, input_dim=5)
    return model, GradientDescentPlusPlus(jnp.array([0.9, 0.4]), jnp.array([0.05, 0.02]), num_steps=2)
