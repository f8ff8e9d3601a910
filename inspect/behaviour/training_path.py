"""What the stored steps of a run say of its weights, its loss and its likeness to an algorithm."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import PRNGKeyArray

from ...train.losses import over_tasks, squared_error
from ...train.tasks.regression import Task
from ...train.tuning.step_size import has_optimal_step_size, optimal_step_size
from ...zoo.checks.gate import gated
from ...zoo.prompt import Learner
from ..estimates.estimate import Estimate
from ..estimates.means import finite_mean
from ..stored_steps import Training, stored_models
from .alignment import Alignment, alignment


@dataclass(frozen=True)
class AlignmentPath:
    """Half-MSE at each stored step, beside one algorithm's, and the three measures of alignment with it, on the same tasks."""

    steps: tuple[int, ...]
    half_mse: tuple[Estimate, ...]
    alignments: tuple[Alignment, ...]
    baseline: str
    baseline_half_mse: Estimate
    one_step_half_mse: (
        float | None
    )  # the least of one step of gradient descent, exact; None where no closed form is known


@gated
def alignment_path(
    training: Training, name: str, baseline: Learner, task: Task, *, num_tasks: int = 2_000, key: PRNGKeyArray
) -> AlignmentPath:
    """Loss and alignment with `baseline`, called `name`, along a training. von Oswald et al. 2023, Figure 2.

    **Raises** `ZooError` if no step is stored.
    """
    models = stored_models(training)
    losses = [_half_mse(model, task, num_tasks, key) for model in models.values()]
    aligned = [alignment(model, baseline, task, num_tasks=num_tasks, key=key) for model in models.values()]
    return AlignmentPath(
        steps=tuple(models),
        half_mse=tuple(losses),
        alignments=tuple(aligned),
        baseline=name,
        baseline_half_mse=_half_mse(baseline, task, num_tasks, key),
        one_step_half_mse=optimal_step_size(task).half_mse if has_optimal_step_size(task) else None,
    )


def spread(steps: Sequence[int], number: int) -> list[int]:
    """The places of about `number` of the steps, spread evenly over them, the first and the last among them."""
    return sorted({round(place) for place in np.linspace(0, len(steps) - 1, min(number, len(steps)))})


def _half_mse(learner: Learner, task: Task, num_tasks: int, key: PRNGKeyArray) -> Estimate:
    return finite_mean(over_tasks(squared_error, learner, task, num_tasks=num_tasks, key=key) / 2)
