"""How the inputs of a regression task are drawn.

Each distribution knows its moments about zero: Λ = E[x xᵀ], the covariance where inputs are centred, and the fourth-moment map
M(A) = E[x xᵀ A x xᵀ]. Where the inputs of a prompt are independent, the exact theory of one linear attention layer needs no more.

Widths, variances and scales may be arrays: a sweep over them then compiles once.
"""

from abc import abstractmethod
from typing import ClassVar

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
    """Interface: a distribution of the input vectors of a prompt, all alike."""

    independent: ClassVar[bool] = True  # of each other, within a prompt

    @abstractmethod
    def sample(self, key: PRNGKeyArray, num: int, input_dim: int) -> Float[Array, "{num} {input_dim}"]:
        """The `num` inputs of one prompt, one a row."""

    @abstractmethod
    def covariance(self, input_dim: int) -> Matrix:
        """Λ = E[x xᵀ], not centred."""

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
        return independent_fourth_moment(A, c2=self.half_width**2 / 3, c4=self.half_width**4 / 5)


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
            return white * jnp.broadcast_to(jnp.sqrt(variance), white.shape)
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


@setting("exponential")
class Exponential(Inputs):
    """x ~ scale · Exponential(1), coordinates independent and positive: their mean is `scale`, and is not taken away.

    A shift of von Oswald et al. 2023, appendix A.2. Its code also divides the inputs of each prompt by their common norm; here
    their size is `scale` alone.
    """

    scale: Number = 1.0

    def sample(self, key: PRNGKeyArray, num: int, input_dim: int) -> Float[Array, "{num} {input_dim}"]:
        return self.scale * jr.exponential(key, (num, input_dim))

    def covariance(self, input_dim: int) -> Matrix:
        return self.scale**2 * (jnp.eye(input_dim) + jnp.ones((input_dim, input_dim)))

    def fourth_moment(self, A: Matrix) -> Matrix:
        return independent_fourth_moment(
            A, c2=self.scale**2, c4=9 * self.scale**4, mean=self.scale, c3=2 * self.scale**3
        )


@setting("laplace")
class Laplace(Inputs):
    """x ~ Laplace(0, scale), coordinates independent, of variance 2·scale². von Oswald et al. 2023, appendix A.2."""

    scale: Number = 1.0

    def sample(self, key: PRNGKeyArray, num: int, input_dim: int) -> Float[Array, "{num} {input_dim}"]:
        return self.scale * jr.laplace(key, (num, input_dim))

    def covariance(self, input_dim: int) -> Matrix:
        return 2 * self.scale**2 * jnp.eye(input_dim)

    def fourth_moment(self, A: Matrix) -> Matrix:
        return independent_fourth_moment(A, c2=2 * self.scale**2, c4=24 * self.scale**4)


@setting("random_covariance")
class RandomCovariance(Inputs):
    """x ~ N(0, diag(λ)) with λ₁ … λ_d ~ variance · Exponential(1) drawn once for each prompt and shared by all of its inputs.

    The moments are those of one input by itself; two inputs of a prompt are uncorrelated but not independent.
    Zhang et al. 2024, section 5.
    """

    independent: ClassVar[bool] = False

    variance: Number = 1.0

    def sample(self, key: PRNGKeyArray, num: int, input_dim: int) -> Float[Array, "{num} {input_dim}"]:
        key_variances, key_x = jr.split(key)
        variances = self.variance * jr.exponential(key_variances, (1, input_dim))
        return jnp.sqrt(variances) * jr.normal(key_x, (num, input_dim))

    def covariance(self, input_dim: int) -> Matrix:
        return self.variance * jnp.eye(input_dim)

    def fourth_moment(self, A: Matrix) -> Matrix:
        return independent_fourth_moment(A, c2=self.variance, c4=6 * self.variance**2)


def independent_fourth_moment(A: Matrix, *, c2: Number, c4: Number, mean: Number = 0.0, c3: Number = 0.0) -> Matrix:
    """E[x xᵀ A x xᵀ] for independent coordinates, all of mean m and of central moments c₂, c₃ and c₄.

    With x = m + u, m = m·1, S = (A + Aᵀ)/2 and q = xᵀ A x = mᵀSm + 2 mᵀSu + uᵀSu:

        E[x xᵀ q] = E[q] m mᵀ + m gᵀ + g mᵀ + E[u uᵀ q],   E[q] = mᵀSm + c₂ tr S,   g = E[u q] = 2c₂ S m + c₃ diag S
        E[u uᵀ q] = mᵀSm c₂ I + 2c₃ Diag(S m) + C(S)

    where C(S), the map of the centred u, has 2c₂²Sᵢⱼ off the diagonal and c₄Sᵢᵢ + c₂² Σ_{k≠i} S_kk on it.
    """
    S = (A + A.T) / 2
    m = mean * jnp.ones(len(A), A.dtype)
    Sm, diagonal, identity = S @ m, jnp.diag(S), jnp.eye(len(A), dtype=A.dtype)
    mSm, trace = m @ Sm, jnp.trace(S)
    mg = jnp.outer(m, 2 * c2 * Sm + c3 * diagonal)
    centred = 2 * c2**2 * S * (1 - identity) + jnp.diag(c4 * diagonal + c2**2 * (trace - diagonal))
    return (mSm + c2 * trace) * jnp.outer(m, m) + mg + mg.T + mSm * c2 * identity + 2 * c3 * jnp.diag(Sm) + centred
