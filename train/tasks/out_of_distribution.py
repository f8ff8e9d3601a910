"""Distributions of tasks beside the one a learner was trained on."""

from dataclasses import replace
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ...zoo.checks.gate import gated
from .inputs import Gaussian, Inputs, Matrix, Uniform
from .task import Task

WIDER = 1.5
training = "training"


class LinearImage(Inputs):
    """x = A z with z ~ `inputs`: Λ becomes A Λ Aᵀ, and M(S) becomes A M(Aᵀ S A) Aᵀ."""

    independent: ClassVar[bool] = False  # not known here, so no closed form is claimed

    inputs: Inputs
    matrix: Matrix

    def sample(self, key: PRNGKeyArray, num: int, input_dim: int) -> Float[Array, "{num} {input_dim}"]:
        return self.inputs.sample(key, num, input_dim) @ self.matrix.T

    def covariance(self, input_dim: int) -> Matrix:
        return self.matrix @ self.inputs.covariance(input_dim) @ self.matrix.T

    def fourth_moment(self, A: Matrix) -> Matrix:
        return self.matrix @ self.inputs.fourth_moment(self.matrix.T @ A @ self.matrix) @ self.matrix.T


@gated
def inside_and_outside(task: Task) -> dict[str, Task]:
    """`task` itself, first, and the same with inputs drawn otherwise.

    - inputs × 1.5
    - normal inputs with the Λ = E[x xᵀ] of the task; where its inputs are normal already, uniform ones with that Λ

    Of a finite set of prompts the task behind it is changed. A task without a setting `inputs` stands alone.
    """
    behind: Any = task.population
    inputs = getattr(behind, "inputs", None)
    if inputs is None:
        return {training: task}
    normal = inputs.normal
    wider = LinearImage(inputs, WIDER * jnp.eye(behind.input_dim))
    white = Uniform(3**0.5) if normal else Gaussian(1.0)
    other = LinearImage(white, _square_root(inputs.covariance(behind.input_dim)))
    return {
        training: task,
        f"inputs × {WIDER}": replace(behind, inputs=wider),
        "uniform inputs" if normal else "normal inputs": replace(behind, inputs=other),
    }


def _square_root(covariance: Matrix) -> Matrix:
    """The symmetric square root, which exists where a Cholesky factor does not."""
    values, vectors = np.linalg.eigh(np.asarray(covariance, np.float64))
    root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    return jnp.asarray(root, covariance.dtype)
