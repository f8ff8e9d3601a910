"""How the inputs of a regression task are drawn.

Each distribution knows its moments about zero: Λ = E[x xᵀ], the covariance where inputs are centred, and the fourth-moment map
M(A) = E[x xᵀ A x xᵀ]. Where the inputs of a prompt are independent, the exact theory of one linear attention layer needs no more.

Widths, variances and scales may be arrays: a sweep over them then compiles once.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ...zoo.checks.numbers import Number
from ...zoo.checks.values import PlainReals, Scalar, is_traced
from ...zoo.errors import ConfigError
from ...zoo.storage.config import settings_repr
from .task import register_task

Matrix = Float[Array, "input_dim input_dim"]

# Within these, moments up to the fourth are numbers of single precision.
LEAST_SCALE, MOST_SCALE = 1e-9, 1e9
LEAST_VARIANCE, MOST_VARIANCE = LEAST_SCALE**2, MOST_SCALE**2
Scale = Annotated[Number, Scalar(least=LEAST_SCALE, most=MOST_SCALE)]
ScaleOrZero = Annotated[Number, Scalar(least=0, most=MOST_SCALE)]
OneVariance = Annotated[Number, Scalar(least=LEAST_VARIANCE, most=MOST_VARIANCE)]


@dataclass(frozen=True, repr=False)
class Variance(PlainReals):
    """One variance, one for each coordinate, or a covariance matrix; some of the coordinates, but not all, may be constant."""

    @property
    def expected(self) -> str:
        return (
            f"{self.what}; variances from {LEAST_VARIANCE:g} to {MOST_VARIANCE:g}, where there are several some may be 0, "
            "and a matrix symmetric and positive semi-definite"
        )

    def fitting(self, value: Any) -> np.ndarray | jax.Array:
        given = super().fitting(value)
        if is_traced(given):
            return given
        array = np.asarray(given, np.float64)
        largest = np.abs(array).max()
        if array.ndim == 2 and (array.shape[0] != array.shape[1] or np.abs(array - array.T).max() > ROUNDING * largest):
            raise ValueError
        least = np.linalg.eigvalsh(array)[0] if array.ndim == 2 else array.min()
        if not LEAST_VARIANCE <= largest <= MOST_VARIANCE or least < (-ROUNDING * largest if array.ndim == 2 else 0):
            raise ValueError
        return given


ROUNDING = 1e-6  # of a matrix in single precision


class Inputs(eqx.Module):
    """Interface: a distribution of the input vectors of a prompt, all alike."""

    independent: ClassVar[bool] = True  # of each other, within a prompt
    normal: ClassVar[bool] = False

    __repr__ = settings_repr

    def check_sizes(self, input_dim: int) -> None:
        """**Raises** `ConfigError` where there are no inputs of as many coordinates."""

    @abstractmethod
    def sample(self, key: PRNGKeyArray, num: int, input_dim: int) -> Float[Array, "{num} {input_dim}"]:
        """The `num` inputs of one prompt, one a row."""

    @abstractmethod
    def covariance(self, input_dim: int) -> Matrix:
        """Λ = E[x xᵀ], not centred."""

    @abstractmethod
    def fourth_moment(self, A: Matrix) -> Matrix:
        """M(A) = E[x xᵀ A x xᵀ]."""


@register_task("uniform")
class Uniform(Inputs):
    """x ~ U(−half_width, half_width), coordinates independent.

    The papers write U(−1, 1); their published losses come from half_width = ½.
    """

    half_width: Scale = 0.5

    def sample(self, key: PRNGKeyArray, num: int, input_dim: int) -> Float[Array, "{num} {input_dim}"]:
        return self.half_width * jr.uniform(key, (num, input_dim), minval=-1.0)

    def covariance(self, input_dim: int) -> Matrix:
        return self.half_width**2 / 3 * jnp.eye(input_dim)

    def fourth_moment(self, A: Matrix) -> Matrix:
        return independent_fourth_moment(A, c2=self.half_width**2 / 3, c4=self.half_width**4 / 5)


@register_task("gaussian")
class Gaussian(Inputs):
    """x ~ N(0, Λ): `variance` is one variance for every coordinate, one for each, or the whole matrix Λ."""

    normal: ClassVar[bool] = True

    variance: Annotated[
        Number | Float[Array, " input_dim"] | Matrix | tuple,
        Variance("a number, a vector or a square matrix", axes=(0, 1, 2)),
    ] = 1.0

    def check_sizes(self, input_dim: int) -> None:
        check_variance_size(self.variance, input_dim)

    def sample(self, key: PRNGKeyArray, num: int, input_dim: int) -> Float[Array, "{num} {input_dim}"]:
        self.check_sizes(input_dim)
        white = jr.normal(key, (num, input_dim))
        variance = jnp.asarray(self.variance, white.dtype)
        if variance.ndim < 2:
            return white * jnp.broadcast_to(jnp.sqrt(variance), white.shape)
        return white @ root(variance).T

    def covariance(self, input_dim: int) -> Matrix:
        self.check_sizes(input_dim)
        variance = jnp.asarray(self.variance, jnp.result_type(float))
        if variance.ndim == 2:
            return variance
        return jnp.diag(jnp.broadcast_to(variance, (input_dim,)))

    def fourth_moment(self, A: Matrix) -> Matrix:
        """Isserlis: Λ(A + Aᵀ)Λ + tr(AΛ) Λ."""
        covariance = self.covariance(len(A))
        return covariance @ (A + A.T) @ covariance + jnp.trace(A @ covariance) * covariance


@register_task("exponential")
class Exponential(Inputs):
    """x ~ scale · Exponential(1), coordinates independent and positive: their mean is `scale`, and is not taken away.

    A shift of von Oswald et al. 2023, appendix A.2. Its code also divides the inputs of each prompt by their common norm; here
    their size is `scale` alone.
    """

    scale: Scale = 1.0

    def sample(self, key: PRNGKeyArray, num: int, input_dim: int) -> Float[Array, "{num} {input_dim}"]:
        return self.scale * jr.exponential(key, (num, input_dim))

    def covariance(self, input_dim: int) -> Matrix:
        return self.scale**2 * (jnp.eye(input_dim) + jnp.ones((input_dim, input_dim)))

    def fourth_moment(self, A: Matrix) -> Matrix:
        return independent_fourth_moment(
            A, c2=self.scale**2, c4=9 * self.scale**4, mean=self.scale, c3=2 * self.scale**3
        )


@register_task("laplace")
class Laplace(Inputs):
    """x ~ Laplace(0, scale), coordinates independent, of variance 2·scale². von Oswald et al. 2023, appendix A.2."""

    scale: Scale = 1.0

    def sample(self, key: PRNGKeyArray, num: int, input_dim: int) -> Float[Array, "{num} {input_dim}"]:
        return self.scale * jr.laplace(key, (num, input_dim))

    def covariance(self, input_dim: int) -> Matrix:
        return 2 * self.scale**2 * jnp.eye(input_dim)

    def fourth_moment(self, A: Matrix) -> Matrix:
        return independent_fourth_moment(A, c2=2 * self.scale**2, c4=24 * self.scale**4)


@register_task("random_covariance")
class RandomCovariance(Inputs):
    """x ~ N(0, diag(λ)) with λ₁ … λ_d ~ variance · Exponential(1) drawn once for each prompt and shared by all of its inputs.

    The moments are those of one input by itself; two inputs of a prompt are uncorrelated but not independent.
    Zhang et al. 2024, section 5.
    """

    independent: ClassVar[bool] = False

    variance: OneVariance = 1.0

    def sample(self, key: PRNGKeyArray, num: int, input_dim: int) -> Float[Array, "{num} {input_dim}"]:
        key_variances, key_x = jr.split(key)
        variances = self.variance * jr.exponential(key_variances, (1, input_dim))
        return jnp.sqrt(variances) * jr.normal(key_x, (num, input_dim))

    def covariance(self, input_dim: int) -> Matrix:
        return self.variance * jnp.eye(input_dim)

    def fourth_moment(self, A: Matrix) -> Matrix:
        return independent_fourth_moment(A, c2=self.variance, c4=6 * self.variance**2)


def check_variance_size(variance: Any, size: int) -> None:
    """`ConfigError` unless a variance is one number, or has `size` rows."""
    shape = shape_of(variance)
    if shape and shape[0] != size:
        raise ConfigError(
            f"variance must be one number, or have an entry for each of the {size} coordinates, got one for {shape[0]}"
        )


def shape_of(numbers: Any) -> tuple[int, ...]:
    """The shape of an array, or of nested tuples, whose numbers may be traced."""
    return (len(numbers), *shape_of(numbers[0])) if isinstance(numbers, tuple) else np.shape(numbers)


def root(covariance: Matrix) -> Matrix:
    """L with L Lᵀ = Λ: Cholesky's factor, and where Λ is singular its symmetric root; NaN where Λ is no covariance.

    The branch that is not taken gets a matrix whose root is smooth, so that its derivative does not spoil that of the other.
    """
    size, dtype = len(covariance), covariance.dtype
    least, *_, most = jnp.linalg.eigvalsh(jax.lax.stop_gradient(covariance)) if size > 1 else (covariance[0, 0],) * 2
    singular = least <= size * jnp.finfo(dtype).eps * most
    possible = least >= -ROUNDING * most
    distinct = jnp.diag(jnp.arange(1, size + 1, dtype=dtype))
    variances, axes = jnp.linalg.eigh(jnp.where(singular, covariance, distinct))
    positive = variances > 0
    roots = jnp.where(positive, jnp.sqrt(jnp.where(positive, variances, 1)), 0)
    symmetric = jnp.where(possible, axes * roots[None] @ axes.T, jnp.nan)
    return jnp.where(singular, symmetric, jnp.linalg.cholesky(jnp.where(singular, distinct, covariance)))


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
