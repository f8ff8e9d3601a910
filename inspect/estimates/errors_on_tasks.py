"""The errors of several learners on the same tasks, from which losses and paired differences are taken."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import PRNGKeyArray

from ...train.losses import over_tasks, squared_error
from ...train.tasks.regression import Task
from ...zoo.checks.gate import gated
from ...zoo.prompt import Learner


@gated
def half_squared_errors(
    learners: Mapping[str, Learner], task: Task, *, num_tasks: int, key: PRNGKeyArray
) -> dict[str, np.ndarray]:
    """½‖ŷ − y‖² of each learner on each of `num_tasks` tasks, [num_tasks] by name: its mean is the half-MSE."""
    errors = over_tasks(_errors, dict(learners), task, num_tasks=num_tasks, key=key)
    return {name: values / 2 for name, values in errors.items()}


def _errors(learners, prompt, target):
    return {name: squared_error(learner, prompt, target) for name, learner in learners.items()}
