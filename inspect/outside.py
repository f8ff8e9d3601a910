"""Distributions of tasks beside the one a learner was trained on."""

from dataclasses import replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ..train.inputs import Gaussian, Inputs, Matrix, Uniform
from ..train.tasks import LinearRegression, SineRegression, Task, TaskPool

WIDER = 1.5
TRAINING = "training"


class Redrawn(Inputs):
    """x = A z with z from one of several `kinds` of inputs; which one is an array, so that learners are compiled once for all."""

    independent: ClassVar[bool] = False  # not known here, so no closed form is claimed

    kinds: tuple[Inputs, ...]
    which: Int[Array, ""]
    matrix: Matrix

    def sample(self, key: PRNGKeyArray, num: int, input_dim: int) -> Float[Array, "{num} {input_dim}"]:
        draws = [lambda key, kind=kind: kind.sample(key, num, input_dim) for kind in self.kinds]
        return jax.lax.switch(self.which, draws, key) @ self.matrix.T

    def covariance(self, input_dim: int) -> Matrix:
        moments = [lambda kind=kind: jnp.asarray(kind.covariance(input_dim)) for kind in self.kinds]
        return self.matrix @ jax.lax.switch(self.which, moments) @ self.matrix.T

    def fourth_moment(self, A: Matrix) -> Matrix:
        moments = [lambda S, kind=kind: jnp.asarray(kind.fourth_moment(S)) for kind in self.kinds]
        return self.matrix @ jax.lax.switch(self.which, moments, self.matrix.T @ A @ self.matrix) @ self.matrix.T


def inside_and_outside(task: Task) -> dict[str, Task]:
    """`task` itself, first, and the same with inputs drawn otherwise.

    - inputs × 1.5
    - normal inputs with the Λ = E[x xᵀ] of the task; where its inputs are normal already, uniform ones with that Λ

    Of a `TaskPool` the task behind it is changed. A task without inputs to change stands alone. The tasks differ in arrays alone.
    """
    behind = task.task if isinstance(task, TaskPool) else task
    if not isinstance(behind, LinearRegression | SineRegression):
        return {TRAINING: task}
    inputs, identity = behind.inputs, jnp.eye(behind.input_dim)
    normal = isinstance(inputs, Gaussian)
    kinds = (inputs, Uniform(3**0.5) if normal else Gaussian(1.0))  # the second one white
    root = _square_root(inputs.covariance(behind.input_dim))

    def redrawn(which: int, matrix: Matrix) -> Task:
        return replace(behind, inputs=Redrawn(kinds, jnp.asarray(which), matrix))

    return {
        TRAINING: redrawn(0, identity) if behind is task else task,
        f"inputs × {WIDER}": redrawn(0, WIDER * identity),
        "uniform inputs" if normal else "normal inputs": redrawn(1, root),
    }


def _square_root(covariance: Matrix) -> Matrix:
    """The symmetric square root, which exists where a Cholesky factor does not."""
    values, vectors = np.linalg.eigh(np.asarray(covariance, np.float64))
    root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    return jnp.asarray(root, covariance.dtype)
