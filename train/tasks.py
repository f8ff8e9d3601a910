"""The distributions that learners are trained and measured on.

A task draws a prompt and, apart from it, the target: the true label of the query. How x is drawn, how the teacher is drawn and how
y is made are separate settings, so that a shift in one is a shift in one.
"""

from abc import abstractmethod
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from ..zoo.checked import Number, Size
from ..zoo.checks import MAX_SIZE, Whole, is_traced
from ..zoo.config import setting
from ..zoo.determinism import split
from ..zoo.errors import ConfigError, NotApplicable
from ..zoo.gate import gated
from ..zoo.memory import check_memory
from ..zoo.moments import Moments
from ..zoo.prompt import Prompt
from .inputs import Inputs, Scale, ScaleOrZero, Uniform
from .teachers import GaussianTeacher, PoolSeed, Teacher, pool_key

Target = Float[Array, " output_dim"]
Labels = Float[Array, "num_examples output_dim"]


class Task(eqx.Module):
    """Interface: a distribution over (prompt, target)."""

    input_dim: eqx.AbstractVar[int]
    output_dim: eqx.AbstractVar[int]
    num_examples: eqx.AbstractVar[int]

    @property
    def population(self) -> "Task":
        """The task without end that learners are measured on: itself, unless it is a finite set of prompts."""
        return self

    def moments(self) -> Moments:
        """The moments of the task. **Raises** `NotApplicable`, saying why, where it is not linear regression with a Gaussian teacher."""
        raise NotApplicable(f"{type(self).__name__} is not linear regression with a Gaussian teacher")

    def check_memory(self, num_tasks: int = 1) -> None:
        """`ConfigError` unless so many prompts of the task, and a linear teacher of each, fit into this machine."""
        d, n_y, N = self.input_dim, self.output_dim, self.num_examples
        prompts = "a prompt" if num_tasks == 1 else f"a batch of {num_tasks} prompts"
        sizes = f"input_dim {d}, output_dim {n_y} and num_examples {N}"
        check_memory(f"{prompts} of {sizes}", num_tasks * ((N + 1) * (d + n_y) + d * n_y))

    @abstractmethod
    def draw(self, key: PRNGKeyArray) -> tuple[Prompt, Target]:
        """What `sample` gives, by whichever generator JAX is set to: for classes to define, not to call."""

    @gated
    def sample(self, key: PRNGKeyArray) -> tuple[Prompt, Target]:
        """One prompt and the label of its query.

        The numbers of one task come from JAX's threefry generator in its original form, several times faster than the partitionable one.
        What that gives up, splitting one array's stream over devices, is not missed: batches are split between tasks, each
        with a key of its own.
        """
        with jax.threefry_partitionable(False):
            return self.draw(key)

    @gated
    def sample_batch(self, key: PRNGKeyArray, num_tasks: int) -> tuple[Prompt, Float[Array, "{num_tasks} output_dim"]]:
        """`num_tasks` independent prompts and targets, with a leading axis on every array."""
        self.check_memory(num_tasks)
        return jax.vmap(self.sample)(split(key, num_tasks))


@setting("linear_regression")
class LinearRegression(Task):
    """Linear regression: y = W x + ε with a fresh teacher W for every prompt.

        xᵢ, x_query ~ inputs,   W ~ teacher,   ε ~ N(0, noise_std²) on the examples;   target = W x_query

    `num_distractors` of the examples, others in every prompt, have labels y ~ N(0, 1) that say nothing of W.
    von Oswald et al. 2023, appendix A.12, with half_width = ½ as in its code.
    """

    input_dim: Size = eqx.field(default=10, static=True)
    output_dim: Size = eqx.field(default=1, static=True)
    num_examples: Size = eqx.field(default=10, static=True)
    inputs: Inputs = Uniform()
    teacher: Teacher = GaussianTeacher()
    noise_std: ScaleOrZero = 0.0
    num_distractors: Annotated[int, Whole(0, MAX_SIZE)] = eqx.field(default=0, static=True)

    def __check_init__(self):
        if self.num_distractors > self.num_examples:
            raise ConfigError(
                f"num_distractors must be a whole number from 0 to num_examples = {self.num_examples}, got {self.num_distractors}"
            )
        self.check_memory()
        self.inputs.check_sizes(self.input_dim)
        self.teacher.check_sizes(self.output_dim, self.input_dim)

    def moments(self) -> Moments:
        mean, scale = self.teacher.moments()
        return Moments(
            covariance=self.inputs.covariance(self.input_dim),
            fourth_moment=self.inputs.fourth_moment,
            teacher_mean=mean,
            teacher_scale=scale,
            noise_std=self.noise_std,
            input_dim=self.input_dim,
            output_dim=self.output_dim,
            num_examples=self.num_examples,
            num_distractors=self.num_distractors,
            independent_inputs=self.inputs.independent,
        )

    def draw(self, key: PRNGKeyArray) -> tuple[Prompt, Target]:
        key_x, key_teacher, key_noise = jr.split(key, 3)
        xs = self.inputs.sample(key_x, self.num_examples + 1, self.input_dim)
        task_weights = self.teacher.sample(key_teacher, self.output_dim, self.input_dim)
        labels = xs @ task_weights.T
        ys, target = labels[:-1], labels[-1]
        if not _is_zero(self.noise_std):
            ys = ys + self.noise_std * jr.normal(key_noise, ys.shape)
        if self.num_distractors:
            ys = _distract(ys, self.num_distractors, jr.fold_in(key_noise, 1))
        return Prompt(xs=xs[:-1], ys=ys, query=xs[-1]), target


