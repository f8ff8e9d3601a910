"""What is known of a regression task before any prompt is drawn."""

from collections.abc import Callable

import equinox as eqx
from jaxtyping import Array, Float

from .checks.numbers import Number

Matrix = Float[Array, "input_dim input_dim"]


class Moments(eqx.Module):
    """Moments of linear regression, y = W x + ε, with W_oc ~ N(μ_oc, α²) and ε ~ N(0, σ²), all independent.

        Λ = E[x xᵀ],   M(A) = E[x xᵀ A x xᵀ]

    Of the N examples, `num_distractors` have labels y ~ N(0, 1) instead.
    """

    covariance: Matrix  # Λ, not centred
    fourth_moment: Callable[[Matrix], Matrix]  # M
    teacher_mean: Number | Float[Array, "output_dim input_dim"]  # μ
    teacher_scale: Number  # α
    noise_std: Number  # σ
    input_dim: int = eqx.field(static=True)
    output_dim: int = eqx.field(static=True)
    num_examples: int = eqx.field(static=True)
    num_distractors: int = eqx.field(static=True)
    independent_inputs: bool = eqx.field(static=True)  # of each other, within a prompt
