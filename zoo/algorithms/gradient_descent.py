"""Gradient descent on the examples of a prompt, and its curvature-corrected form."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..frozen import Frozen
from ..gate import checked
from ..prompt import Prompt

StepSize = Float[Array, ""] | Float[Array, " num_steps"]


class GradientDescent(eqx.Module):
    """`num_steps` steps of gradient descent on L(W) = 1/(2N) Σᵢ ‖W xᵢ − yᵢ‖², from W₀ (zero unless given).

        W ← W − (η_k/N) Σᵢ (W xᵢ − yᵢ) xᵢᵀ,   ŷ = W x_query

    `step_size` is one η for every step, or one for each. One step from zero, ŷ = (η/N) Σᵢ yᵢ xᵢᵀ x_query, is the averaging
    estimator of Garg et al. 2022. von Oswald et al. 2023, section 2.
    """

    step_size: StepSize
    W_0: Frozen | None
    num_steps: int = eqx.field(static=True)

    def __init__(self, step_size, *, num_steps: int = 1, W_0: Float[Array, "output_dim input_dim"] | None = None):
        self.step_size = per_step("step_size", step_size, num_steps)
        self.num_steps, self.W_0 = num_steps, None if W_0 is None else Frozen(W_0)

    @property
    def input_dim(self) -> int | None:
        """The number of inputs that W₀ reads; any, where it is zero."""
        return None if self.W_0 is None else self.W_0.value.shape[-1]

    @checked
    def weights(self, prompt: Prompt) -> Float[Array, "output_dim input_dim"]:
        """W after the last step."""
        W = jnp.zeros((prompt.output_dim, prompt.input_dim), prompt.xs.dtype) if self.W_0 is None else self.W_0.value
        for eta in jnp.broadcast_to(self.step_size, (self.num_steps,)):
            residuals = prompt.xs @ W.T - prompt.ys
            W = W - eta / prompt.num_examples * residuals.T @ prompt.xs
        return W

    @checked
    def __call__(self, prompt: Prompt) -> Float[Array, " output_dim"]:
        return self.weights(prompt) @ prompt.query


def averaging(step_size=1.0) -> GradientDescent:
    """Averaging, which is one step of gradient descent from zero: the weights are the mean of yᵢ xᵢᵀ, times η.

        ŷ = η (1/N) Σᵢ yᵢ xᵢᵀ x_query

    For inputs of identity covariance η = 1 makes the weights unbiased. A baseline of Garg et al. 2022.
    """
    return GradientDescent(step_size)


class GradientDescentPlusPlus(eqx.Module):
    """`num_steps` steps of GD++: gradient descent from zero on inputs that are transformed after every step.

        ΔW = (η_k/N) Σᵢ yᵢ xᵢᵀ,   ŷ ← ŷ + ΔW x_query,   yⱼ ← yⱼ − ΔW xⱼ,   xⱼ ← (I − γ_k Σᵢ xᵢ xᵢᵀ) xⱼ

    `step_size` and `gamma` are one number for every step, or one for each. von Oswald et al. 2023, appendix A.10.
    """

    step_size: StepSize
    gamma: StepSize
    num_steps: int = eqx.field(static=True)

    def __init__(self, step_size, gamma, *, num_steps: int = 1):
        self.step_size = per_step("step_size", step_size, num_steps)
        self.gamma = per_step("gamma", gamma, num_steps)
        self.num_steps = num_steps

    @checked
    def __call__(self, prompt: Prompt) -> Float[Array, " output_dim"]:
        X, Y, x_query = prompt.xs, prompt.ys, prompt.query
        prediction = jnp.zeros(prompt.output_dim, X.dtype)
        etas = jnp.broadcast_to(self.step_size, (self.num_steps,))
        gammas = jnp.broadcast_to(self.gamma, (self.num_steps,))
        for eta, gamma in zip(etas, gammas, strict=True):
            delta_W = eta / prompt.num_examples * Y.T @ X
            hessian = X.T @ X
            prediction = prediction + delta_W @ x_query
            Y = Y - X @ delta_W.T
            X, x_query = X - gamma * X @ hessian, x_query - gamma * hessian @ x_query
        return prediction


def per_step(name: str, value, num_steps: int) -> StepSize:
    """A number for every step or one for each. **Raises** `ValueError` for any other shape."""
    value = jnp.asarray(value, jnp.result_type(float))
    if value.shape not in ((), (num_steps,)):
        raise ValueError(f"{name} must be one number or {num_steps} (one a step), got shape {value.shape}")
    return value
