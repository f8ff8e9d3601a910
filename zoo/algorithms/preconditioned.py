"""Gradient descent through a fixed matrix instead of a step size."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..algorithm import Algorithm, Targets, register_algorithm
from ..checks.annotations import Steps, checked
from ..checks.gate import gated
from ..checks.values import Reals
from ..errors import ConfigError, ShapeError
from ..minimise import GRADIENT_TOLERANCE
from ..moments import Moments
from ..prompt import Learner, Prompt
from ..storage.config import setting
from .one_step import best_preconditioner, fitted_preconditioner

Preconditioner = Float[Array, "input_dim input_dim"] | Float[Array, "num_steps input_dim input_dim"]


@setting("preconditioned_gradient_descent")
class PreconditionedGradientDescent(eqx.Module):
    """`num_steps` steps of preconditioned gradient descent on L(W) = 1/(2N) Σᵢ ‖W xᵢ − yᵢ‖², from zero.

        W ← W − (1/N) Σᵢ (W xᵢ − yᵢ) xᵢᵀ P_k,   ŷ = W x_query

    `preconditioner` is one P for every step, or one for each. One step is ŷ = (1/N) Σᵢ yᵢ xᵢᵀ P x_query; with P = Γ⁻¹ it is the
    best there is on average (`optimal_preconditioner` in `train/tuning/step_size.py`), and with P = ηI gradient descent.
    Ahn et al. 2023; Zhang et al. 2024.
    """

    preconditioner: Preconditioner
    num_steps: int = eqx.field(static=True)

    @checked
    def __init__(self, preconditioner, *, num_steps: Steps = 1):
        wanted = f"one square matrix or {num_steps} (one a step)"
        P = Reals(wanted, axes=(2, 3), empty=num_steps == 0)("preconditioner", preconditioner)
        if P.shape[-2] != P.shape[-1] or P.shape[:-2] not in ((), (num_steps,)):
            raise ConfigError(f"preconditioner must be {wanted}, got shape {P.shape}")
        self.preconditioner, self.num_steps = P.astype(jnp.result_type(float)), num_steps

    @property
    def input_dim(self) -> int:
        return self.preconditioner.shape[-1]

    @gated
    def weights(self, prompt: Prompt) -> Float[Array, "output_dim input_dim"]:
        """W after the last step. **Raises** `ShapeError` if the preconditioner is not of the prompt's dimensions."""
        if self.preconditioner.shape[-1] != prompt.input_dim:
            raise ShapeError(
                f"the preconditioner has {self.preconditioner.shape[-1]} rows, but the prompt has input_dim {prompt.input_dim}"
            )
        W = jnp.zeros((prompt.output_dim, prompt.input_dim), prompt.xs.dtype)
        for P in jnp.broadcast_to(self.preconditioner, (self.num_steps, *self.preconditioner.shape[-2:])):
            residuals = prompt.xs @ W.T - prompt.ys
            W = W - residuals.T @ prompt.xs @ P / prompt.num_examples
        return W

    @gated
    def __call__(self, prompt: Prompt) -> Float[Array, " output_dim"]:
        return self.weights(prompt) @ prompt.query


@register_algorithm("preconditioned-gd")
class OnePreconditionedStep(Algorithm):
    """One step of gradient descent through the best matrix."""

    special_cases = ("zero", "gd-1")

    def start(self, prompts: Prompt, targets: Targets) -> Learner:
        return self.fitted(prompts, targets, tolerance=GRADIENT_TOLERANCE)

    @property
    def has_closed_form(self) -> bool:
        return True

    def best(self, moments: Moments) -> Learner:
        return PreconditionedGradientDescent(best_preconditioner(moments).preconditioner)

    def fitted(self, prompts: Prompt, targets: Targets, *, tolerance: float) -> Learner:
        return PreconditionedGradientDescent(fitted_preconditioner(prompts, targets))
