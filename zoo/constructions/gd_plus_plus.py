"""C2: weights with which linear self-attention takes steps of GD++, gradient descent with curvature correction."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..attention import LinearSelfAttention
from ..errors import ShapeError
from ..gate import checked
from ..token_model import ConcatenatingModel
from .gd import StepSizes
from .write import linear_attention, stack_layers


def gd_plus_plus_attention(
    step_size: float | Float[Array, ""],
    gamma: float | Float[Array, ""],
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


@checked
def gd_plus_plus_lsa(
    step_sizes: StepSizes, gammas: StepSizes, *, num_examples: int, input_dim: int, output_dim: int = 1
) -> ConcatenatingModel:
    """The model that takes one step of GD++ for each pair (η, γ), starting from W₀ = 0.

        ΔW = (η/N) Σᵢ yᵢ xᵢᵀ,   yⱼ ← yⱼ − ΔW xⱼ,   xⱼ ← (I − γ Σᵢ xᵢ xᵢᵀ) xⱼ

    The x-update maps the eigenvalues of the Hessian Σᵢ xᵢ xᵢᵀ by λ ↦ λ(1 − γλ)². An `LSA` for one step, a `DeepLSA` for several.
    von Oswald et al. 2023, appendix A.10.
    """
    step_sizes, gammas = jnp.asarray(step_sizes), jnp.asarray(gammas)
    if step_sizes.shape != gammas.shape:
        raise ShapeError(f"one gamma a step: got {len(step_sizes)} step sizes and {len(gammas)} gammas")
    dims: dict[str, Any] = {"input_dim": input_dim, "output_dim": output_dim}
    layers = tuple(
        gd_plus_plus_attention(eta, gamma, num_examples=num_examples, **dims)
        for eta, gamma in zip(step_sizes, gammas, strict=True)
    )
    return stack_layers(layers, **dims)
