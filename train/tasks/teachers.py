"""How the teacher of a linear regression task is drawn."""

from abc import abstractmethod
from typing import Annotated

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ...zoo.checks.annotations import Size
from ...zoo.checks.numbers import Number
from ...zoo.checks.values import MAX_SEED, PlainReals, Whole, is_traced, shown
from ...zoo.determinism import key_of
from ...zoo.errors import ConfigError, NotApplicable
from ...zoo.storage.config import settings_repr
from .inputs import MOST_SCALE, Gaussian, ScaleOrZero, Variance, check_variance_size, shape_of
from .task import register_task

PoolSeed = Annotated[int, Whole(0, MAX_SEED)]


class Teacher(eqx.Module):
    """Interface: a distribution of teacher weights."""

    __repr__ = settings_repr

    def check_sizes(self, output_dim: int, input_dim: int) -> None:
        """**Raises** `ConfigError` where there is no teacher of this size."""

    def moments(self) -> tuple[Number | Float[Array, "output_dim input_dim"], Number]:
        """Mean and standard deviation of the entries, where they are independent and normal. **Raises** `NotApplicable` where not."""
        raise NotApplicable(f"the teacher is {type(self).__name__}")

    @abstractmethod
    def sample(self, key: PRNGKeyArray, output_dim: int, input_dim: int) -> Float[Array, "{output_dim} {input_dim}"]:
        """The weights W of one task."""


@register_task("gaussian_teacher")
class GaussianTeacher(Teacher):
    """Teacher weights W ~ N(μ, α²), entries independent: `scale` is α and `mean` is μ, for each entry or for all."""

    scale: ScaleOrZero = 1.0
    mean: Annotated[
        Number | Float[Array, "output_dim input_dim"] | tuple,
        PlainReals("a number, or a matrix of output_dim rows of input_dim entries", axes=(0, 2)),
    ] = 0.0

    def __check_init__(self):
        if not is_traced(self.mean) and np.abs(np.asarray(self.mean, float)).max() > MOST_SCALE:
            raise ConfigError(f"mean must be made of numbers of at most {MOST_SCALE:g} in size, got {shown(self.mean)}")

    def check_sizes(self, output_dim: int, input_dim: int) -> None:
        shape = shape_of(self.mean)
        if shape not in ((), (output_dim, input_dim)):
            raise ConfigError(
                f"mean must be one number, or have output_dim {output_dim} rows of input_dim {input_dim} entries, got shape {shape}"
            )

    def moments(self) -> tuple[Number | Float[Array, "output_dim input_dim"], Number]:
        return jnp.asarray(self.mean, jnp.result_type(float)), self.scale

    def sample(self, key: PRNGKeyArray, output_dim: int, input_dim: int) -> Float[Array, "{output_dim} {input_dim}"]:
        self.check_sizes(output_dim, input_dim)
        noise = jr.normal(key, (output_dim, input_dim))
        return jnp.asarray(self.mean, noise.dtype) + self.scale * noise


@register_task("anisotropic_teacher")
class AnisotropicTeacher(Teacher):
    """Teacher weights whose rows are w ~ N(0, Σ): `variance` is Σ's diagonal, one variance for each coordinate, or the whole Σ.

    Ahn et al. 2023 take Σ = Λ⁻¹ for inputs from N(0, Λ).
    """

    variance: Annotated[
        Float[Array, " input_dim"] | Float[Array, "input_dim input_dim"] | tuple,
        Variance("a vector or a square matrix", axes=(1, 2)),
    ]

    def check_sizes(self, output_dim: int, input_dim: int) -> None:
        check_variance_size(self.variance, input_dim)

    def sample(self, key: PRNGKeyArray, output_dim: int, input_dim: int) -> Float[Array, "{output_dim} {input_dim}"]:
        return Gaussian(self.variance).sample(key, output_dim, input_dim)


@register_task("pooled_teacher")
class PooledTeacher(Teacher):
    """One of `num_tasks` teachers, W ~ Uniform{W₁ … W_M}: each was drawn from `teacher` once and for all, by `pool_seed`.

    Inputs stay fresh; `PromptPool` fixes whole prompts instead. A larger pool of the same seed contains the
    smaller one. Raventós et al. 2023.
    """

    teacher: Teacher = GaussianTeacher()
    num_tasks: Size = eqx.field(default=2048, static=True)
    pool_seed: PoolSeed = eqx.field(default=0, static=True)

    def check_sizes(self, output_dim: int, input_dim: int) -> None:
        self.teacher.check_sizes(output_dim, input_dim)

    def sample(self, key: PRNGKeyArray, output_dim: int, input_dim: int) -> Float[Array, "{output_dim} {input_dim}"]:
        return self.teacher.sample(pool_key(key, self.num_tasks, self.pool_seed), output_dim, input_dim)


def pool_key(key: PRNGKeyArray, num_tasks: int, pool_seed: int) -> PRNGKeyArray:
    """The key of a random member of a pool: each member is made anew from its own key whenever it is drawn, always the same."""
    return jr.fold_in(key_of(pool_seed), jr.randint(key, (), 0, num_tasks, jnp.int32))
