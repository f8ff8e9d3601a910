"""The best single step of gradient descent for a whole task distribution, in closed form (see `zoo/algorithms/one_step.py`)."""

from collections.abc import Iterator
from contextlib import contextmanager

from ...zoo.algorithms.one_step import (
    OnePreconditionedStep,
    OneStep,
    best_preconditioner,
    best_step_size,
)
from ...zoo.checks.gate import gated
from ...zoo.errors import NotApplicable
from ..tasks.task import Task


@gated
def has_optimal_step_size(task: Task) -> bool:
    """Whether the closed forms hold: linear regression, a Gaussian teacher of mean zero, independent inputs."""
    try:
        optimal_step_size(task)
    except NotApplicable:
        return False
    return True


@gated
def optimal_step_size(task: Task) -> OneStep:
    """The η that minimises the expected loss of one step from zero, and that loss, from the moments of the task.

    **Raises** `NotApplicable` where no closed form is known; then use `fitted_step_size`.
    """
    with _or_else("fitted_step_size"):
        return best_step_size(task.moments())


@gated
def optimal_preconditioner(task: Task) -> OnePreconditionedStep:
    """The P that minimises the expected loss of one preconditioned step from zero, and that loss, from the moments of the task.

    **Raises** `NotApplicable` where no closed form is known; then use `fitted_preconditioner`.
    """
    with _or_else("fitted_preconditioner"):
        return best_preconditioner(task.moments())


@contextmanager
def _or_else(instead: str) -> Iterator[None]:
    """What to do where a closed form is not known."""
    try:
        yield
    except NotApplicable as reason:
        raise NotApplicable(f"no closed form is known: {reason}; use {instead} on labelled tasks") from None
