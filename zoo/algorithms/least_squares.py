"""The best linear predictor of a prompt, and the worst that is not silly."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..algorithm import Algorithm, Targets, register_algorithm
from ..checks.annotations import checked
from ..checks.gate import gated
from ..checks.numbers import PositiveNumber
from ..errors import NotApplicable
from ..minimise import GRADIENT_TOLERANCE, minimise
from ..moments import Moments
from ..prompt import Learner, Prompt
from ..storage.config import setting


@setting("ridge")
class Ridge(eqx.Module):
    """Ridge regression: Bayes-optimal for a teacher w ~ N(0, α²I) and label noise of variance σ², with ρ = σ²/α².

        Ŵ = argmin_W Σᵢ ‖W xᵢ − yᵢ‖² + ρ ‖W‖² = Yᵀ(XXᵀ + ρI)⁻¹X,   ŷ = Ŵ x_query

    ρ > 0; the limit ρ → 0 is `LeastSquares`. Hoerl and Kennard 1970; as a model of trained learners, Akyürek et al. 2023.
    """

    regularisation: Float[Array, ""]

    @checked
    def __init__(self, regularisation: PositiveNumber):
        self.regularisation = jnp.asarray(regularisation, jnp.result_type(float))

    @gated
    def __call__(self, prompt: Prompt) -> Float[Array, " output_dim"]:
        X, Y = prompt.xs, prompt.ys
        if prompt.num_examples <= prompt.input_dim:  # solve in the smaller of the two spaces
            gram = X @ X.T + self.regularisation * jnp.eye(prompt.num_examples, dtype=X.dtype)
            return Y.T @ jnp.linalg.solve(gram, X @ prompt.query)
        hessian = X.T @ X + self.regularisation * jnp.eye(prompt.input_dim, dtype=X.dtype)
        return Y.T @ X @ jnp.linalg.solve(hessian, prompt.query)


def bayes_regularisation(moments: Moments) -> float:
    """ρ = σ²/α², with which ridge regression is Bayes-optimal for W ~ N(0, α²) and Gaussian noise; 0 where there is no noise.

    **Raises** `NotApplicable` for other tasks.
    """
    if moments.num_distractors or np.any(np.asarray(moments.teacher_mean)) or not moments.teacher_scale:
        raise NotApplicable(
            "ridge regression is Bayes-optimal for teachers of mean 0 that are not all 0, without distractors"
        )
    return float(moments.noise_std**2 / moments.teacher_scale**2)


@gated
@jax.jit
def fitted_regularisation(
    prompts: Prompt,
    targets: Float[Array, "num_tasks output_dim"],
    gradient_tolerance: float | Float[Array, ""] = GRADIENT_TOLERANCE,
) -> Float[Array, ""]:
    """The ρ that minimises the half-MSE of ridge regression on labelled tasks.

        X = U S Vᵀ,   ŷ(ρ) = Σ_r (Yᵀu_r) s_r (v_rᵀx_query) / (s_r² + ρ)

    Not below the rounding of XXᵀ, where ridge regression is least squares. The singular value decompositions are made once: in the
    CPU backend of JAX 0.10 a batch of linear solves inside nested loops can lock up, so `Ridge` itself is not tuned.
    """
    U, S, Vt = jnp.linalg.svd(prompts.xs, full_matrices=False)
    parts = jnp.einsum("nir,nio,nr,nrd,nd->nro", U, prompts.ys, S, Vt, prompts.query)
    hessian = (S**2)[:, :, None]
    start = hessian.mean()

    def half_mse(theta: Float[Array, ""]) -> Float[Array, ""]:
        predictions = (parts / (hessian + start * jnp.exp(theta))).sum(axis=1)
        return ((predictions - targets) ** 2).sum(axis=1).mean() / 2

    theta, _ = minimise(half_mse, jnp.zeros_like(start), 50, gradient_tolerance)
    return start * jnp.maximum(jnp.exp(theta), 10 * jnp.finfo(start.dtype).eps)


@register_algorithm("ridge")
class RidgeRegression(Algorithm):
    """Ridge regression with ρ = σ²/α² where Bayes' rule gives it, else at its best; at ρ = 0 its limit, least squares."""

    special_cases = ("zero", "least-squares")

    def start(self, prompts: Prompt, targets: Targets) -> Learner:
        return self.fitted(prompts, targets, tolerance=GRADIENT_TOLERANCE)

    @property
    def has_closed_form(self) -> bool:
        return True

    def best(self, moments: Moments) -> Learner:
        rho = bayes_regularisation(moments)
        return Ridge(rho) if rho else LeastSquares()

    def fitted(self, prompts: Prompt, targets: Targets, *, tolerance: float) -> Learner:
        return Ridge(fitted_regularisation(prompts, targets, tolerance))


@register_algorithm("least-squares")
class LeastSquares(eqx.Module):
    """Least squares; of all weights that fit the examples equally well, the shortest.

        Ŵ = argmin_W Σᵢ ‖W xᵢ − yᵢ‖²,   ŷ = Ŵ x_query

    Penrose 1955; as a model of trained learners, Garg et al. 2022.
    """

    @gated
    def __call__(self, prompt: Prompt) -> Float[Array, " output_dim"]:
        weights, *_ = jnp.linalg.lstsq(prompt.xs, prompt.ys)
        return weights.T @ prompt.query


@register_algorithm("zero")
class ZeroPredictor(eqx.Module):
    """Predict 0, whatever the prompt: the loss a learner has before it has learned anything.

        ŷ = 0

    Garg et al. 2022.
    """

    @gated
    def __call__(self, prompt: Prompt) -> Float[Array, " output_dim"]:
        return jnp.zeros(prompt.output_dim, prompt.ys.dtype)
