"""How learners do when the task is not the one they were trained on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ...train.losses import over_tasks, squared_error
from ...train.tasks.task import Sweep, Target, Task, Value, Values
from ...zoo.checks.gate import gated
from ...zoo.errors import NotApplicable, ZooError, unknown_name
from ...zoo.prompt import Learner, Prompt
from ..estimates.estimate import Estimate
from ..estimates.means import half_mse_of
from ..instrument import FIXED_KEY, OWN_TASK, register_instrument
from ..measurement import OnAxes, OnFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

Errors = dict[str, np.ndarray]  # ‖ŷ − y‖² by learner, [num_tasks, num_values]


@dataclass(frozen=True, repr=False)
class Shift(OnAxes):
    """The losses of several learners on the same tasks, against one setting of the task."""

    setting: str  # what is shifted, as an axis says it
    values: tuple[Value, ...]
    training: Value | None  # the value learners were trained at, where it is one of this setting
    half_mse: Mapping[str, tuple[Estimate, ...]]  # by learner, at each value
    excess: Mapping[str, tuple[Estimate, ...]]  # half-MSE of a learner minus that of the first one, paired
    undefined: Mapping[str, str]  # by learner: why its curve has gaps
    num_tasks: int

    title = "half-MSE where one setting changes"

    @property
    def summary(self) -> str:
        return f"Half-MSE of {', '.join(self.half_mse)} against {self.setting}."

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"setting": self.setting, "value": value, "learner": name, "half_mse": means[place]}
            | {"excess": self.excess[name][place], "training": value == self.training}
            for name, means in self.half_mse.items()
            for place, value in enumerate(self.values)
        ]

    def draw(self, ax: "Axes", **options: Any) -> None:
        from .shifts_plot import shift_curves

        shift_curves(self, ax=ax, **options)


@dataclass(frozen=True, repr=False)
class Shifts(OnFigure):
    """Every shift that a task has, and of its other settings, why there is none."""

    found: Mapping[str, Shift]
    missing: Mapping[str, str]

    title = "half-MSE where one setting changes"

    @property
    def summary(self) -> str:
        return "Half-MSE of the model and its baselines under shifts of the task."

    def rows(self) -> list[dict[str, Any]]:
        return [{"kind": kind, **row} for kind, shift in self.found.items() for row in shift.rows()]

    def draw(self, figure: "Figure | SubFigure | None", **options: Any) -> "Figure | SubFigure":
        from .shifts_plot import shifts_figure

        return shifts_figure(self.found, figure=figure, **options)


@gated
def shift(
    kind: str,
    learners: Mapping[str, Learner],
    task: Task,
    *,
    values: Values = None,
    num_tasks: int = 10_000,
    key: PRNGKeyArray,
) -> Shift:
    """The half-MSE of each learner where one setting of `task`, the one they were trained on, takes other `values`.

    von Oswald et al. 2023, appendix A.2. `kind` is one of those that the task has (`task.sweeps()`), as linear regression has

    - "half_width": x ~ U(−h, h)
    - "teacher_scale": W ~ N(μ, α²); with μ = 0 a learner that is linear in the labels has α² times the loss
    - "distribution": inputs that are uniform, normal, exponential or Laplace, all with the E[x²] of `task`
    - "distractors": examples with labels from N(0, 1)
    - "num_examples": N; a prompt of fewer examples is the beginning of one of more. A layer of attention keeps its η/N.

    **Raises** `UnknownNameError` for another kind, `NotApplicable` where this task has no such setting, `ZooError` without a learner.
    """
    if not learners:
        raise ZooError("a shift needs at least one learner to measure")
    if kind not in (sweeps := task.sweeps()):
        raise unknown_name(f"shift of {type(task).__name__}", kind, sweeps)
    sweep = sweeps[kind](values)
    errors, refusals = _measure(dict(learners), sweep, num_tasks, key)
    first = errors[next(iter(learners))]
    with np.errstate(invalid="ignore"):  # ∞ − ∞ is undefined
        excess = {name: half_mse_of(errors[name] - first) for name in learners}
    return Shift(
        setting=sweep.setting,
        values=sweep.values,
        training=sweep.training,
        half_mse={name: half_mse_of(errors[name]) for name in learners},
        excess=excess,
        undefined=_gaps(errors) | refusals,
        num_tasks=num_tasks,
    )


@register_instrument(
    "shifts",
    title="Shifts",
    question="Half-MSE where one setting of the task changes; the training point is marked.",
    cost="a minute",
    order=140,
)
@gated
def shifts(
    learners: Mapping[str, Learner],
    task: Task = OWN_TASK,
    *,
    num_tasks: int = 10_000,
    key: PRNGKeyArray = FIXED_KEY,
) -> Shifts:
    """Every kind of shift that `task` has; and of the other kinds, why there is none.

    `learners` are one learner, several in a list, or by name. **Raises** `NotApplicable` where the task has no such setting.
    """
    found: dict[str, Shift] = {}
    missing: dict[str, str] = {}
    for kind in task.sweeps():
        try:
            found[kind] = shift(kind, learners, task, num_tasks=num_tasks, key=key)
        except NotApplicable as error:
            missing[kind] = str(error)
    if not found:
        reasons = "; ".join(missing.values()) or f"{type(task).__name__} has no setting that can be moved"
        raise NotApplicable(reasons)
    return Shifts(found, missing)


def _measure(learners: dict[str, Any], sweep: Sweep, num_tasks: int, key) -> tuple[Errors, dict[str, str]]:
    """The errors at each value, NaN where a learner does not read such prompts; and why it does not."""
    errors = {name: np.full((num_tasks, len(sweep.values)), np.nan) for name in learners}
    if not sweep.lengths:
        for i, task in enumerate(sweep.tasks):
            cases = tuple((learner, task.num_examples) for learner in learners.values())
            measured = over_tasks(_errors, cases, task, num_tasks=num_tasks, key=key)
            for name, values in zip(learners, measured, strict=True):
                errors[name][:, i] = values
        return errors, {}
    (longest,) = sweep.tasks
    refused = {(name, n): _refusal(learners[name], longest, n) for name in learners for n in sweep.lengths}
    read = [case for case, reason in refused.items() if reason is None]
    cases = tuple((learners[name], n) for name, n in read)
    measured = over_tasks(_errors, cases, longest, num_tasks=num_tasks, key=key)
    for (name, n), values in zip(read, measured, strict=True):
        errors[name][:, sweep.lengths.index(n)] = values
    return errors, {name: reason for (name, _), reason in refused.items() if reason is not None}


def _errors(cases: tuple[tuple[Learner, int], ...], prompt: Prompt, target: Target) -> tuple[Array, ...]:
    """‖ŷ − y‖² of each learner on the beginning of the prompt, one learner after the other.

    The `where` changes nothing but makes each wait for the last: on few cores, XLA can lock up on LAPACK calls that run side by side.
    """
    errors = []
    for learner, num_examples in cases:
        errors.append(squared_error(learner, _beginning(prompt, num_examples), target))
        prompt = eqx.tree_at(lambda p: p.xs, prompt, jnp.where(errors[-1] < 0, 0, prompt.xs))
    return tuple(errors)


def _beginning(prompt: Prompt, num_examples: int) -> Prompt:
    return Prompt(xs=prompt.xs[:num_examples], ys=prompt.ys[:num_examples], query=prompt.query)


def _refusal(learner: Learner, task: Task, num_examples: int) -> str | None:
    """Why a learner does not read prompts of that length; `None` where it does."""
    try:
        jax.eval_shape(lambda key: learner(_beginning(task.sample(key)[0], num_examples)), jr.key(0))
    except ZooError as error:
        return str(error)
    return None


def _gaps(errors: Errors) -> dict[str, str]:
    most = {name: int((~np.isfinite(values)).sum(axis=0).max(initial=0)) for name, values in errors.items()}
    return {name: f"not finite on up to {n} of {len(errors[name])} tasks" for name, n in most.items() if n}
