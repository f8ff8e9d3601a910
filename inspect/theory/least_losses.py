"""What theory says of one layer of linear attention: its least losses, the loss on its way there, and its risk at other lengths."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ...train.tasks.regression import Task
from ...train.tuning.step_size import optimal_preconditioner, optimal_step_size
from ...zoo.checks.arguments import TASK, several
from ...zoo.checks.gate import COUNT, gate, gated
from ...zoo.errors import NotApplicable, ShapeError, ZooError
from ...zoo.moments import Matrix, Moments
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


@dataclass(frozen=True)
class PreconditionedRisk:
    """The risk of one preconditioned step, ŷ = (1/M) Σᵢ yᵢ xᵢᵀ P x_query, on prompts of M examples: MSE, not halved.

    risk = squared_bias + variance. The bias is the part that no length M takes away.
    """

    num_training_examples: int  # N, for which P was made
    num_examples: tuple[int, ...]  # M
    risk: Float[np.ndarray, " num_lengths"]
    variance: Float[np.ndarray, " num_lengths"]
    squared_bias: float
    preconditioner: Float[np.ndarray, "input_dim input_dim"]  # P

    @property
    def half_mse(self) -> Float[np.ndarray, " num_lengths"]:
        """½·MSE at each M, the loss of the papers."""
        return self.risk / 2


@gate(training=TASK, test=TASK, num_examples=several(COUNT))
def preconditioned_risk(
    training: Task,
    *,
    num_examples: Sequence[int] | None = None,
    test: Task | None = None,
    preconditioner: Matrix | np.ndarray | None = None,
) -> PreconditionedRisk:
    """The risk, on prompts of M examples each, of the best preconditioned step for prompts of N examples.

        y − ŷ = x_queryᵀ(I − PᵀΛ)a − x_queryᵀPᵀ(ĝ − Λa),   ĝ = (1/M) Σᵢ yᵢ xᵢ
        squared bias = tr Λ(I − PᵀΛ)S(I − ΛP),   variance = (1/M) tr PᵀVP Λ,   V = M(S) − ΛSΛ + n_y σ²Λ

    with S = E[WᵀW] the second moment of the teacher and M(S) = E[x xᵀS x xᵀ]. P is the best for `training`, Γ⁻¹ where its inputs are
    Gaussian without noise (`optimal_preconditioner`), unless it is given; `test`, by default `training`, is where the risk is taken, so
    that any of its settings may shift. `num_examples` is 1, 2, 4 … and N, unless given. Zhang et al. 2024, Theorem 4.2.

    **Raises** `ZooError` where a task has no closed form, or test prompts hold distractors.
    """
    exact_moments(training)
    if test is None:
        test = training
    if exact_moments(test).num_distractors:
        raise NotApplicable(
            "the risk at other lengths is that of prompts without distractors; set num_distractors=0 in test"
        )
    if (test.input_dim, test.output_dim) != (training.input_dim, training.output_dim):
        raise ZooError("the prompts of test must have the input_dim and output_dim of training")
    N = training.num_examples
    lengths = sorted({N, *(2**k for k in range(13))}) if num_examples is None else list(num_examples)
    with jax.enable_x64(True):
        moments = in_float64(test).moments()
        best = optimal_preconditioner(in_float64(training)).preconditioner if preconditioner is None else preconditioner
        P = np.asarray(best, np.float64)
        if P.shape != (test.input_dim, test.input_dim) or not np.isfinite(P).all():
            raise ShapeError(
                f"preconditioner must be finite numbers [input_dim, input_dim], {test.input_dim} each, got {P.shape}"
            )
        Lambda, S = np.asarray(moments.covariance), _teacher_moment(moments)
        fourth = np.asarray(moments.fourth_moment(jnp.asarray(S)))
        noise = test.output_dim * float(moments.noise_std) ** 2
    missed = np.eye(test.input_dim) - P.T @ Lambda
    squared_bias = float(np.trace(Lambda @ missed @ S @ missed.T))
    V = fourth - Lambda @ S @ Lambda + noise * Lambda
    variance = np.trace(P.T @ V @ P @ Lambda) / np.asarray(lengths, np.float64)
    return PreconditionedRisk(
        num_training_examples=N,
        num_examples=tuple(lengths),
        risk=squared_bias + variance,
        variance=variance,
        squared_bias=squared_bias,
        preconditioner=P,
    )


def _teacher_moment(moments: Moments) -> np.ndarray:
    """S = E[WᵀW] = n_y α² I + μᵀμ."""
    mean = np.broadcast_to(np.asarray(moments.teacher_mean, np.float64), (moments.output_dim, moments.input_dim))
    return moments.output_dim * float(moments.teacher_scale) ** 2 * np.eye(moments.input_dim) + mean.T @ mean
