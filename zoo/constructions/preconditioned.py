"""Weights with which linear self-attention takes steps of preconditioned gradient descent."""

from typing import Annotated, Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..algorithms.preconditioned import PreconditionedGradientDescent
from ..checks.annotations import Size
from ..checks.values import Reals
from ..errors import ShapeError
from ..layers.attention import LinearSelfAttention
from ..prompt import Learner
from ..token_model import ConcatenatingModel
from .write import block, construction, linear_attention, stack_layers

Preconditioner = Float[Array, "input_dim input_dim"]
Preconditioners = Annotated[
    Float[Array, "num_steps input_dim input_dim"], Reals("an array [num_steps, input_dim, input_dim]", axes=(3,))
]


def preconditioned_attention(
    preconditioner: Preconditioner, *, num_examples: int, output_dim: int
) -> LinearSelfAttention:
    """The layer that takes one step of gradient descent from W₀ = 0, preconditioned by P.

        W_K = [[I, 0], [0, 0]],   W_Q = [[P, 0], [0, 0]],   W_V = diag(0, −I),   W_P = (1/N) I

    Ahn et al. 2023; Zhang et al. 2024, whose P is Γ⁻¹.
    """
    input_dim = len(preconditioner)
    embed_dim = input_dim + output_dim
    x, y = slice(input_dim), slice(input_dim, None)
    return linear_attention(
        W_K=block(embed_dim, embed_dim, (x, x), jnp.eye(input_dim)),
        W_Q=block(embed_dim, embed_dim, (x, x), preconditioner),
        W_V=block(embed_dim, embed_dim, (y, y), -jnp.eye(output_dim)),
        W_P=jnp.eye(embed_dim) / num_examples,
    )


@construction
def preconditioned_gd_lsa(
    preconditioners: Preconditioners, *, num_examples: Size, output_dim: Size = 1
) -> ConcatenatingModel:
    """The model that takes one preconditioned step for each P of `preconditioners`, starting from W₀ = 0.

        W ← W − (1/N) Σᵢ (W xᵢ − yᵢ) xᵢᵀ P_k,   ŷ = W x_query

    One step with P = Γ⁻¹, Γ = (1 + 1/N) Λ + (tr Λ/N) I, is the best one layer can do on inputs from N(0, Λ). An `LSA` for one step, a
    `DeepLSA` for several. Ahn et al. 2023; Zhang et al. 2024.

    **Raises** `ShapeError` if `preconditioners` is no stack of square matrices.
    """
    if preconditioners.shape[1] != preconditioners.shape[2]:
        raise ShapeError(f"preconditioners must be [num_steps, input_dim, input_dim], got {preconditioners.shape}")
    dims: dict[str, Any] = {"num_examples": num_examples, "output_dim": output_dim}
    layers = tuple(preconditioned_attention(P, **dims) for P in preconditioners)
    return stack_layers(layers, input_dim=preconditioners.shape[1], output_dim=output_dim)


def example() -> tuple[Any, Learner]:
    """Two steps for prompts of 7 examples of 5 inputs, and the algorithm they equal."""
    P = jnp.stack([jnp.diag(jnp.arange(1.0, 6.0)), 0.3 * jnp.ones((5, 5))])
    return preconditioned_gd_lsa(P, num_examples=7), PreconditionedGradientDescent(P, num_steps=2)
