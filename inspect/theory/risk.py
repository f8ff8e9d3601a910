"""The risk of one preconditioned step on prompts of other lengths."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ...train.tasks.regression import Task
from ...train.tuning.step_size import optimal_preconditioner
from ...zoo.checks.arguments import TASK, several
from ...zoo.checks.gate import COUNT, gate
from ...zoo.errors import NotApplicable, ShapeError, ZooError
from ...zoo.moments import Matrix
from ..instrument import OWN_TASK, register_instrument
from ..measurement import OnAxes
from .exact_losses import _teacher_moment
from .population_loss import exact_moments, in_float64

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class PreconditionedRisk(OnAxes):
    """The risk of one preconditioned step, ŷ = (1/M) Σᵢ yᵢ xᵢᵀ P x_query, on prompts of M examples: MSE, not halved.

    risk = squared_bias + variance. The bias is the part that no length M takes away.
    """

    num_training_examples: int  # N, for which P was made
    num_examples: tuple[int, ...]  # M
    risk: Float[np.ndarray, " num_lengths"]
    variance: Float[np.ndarray, " num_lengths"]
    squared_bias: float
    preconditioner: Float[np.ndarray, "input_dim input_dim"]  # P

    title = "risk of the best preconditioned step"

    @property
    def summary(self) -> str:
        return "Risk of the best preconditioned step against the length of the prompt: bias, variance and noise."

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"num_examples": length, "risk": risk, "squared_bias": self.squared_bias, "variance": variance}
            for length, risk, variance in zip(self.num_examples, self.risk, self.variance, strict=True)
        ]

    def draw(self, ax: "Axes", **options: Any) -> None:
        from .exact_losses_plot import risk_curve

        risk_curve(self, ax=ax, **options)

    @property
    def half_mse(self) -> Float[np.ndarray, " num_lengths"]:
        """½·MSE at each M, the loss of the papers."""
        return self.risk / 2


@register_instrument(
    "risk",
    title="Risk of the best one-layer step",
    question="One step through Γ⁻¹, the best a layer can learn on this task, against the length of the test prompt: "
    "squared bias and variance.",
    order=80,
)
@gate(test=TASK, num_examples=several(COUNT))
def risk(
    task: Task = OWN_TASK,
    *,
    num_examples: Sequence[int] | None = None,
    test: Task | None = None,
    preconditioner: Matrix | np.ndarray | None = None,
) -> PreconditionedRisk:
    """The risk, on prompts of M examples each, of the best preconditioned step for prompts of N examples.

        y − ŷ = x_queryᵀ(I − PᵀΛ)a − x_queryᵀPᵀ(ĝ − Λa),   ĝ = (1/M) Σᵢ yᵢ xᵢ
        squared bias = tr Λ(I − PᵀΛ)S(I − ΛP),   variance = (1/M) tr PᵀVP Λ,   V = M(S) − ΛSΛ + n_y σ²Λ

    with S = E[WᵀW] the second moment of the teacher and M(S) = E[x xᵀS x xᵀ]. P is the best for `task`, Γ⁻¹ where its inputs are
    Gaussian without noise (`optimal_preconditioner`), unless it is given; `test`, by default `task`, is where the risk is taken, so
    that any of its settings may shift. `num_examples` is 1, 2, 4 … and N, unless given. Zhang et al. 2024, Theorem 4.2.

    **Raises** `ZooError` where a task has no closed form, or test prompts hold distractors.
    """
    exact_moments(task)
    if test is None:
        test = task
    if exact_moments(test).num_distractors:
        raise NotApplicable(
            "the risk at other lengths is that of prompts without distractors; set num_distractors=0 in test"
        )
    if (test.input_dim, test.output_dim) != (task.input_dim, task.output_dim):
        raise ZooError("the prompts of test must have the input_dim and output_dim of task")
    N = task.num_examples
    lengths = sorted({N, *(2**k for k in range(13))}) if num_examples is None else list(num_examples)
    with jax.enable_x64(True):
        moments = in_float64(test).moments()
        best = optimal_preconditioner(in_float64(task)).preconditioner if preconditioner is None else preconditioner
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
