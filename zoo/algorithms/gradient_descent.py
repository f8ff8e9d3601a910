"""Gradient descent on the examples of a prompt, and its curvature-corrected form."""

from typing import Annotated

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..checked import Steps, checked
from ..checks import OrNone, Reals
from ..errors import ConfigError, ShapeError
from ..frozen import Frozen
from ..gate import gated
from ..prompt import Prompt

StepSize = Float[Array, ""] | Float[Array, " num_steps"]
Weights = Float[Array, "output_dim input_dim"]
InitialWeights = Annotated[Weights | None, OrNone(Reals("a matrix [output_dim, input_dim]", axes=(2,)))]


class GradientDescent(eqx.Module):
    """`num_steps` steps of gradient descent on L(W) = 1/(2N) Σᵢ ‖W xᵢ − yᵢ‖², from W₀ (zero unless given).

        W ← W − (η_k/N) Σᵢ (W xᵢ − yᵢ) xᵢᵀ,   ŷ = W x_query

    `step_size` is one η for every step, or one for each. One step from zero, ŷ = (η/N) Σᵢ yᵢ xᵢᵀ x_query, is the averaging
    estimator of Garg et al. 2022. von Oswald et al. 2023, section 2.
    """

    step_size: StepSize
    W_0: Frozen | None
    num_steps: int = eqx.field(static=True)

    @checked
    def __init__(self, step_size, *, num_steps: Steps = 1, W_0: InitialWeights = None):
        self.step_size = per_step("step_size", step_size, num_steps)
        self.num_steps, self.W_0 = num_steps, None if W_0 is None else Frozen(W_0)

    @gated
    def weights(self, prompt: Prompt) -> Weights:
        """W after the last step. **Raises** `ShapeError` if W₀ is not of the prompt's dimensions."""
        shape = (prompt.output_dim, prompt.input_dim)
        W = jnp.zeros(shape, prompt.xs.dtype) if self.W_0 is None else self.W_0.value
        if W.shape != shape:
            raise ShapeError(f"W_0 is {list(W.shape)}, but the prompt has [output_dim, input_dim] = {list(shape)}")
        return descended(W, jnp.broadcast_to(self.step_size, (self.num_steps,)), prompt)

    @gated
    def __call__(self, prompt: Prompt) -> Float[Array, " output_dim"]:
        return self.weights(prompt) @ prompt.query


def descended(W: Weights, step_sizes: Float[Array, " num_steps"], prompt: Prompt) -> Weights:
    """W after a step of gradient descent for each of `step_sizes`."""
    for eta in step_sizes:
        residuals = prompt.xs @ W.T - prompt.ys
        W = W - eta / prompt.num_examples * residuals.T @ prompt.xs
    return W


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

    @checked
    def __init__(self, step_size, gamma, *, num_steps: Steps = 1):
        self.step_size = per_step("step_size", step_size, num_steps)
        self.gamma = per_step("gamma", gamma, num_steps)
        self.num_steps = num_steps

    @gated
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
    """A number for every step or one for each. **Raises** `ConfigError` for any other shape, and for what is not finite."""
    wanted = f"one number or {num_steps} (one a step)"
    numbers = Reals(wanted, axes=(0, 1), empty=num_steps == 0)(name, value)
    if numbers.shape not in ((), (num_steps,)):
        raise ConfigError(f"{name} must be {wanted}, got shape {numbers.shape}")
    return numbers.astype(jnp.result_type(float))
