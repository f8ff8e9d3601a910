"""How the inputs of a regression task are drawn.

Each distribution is centred and knows its moments: the covariance Λ = E[x xᵀ] and the fourth-moment map M(A) = E[x xᵀ A x xᵀ],
which is all that the exact theory of one linear attention layer needs.
"""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..zoo.config import setting
from ..zoo.errors import ConfigError

Number = float | Float[Array, ""]
Matrix = Float[Array, "input_dim input_dim"]


class Inputs(eqx.Module):
    """Interface: a centred distribution of input vectors."""

    @abstractmethod
    def sample(self, key: PRNGKeyArray, num: int, input_dim: int) -> Float[Array, "{num} {input_dim}"]:
        """`num` independent inputs, one a row."""

    @abstractmethod
    def covariance(self, input_dim: int) -> Matrix:
        """Λ = E[x xᵀ]."""

    @abstractmethod
    def fourth_moment(self, A: Matrix) -> Matrix:
        """M(A) = E[x xᵀ A x xᵀ]."""


@setting("uniform")
class Uniform(Inputs):
    """x ~ U(−half_width, half_width), coordinates independent.

    The papers write U(−1, 1); their published losses come from half_width = ½.
    """

    half_width: Number = 0.5

    def sample(self, key: PRNGKeyArray, num: int, input_dim: int) -> Float[Array, "{num} {input_dim}"]:
        return self.half_width * jr.uniform(key, (num, input_dim), minval=-1.0)

    def covariance(self, input_dim: int) -> Matrix:
        return self.half_width**2 / 3 * jnp.eye(input_dim)

    def fourth_moment(self, A: Matrix) -> Matrix:
        return independent_fourth_moment(A, self.half_width**2 / 3, self.half_width**4 / 5)


@setting("gaussian")
class Gaussian(Inputs):
    """x ~ N(0, Λ): `variance` is one variance for every coordinate, one for each, or the whole matrix Λ."""

    variance: Number | Float[Array, " input_dim"] | Matrix | tuple = 1.0

    def __check_init__(self):
        shape = np.shape(self.variance)  # pyright: ignore[reportArgumentType]
        if len(shape) > 2 or (len(shape) == 2 and shape[0] != shape[1]):
            raise ConfigError(f"variance must be a number, a vector or a square matrix, got shape {shape}")

    def sample(self, key: PRNGKeyArray, num: int, input_dim: int) -> Float[Array, "{num} {input_dim}"]:
        white = jr.normal(key, (num, input_dim))
        variance = jnp.asarray(self.variance, white.dtype)
        if variance.ndim < 2:
            return white * jnp.sqrt(variance)
        return white @ jnp.linalg.cholesky(variance).T

    def covariance(self, input_dim: int) -> Matrix:
        variance = jnp.asarray(self.variance, jnp.result_type(float))
        if variance.ndim == 2:
            return variance
        return jnp.diag(jnp.broadcast_to(variance, (input_dim,)))

    def fourth_moment(self, A: Matrix) -> Matrix:
        """Isserlis: Λ(A + Aᵀ)Λ + tr(AΛ) Λ."""
        covariance = self.covariance(len(A))
        return covariance @ (A + A.T) @ covariance + jnp.trace(A @ covariance) * covariance


def independent_fourth_moment(A: Matrix, s2: Number, m4: Number) -> Matrix:
    """E[x xᵀ A x xᵀ] for independent centred coordinates of second moment s₂ and fourth moment m₄.

    Entry ij is s₂²(Aᵢⱼ + Aⱼᵢ) off the diagonal, and m₄Aᵢᵢ + s₂² Σ_{k≠i} A_kk on it.
    """
    off_diagonal = s2**2 * (A + A.T) * (1 - jnp.eye(len(A)))
    diagonal = m4 * jnp.diag(A) + s2**2 * (jnp.trace(A) - jnp.diag(A))
    return off_diagonal + jnp.diag(diagonal)