@setting("sine_regression")
class SineRegression(Task):
    """Sine regression: waves of period 2π whose amplitude and phase are drawn independently for every prompt.

        y = a sin(x + ρ),   a ~ U(amplitude_min, amplitude_max),   ρ ~ U(0, π),   x ~ inputs

    von Oswald et al. 2023, appendix A.7, with the amplitudes of its code; there, one key draws both a and ρ, which ties them.
    """

    num_examples: Size = eqx.field(default=10, static=True)
    inputs: Inputs = Uniform(5.0)
    amplitude_min: ScaleOrZero = 0.1
    amplitude_max: Scale = 0.5

    def __check_init__(self):
        self.check_memory()
        self.inputs.check_sizes(1)
        low, high = self.amplitude_min, self.amplitude_max
        if not is_traced(low) and not is_traced(high) and low > high:
            raise ConfigError(f"amplitude_min must be at most amplitude_max, got {low} and {high}")

    @property
    def input_dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return 1

    @property
    def output_dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return 1

    def draw(self, key: PRNGKeyArray) -> tuple[Prompt, Target]:
        key_x, key_amplitude, key_phase = jr.split(key, 3)
        xs = self.inputs.sample(key_x, self.num_examples + 1, 1)
        amplitude = jr.uniform(key_amplitude, minval=self.amplitude_min, maxval=self.amplitude_max)
        phase = jr.uniform(key_phase, maxval=jnp.pi)
        labels = amplitude * jnp.sin(xs + phase)
        return Prompt(xs=xs[:-1], ys=labels[:-1], query=xs[-1]), labels[-1]


@setting("task_pool")
class TaskPool(Task):
    """One of `num_tasks` prompts of `task`: teacher, inputs, query and target were drawn together once, by `pool_seed`.

    The finite training set of von Oswald et al. 2023, whose code repeats its batches; `PooledTeacher` (in `train/teachers.py`) fixes
    teachers and leaves inputs fresh. A larger pool of the same seed contains the smaller one.
    """

    task: Task = LinearRegression()
    num_tasks: Size = eqx.field(default=2048, static=True)
    pool_seed: PoolSeed = eqx.field(default=0, static=True)

    @property
    def input_dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.task.input_dim

    @property
    def output_dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.task.output_dim

    @property
    def num_examples(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.task.num_examples

    @property
    def population(self) -> Task:
        return self.task.population

    def draw(self, key: PRNGKeyArray) -> tuple[Prompt, Target]:
        return self.task.draw(pool_key(key, self.num_tasks, self.pool_seed))


def _distract(ys: Labels, num_distractors: int, key: PRNGKeyArray) -> Labels:
    """Random labels in place of `num_distractors` of the labels, chosen at random."""
    key_choice, key_label = jr.split(key)
    chosen = jr.choice(key_choice, len(ys), (num_distractors,), replace=False)
    return ys.at[chosen].set(jr.normal(key_label, (num_distractors, ys.shape[1])))


def _is_zero(value: Number) -> bool:
    """Whether a number is known to be zero before anything is computed."""
    return isinstance(value, int | float) and value == 0
