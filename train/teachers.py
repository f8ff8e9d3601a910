"""How the teacher of a linear regression task is drawn."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from ..zoo.config import setting
from ..zoo.determinism import key_of
from ..zoo.errors import ConfigError
from .inputs import Gaussian, Number


class Teacher(eqx.Module):
    """Interface: a distribution of teacher weights."""

    @abstractmethod
    def sample(self, key: PRNGKeyArray, output_dim: int, input_dim: int) -> Float[Array, "{output_dim} {input_dim}"]:
        """The weights W of one task."""


@setting("gaussian_teacher")
class GaussianTeacher(Teacher):
    """Teacher weights W ~ N(μ, α²), entries independent: `scale` is α and `mean` is μ, for each entry or for all."""

    scale: Number = 1.0
    mean: Number | Float[Array, "output_dim input_dim"] | tuple = 0.0

    def sample(self, key: PRNGKeyArray, output_dim: int, input_dim: int) -> Float[Array, "{output_dim} {input_dim}"]:
        noise = jr.normal(key, (output_dim, input_dim))
        return jnp.asarray(self.mean, noise.dtype) + self.scale * noise


@setting("anisotropic_teacher")
class AnisotropicTeacher(Teacher):
    """Teacher weights whose rows are w ~ N(0, Σ): `variance` is Σ's diagonal, one variance for each coordinate, or the whole Σ.

    Ahn et al. 2023 take Σ = Λ⁻¹ for inputs from N(0, Λ).
    """

    variance: Float[Array, " input_dim"] | Float[Array, "input_dim input_dim"] | tuple

    def sample(self, key: PRNGKeyArray, output_dim: int, input_dim: int) -> Float[Array, "{output_dim} {input_dim}"]:
        return Gaussian(self.variance).sample(key, output_dim, input_dim)


@setting("pooled_teacher")
class PooledTeacher(Teacher):
    """One of `num_tasks` teachers, W ~ Uniform{W₁ … W_M}: each was drawn from `teacher` once and for all, by `pool_seed`.

    Inputs stay fresh; `TaskPool` (in `train/tasks.py`) fixes whole prompts instead. A larger pool of the same seed contains the
    smaller one. Raventós et al. 2023.
    """

    teacher: Teacher = GaussianTeacher()
    num_tasks: int = eqx.field(default=2048, static=True)
    pool_seed: int = eqx.field(default=0, static=True)

    def __check_init__(self):
        check_sizes(self, "num_tasks")

    def sample(self, key: PRNGKeyArray, output_dim: int, input_dim: int) -> Float[Array, "{output_dim} {input_dim}"]:
        return self.teacher.sample(pool_key(key, self.num_tasks, self.pool_seed), output_dim, input_dim)


def pool_key(key: PRNGKeyArray, num_tasks: int, pool_seed: int) -> PRNGKeyArray:
    """The key of a random member of a pool: each member is made anew from its own key whenever it is drawn, always the same."""
    return jr.fold_in(key_of(pool_seed), jr.randint(key, (), 0, num_tasks, jnp.int32))


def check_sizes(settings: Any, *names: str) -> None:
    """`ConfigError` unless the settings of these names are whole numbers of at least 1."""
    for name in names:
        size = getattr(settings, name)
        if not isinstance(size, int) or size < 1:
            raise ConfigError(f"{name} must be a whole number of at least 1, got {size!r}")
