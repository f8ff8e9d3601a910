"""What theory says of one layer of linear attention: its least losses, the loss on its way there, and its risk at other lengths."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ...train.tasks.regression import Task
from ...train.tuning.step_size import optimal_preconditioner, optimal_step_size
from ...zoo.checks.gate import gated
from ...zoo.moments import Moments
from ..instrument import OWN_TASK, register_instrument
from ..measurement import OnFigure
from ..stored_steps import Training, stored_models
from .population_loss import exact_moments, in_float64, population_loss

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure


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


@dataclass(frozen=True, repr=False)
class LossPath(OnFigure):
    """The exact half-MSE of a model at points of its training; `None` where its weights are not finite."""

    steps: tuple[int, ...]
    half_mse: tuple[float | None, ...]
    least: LeastLosses

    title = "exact half-MSE over training"

    @property
    def summary(self) -> str:
        last = "not finite" if self.half_mse[-1] is None else f"{self.half_mse[-1]:.6g}"
        return f"Exact half-MSE over training: {last} at the end, {self.least.preconditioned_step:.6g} at the least."

    def rows(self) -> list[dict[str, Any]]:
        return [{"step": step, "half_mse": loss} for step, loss in zip(self.steps, self.half_mse, strict=True)]

    def draw(self, figure: "Figure | SubFigure | None", **options: Any) -> "Figure | SubFigure":
        from .exact_losses_plot import loss_path_figure

        return loss_path_figure(self, figure=figure, **options)


@register_instrument(
    "exact-loss",
    title="Exact loss",
    question="The population half-MSE from the weights, by moments and without sampling.",
    order=70,
    formerly=("theory",),
)
@gated
def exact_loss(training: Training, task: Task = OWN_TASK) -> LossPath:
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
