"""The distributions that learners are trained and measured on.

A task draws a prompt and, apart from it, the target: the true label of the query. How x is drawn, how the teacher is drawn and how
y is made are separate settings, so that a shift in one is a shift in one.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from ...zoo.algorithms.least_squares import LeastSquares, Ridge, bayes_regularisation
from ...zoo.checks.annotations import Size
from ...zoo.checks.numbers import Number
from ...zoo.checks.values import MAX_SIZE, Whole, is_traced
from ...zoo.errors import ConfigError
from ...zoo.moments import Moments
from ...zoo.prompt import Learner, Prompt
from .inputs import Inputs, Scale, ScaleOrZero, Uniform
from .sweeps import distractors, distribution, half_width, num_examples, teacher_scale
from .task import Sweep, Target, Task, Values, register_task
from .teachers import GaussianTeacher, PoolSeed, Teacher, pool_key

Labels = Float[Array, "num_examples output_dim"]


@register_task("linear_regression")
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

    def bayes_predictor(self) -> Learner:
        """Ridge regression with ρ = σ²/α²; without noise, least squares."""
        rho = bayes_regularisation(self.moments())
        return Ridge(rho) if rho else LeastSquares()

    def sweeps(self) -> Mapping[str, Callable[[Values], Sweep]]:
        kinds = (half_width, teacher_scale, distribution, distractors, num_examples)
        return {sweep.__name__: partial(sweep, self) for sweep in kinds}

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


@register_task("sine_regression")
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

    def sweeps(self) -> Mapping[str, Callable[[Values], Sweep]]:
        return {sweep.__name__: partial(sweep, self) for sweep in (half_width, distribution, num_examples)}

    def draw(self, key: PRNGKeyArray) -> tuple[Prompt, Target]:
        key_x, key_amplitude, key_phase = jr.split(key, 3)
        xs = self.inputs.sample(key_x, self.num_examples + 1, 1)
        amplitude = jr.uniform(key_amplitude, minval=self.amplitude_min, maxval=self.amplitude_max)
        phase = jr.uniform(key_phase, maxval=jnp.pi)
        labels = amplitude * jnp.sin(xs + phase)
        return Prompt(xs=xs[:-1], ys=labels[:-1], query=xs[-1]), labels[-1]


@register_task("prompt_pool", formerly=("task_pool",))
class PromptPool(Task):
    """One of `num_tasks` prompts of `task`: teacher, inputs, query and target were drawn together once, by `pool_seed`.

    The finite training set of von Oswald et al. 2023, whose code repeats its batches; `PooledTeacher` (in `train/tasks/teachers.py`) fixes
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

    def sweeps(self) -> Mapping[str, Callable[[Values], Sweep]]:
        """Those of the task behind the pool."""
        return self.task.sweeps()

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
