"""What theory says of one layer of linear attention: its least losses, the loss on its way there, and its risk at other lengths."""

from dataclasses import dataclass

import jax
import numpy as np

from ...train.tasks.regression import Task
from ...train.tuning.step_size import optimal_preconditioner, optimal_step_size
from ...zoo.checks.gate import gated
from ...zoo.moments import Moments
from ..stored_steps import Training, stored_models
from .population_loss import exact_moments, in_float64, population_loss


@dataclass(frozen=True)
class LeastLosses:
    """The least half-MSE on a task distribution of what one layer can do, exact, to be drawn as lines in other figures."""

    predicting_zero: float
    gradient_step: float  # one step of gradient descent from zero, at its best η
    step_size: float  # that η
    preconditioned_step: float  # one step preconditioned by the best matrix: for centred inputs, the best of one layer


@gated
def least_losses(task: Task) -> LeastLosses:
    """½·MSE of predicting zero, of the best step of gradient descent, and of the best preconditioned step, in float64.

    `train/tuning/step_size.py` has the formulas. **Raises** `ZooError` where there is no closed form.
    """
    exact_moments(task)
    with jax.enable_x64(True):
        task = in_float64(task)
        step, preconditioned = optimal_step_size(task), optimal_preconditioner(task)
        return LeastLosses(
            predicting_zero=float(
                np.trace(_teacher_moment(moments := task.moments()) @ np.asarray(moments.covariance)) / 2
            ),
            gradient_step=step.half_mse,
            step_size=step.step_size,
            preconditioned_step=preconditioned.half_mse,
        )


@dataclass(frozen=True)
class LossPath:
    """The exact half-MSE of a model at points of its training; `None` where its weights are not finite."""

    steps: tuple[int, ...]
    half_mse: tuple[float | None, ...]
    least: LeastLosses


@gated
def loss_path(training: Training, task: Task) -> LossPath:
    """`population_loss` at each point of a training: of a checkpoint with stored steps, or of the model by step.

    **Raises** `ZooError` like `population_loss`, where there is no closed form for the least loss, and if no step is stored.
    """
    least = least_losses(task)
    losses = {step: population_loss(model, task) for step, model in stored_models(training).items()}
    return LossPath(tuple(losses), tuple(loss if np.isfinite(loss) else None for loss in losses.values()), least)


def _teacher_moment(moments: Moments) -> np.ndarray:
    """S = E[WᵀW] = n_y α² I + μᵀμ."""
    mean = np.broadcast_to(np.asarray(moments.teacher_mean, np.float64), (moments.output_dim, moments.input_dim))
    return moments.output_dim * float(moments.teacher_scale) ** 2 * np.eye(moments.input_dim) + mean.T @ mean
