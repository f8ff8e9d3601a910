"""The best linear predictor of a prompt, and the worst that is not silly."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..checked import PositiveNumber, checked
from ..gate import gated
from ..prompt import Prompt


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


class LeastSquares(eqx.Module):
    """Least squares; of all weights that fit the examples equally well, the shortest.

        Ŵ = argmin_W Σᵢ ‖W xᵢ − yᵢ‖²,   ŷ = Ŵ x_query

    Penrose 1955; as a model of trained learners, Garg et al. 2022.
    """

    @gated
    def __call__(self, prompt: Prompt) -> Float[Array, " output_dim"]:
        weights, *_ = jnp.linalg.lstsq(prompt.xs, prompt.ys)
        return weights.T @ prompt.query


class Zero(eqx.Module):
    """Predict 0, whatever the prompt: the loss a learner has before it has learned anything.

        ŷ = 0

    Garg et al. 2022.
    """

    @gated
    def __call__(self, prompt: Prompt) -> Float[Array, " output_dim"]:
        return jnp.zeros(prompt.output_dim, prompt.ys.dtype)
