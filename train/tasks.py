"""The distributions that learners are trained and measured on.

A task draws a prompt and, apart from it, the target: the true label of the query. How x is drawn, how the teacher is drawn and how
y is made are separate settings, so that a shift in one is a shift in one.
"""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from ..zoo.config import setting
from ..zoo.errors import ConfigError
from ..zoo.prompt import Prompt
from .inputs import Inputs, Number, Uniform

Target = Float[Array, " output_dim"]


class Task(eqx.Module):
    """Interface: a distribution over (prompt, target)."""

    input_dim: eqx.AbstractVar[int]
    output_dim: eqx.AbstractVar[int]
    num_examples: eqx.AbstractVar[int]

    @abstractmethod
    def sample(self, key: PRNGKeyArray) -> tuple[Prompt, Target]:
        """One prompt and the label of its query."""

    def sample_batch(self, key: PRNGKeyArray, num_tasks: int) -> tuple[Prompt, Float[Array, "{num_tasks} output_dim"]]:
        """`num_tasks` independent prompts and targets, with a leading axis on every array."""
        return jax.vmap(self.sample)(jr.split(key, num_tasks))


@setting("gaussian_teacher")
class GaussianTeacher(eqx.Module):
    """Teacher weights W ~ N(μ, α²), entries independent: `scale` is α and `mean` is μ, for each entry or for all."""

    scale: Number = 1.0
    mean: Number | Float[Array, "output_dim input_dim"] | tuple = 0.0

    def sample(self, key: PRNGKeyArray, output_dim: int, input_dim: int) -> Float[Array, "{output_dim} {input_dim}"]:
        noise = jr.normal(key, (output_dim, input_dim))
        return jnp.asarray(self.mean, noise.dtype) + self.scale * noise


@setting("linear_regression")
class LinearRegression(Task):
    """Linear regression: y = W x + ε with a fresh teacher W for every prompt.

        xᵢ, x_query ~ inputs,   W ~ teacher,   ε ~ N(0, noise_std²) on the examples;   target = W x_query

    von Oswald et al. 2023, appendix A.12, with half_width = ½ as in its code.
    """

    input_dim: int = eqx.field(default=10, static=True)
    output_dim: int = eqx.field(default=1, static=True)
    num_examples: int = eqx.field(default=10, static=True)
    inputs: Inputs = Uniform()
    teacher: GaussianTeacher = GaussianTeacher()
    noise_std: Number = 0.0

    def __check_init__(self):
        for name in ("input_dim", "output_dim", "num_examples"):
            size = getattr(self, name)
            if not isinstance(size, int) or size < 1:
                raise ConfigError(f"{name} must be a whole number of at least 1, got {size!r}")

    def sample(self, key: PRNGKeyArray) -> tuple[Prompt, Target]:
        key_x, key_teacher, key_noise = jr.split(key, 3)
        xs = self.inputs.sample(key_x, self.num_examples + 1, self.input_dim)
        task_weights = self.teacher.sample(key_teacher, self.output_dim, self.input_dim)
        labels = xs @ task_weights.T
        ys, target = labels[:-1], labels[-1]
        if not _is_zero(self.noise_std):
            ys = ys + self.noise_std * jr.normal(key_noise, ys.shape)
        return Prompt(xs=xs[:-1], ys=ys, query=xs[-1]), target


def _is_zero(value: Number) -> bool:
    """Whether a number is known to be zero before anything is computed."""
    return isinstance(value, int | float) and value == 0
