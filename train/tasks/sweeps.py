"""One setting of a regression task moved away from where learners were trained.

Values that may be arrays are arrays here, so that learners are compiled once for a whole sweep.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ...zoo.checks.arguments import NAME, Check, several
from ...zoo.checks.gate import gated
from ...zoo.checks.values import Real, whole_number
from ...zoo.errors import NotApplicable, unknown_name
from ...zoo.prompt import Prompt
from .inputs import Exponential, Gaussian, Laplace, Uniform
from .task import Sweep, Target, Task, Values

MOST_EXAMPLES = 100_000  # of prompts that still fit into memory


class DistractedTask(Task):
    """`task` with the labels of `num_distractors` examples, others in every prompt, replaced by labels from N(0, 1).

    The number may be an array. The examples replaced are among those that a larger number replaces.
    """

    task: Task
    num_distractors: Int[Array, ""]

    @property
    def input_dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.task.input_dim

    @property
    def output_dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.task.output_dim

    @property
    def num_examples(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.task.num_examples

    def draw(self, key: PRNGKeyArray) -> tuple[Prompt, Target]:
        prompt, target = self.task.draw(key)
        key_rank, key_label = jr.split(jr.fold_in(key, 1))
        replaced = jr.permutation(key_rank, prompt.num_examples) < self.num_distractors
        ys = jnp.where(replaced[:, None], jr.normal(key_label, prompt.ys.shape, prompt.ys.dtype), prompt.ys)
        return eqx.tree_at(lambda p: p.ys, prompt, ys), target


@gated
def half_width(task: Any, values: Values) -> Sweep:
    """x ~ U(−h, h)."""
    scale = _input_scale(task)
    training = getattr(task.inputs, "half_width", None)
    width = scale * 3**0.5 if training is None else (training := float(training))
    chosen = _numbers(values, [width * factor for factor in (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)], Real(above=0))
    tasks = tuple(replace(task, inputs=Uniform(_array(h))) for h in chosen)
    return Sweep("input half-width h, x ~ U(−h, h)", chosen, training, tasks)


@gated
def teacher_scale(task: Any, values: Values) -> Sweep:
    """W ~ N(μ, α²)."""
    training = float(task.moments().teacher_scale)
    chosen = _numbers(
        values,
        [(training or 1.0) * factor for factor in (0.25, 0.5, 1.0, 2.0, 3.0, 5.0)],
        Real(least=0),
    )
    tasks = tuple(replace(task, teacher=replace(task.teacher, scale=_array(alpha))) for alpha in chosen)
    return Sweep("teacher scale α, W ~ N(μ, α²)", chosen, training, tasks)


@gated
def distribution(task: Any, values: Values) -> Sweep:
    """Uniform, normal, exponential or Laplace inputs, with the E[x²] of the task."""
    scale = _input_scale(task)
    kinds = {
        "uniform": Uniform(_array(3**0.5 * scale)),
        "normal": Gaussian(_array(scale**2)),
        "exponential": Exponential(_array(scale / 2**0.5)),
        "Laplace": Laplace(_array(scale / 2**0.5)),
    }
    chosen = several(NAME)("values", [*kinds] if values is None else values)
    for kind in chosen:
        if kind not in kinds:
            raise unknown_name("distribution of inputs", kind, kinds)
    training = next((name for name, inputs in kinds.items() if type(inputs) is type(task.inputs)), None)
    tasks = tuple(replace(task, inputs=kinds[kind]) for kind in chosen)
    return Sweep(f"inputs, E[x²] = {scale**2:.3g} for all", chosen, training, tasks)


@gated
def distractors(task: Any, values: Values) -> Sweep:
    """Examples with labels from N(0, 1)."""
    N = task.num_examples
    chosen = _whole(values, np.linspace(0, N, min(N, 5) + 1).astype(int).tolist(), at_most=N)
    clean = replace(task, num_distractors=0)
    tasks = tuple(DistractedTask(clean, jnp.asarray(number)) for number in chosen)  # pyright: ignore[reportCallIssue]
    return Sweep(f"distractors among N = {N} examples", chosen, task.num_distractors, tasks)


@gated
def num_examples(task: Any, values: Values) -> Sweep:
    """N: a prompt of fewer examples is the beginning of one of more."""
    if getattr(task, "num_distractors", 0):
        raise NotApplicable(
            "the beginning of a prompt with distractors has another number of them: set num_distractors=0"
        )
    N = task.num_examples
    chosen = _whole(
        values, [max(1, round(N * factor)) for factor in (0.2, 0.5, 1, 2, 3, 5)], at_least=1, at_most=MOST_EXAMPLES
    )
    return Sweep("number of examples N", chosen, N, (replace(task, num_examples=max(chosen)),), lengths=chosen)


def _input_scale(task: Any) -> float:
    """The root mean square of an entry of x."""
    return float(np.sqrt(np.trace(np.asarray(task.inputs.covariance(task.input_dim))) / task.input_dim))


def _numbers(values: Values, default: Sequence[float], check: Check) -> tuple[float, ...]:
    return tuple(sorted(several(check)("values", default if values is None else values)))


def _whole(values: Values, default: Sequence[int], *, at_least: int = 0, at_most: int | None = None) -> tuple[int, ...]:
    each = several(partial(whole_number, least=at_least, most=at_most))
    return tuple(sorted(set(each("values", default if values is None else values))))


def _array(value: float) -> Float[Array, ""]:
    return jnp.asarray(value, jnp.result_type(float))
