"""What several results read off a trained layer: the matrix it steps through, and how far that is from what it should be."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ...estimates.estimate import Estimate
from ...weights.weight_products import products
from ..result import percent

Square = Float[np.ndarray, "input_dim input_dim"]


def gamma_inverse(variances: Sequence[float], num_examples: int) -> Square:
    """Γ⁻¹, Γ = (1 + 1/N)Λ + (tr Λ/N) I."""
    return np.diag(1 / ((1 + 1 / num_examples) * np.array(variances) + sum(variances) / num_examples))


def learned_preconditioner(model: Any, num_examples: int) -> Square:
    """P of the step ŷ = (1/N) Σᵢ yᵢ xᵢᵀ P x_query that one layer takes: −N·W_PV,yy·W_KQ,xx, which has no gauge."""
    (layer,) = products(model)
    assert layer.input_dim is not None
    x, y = slice(layer.input_dim), layer.input_dim
    return -num_examples * layer.W_PV[0, y, y] * layer.W_KQ[0, x, x]


def relative_distance(matrix: Square, target: Square) -> float:
    """‖matrix − target‖_F / ‖target‖_F."""
    return float(np.linalg.norm(matrix - target) / np.linalg.norm(target))


def from_multiple_of_identity(matrix: Square) -> float:
    """min over α of ‖matrix − αI‖_F / ‖matrix‖_F."""
    rest = matrix - np.diag(matrix).mean() * np.eye(len(matrix))
    return float(np.linalg.norm(rest) / np.linalg.norm(matrix))


def off_diagonal(matrix: Square) -> Square:
    """The matrix with zeros on its diagonal."""
    return matrix - np.diag(np.diag(matrix))


def excess(errors: dict[str, np.ndarray], name: str, other: str) -> Estimate:
    """By how many per cent the loss of one learner is above another's, on the same tasks."""
    return percent(Estimate.of(errors[name] - errors[other]), of=float(errors[other].mean()))
