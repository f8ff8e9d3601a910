"""Gradient descent on the examples of a prompt, and its curvature-corrected form."""

from collections.abc import Sequence
from typing import Annotated, Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..algorithm import FEW, Algorithm, Targets, average, register_algorithm
from ..checks.annotations import Steps, checked
from ..checks.gate import gated
from ..checks.values import OrNone, Reals
from ..errors import ConfigError, ShapeError
from ..frozen import Frozen
from ..moments import Moments
from ..prompt import Learner, Prompt
from ..spectrum import Spectrum
from ..storage.config import setting
from .one_step import best_step_size, fitted_step_size

StepSize = Float[Array, ""] | Float[Array, " num_steps"]
Weights = Float[Array, "output_dim input_dim"]
InitialWeights = Annotated[Weights | None, OrNone(Reals("a matrix [output_dim, input_dim]", axes=(2,)))]


@setting("gradient_descent")
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

    def from_spectrum(self, spectrum: Spectrum) -> Float[Array, " output_dim"]:
        """The prediction from W₀ = 0, for a prompt in its singular basis."""
        return _spectral_steps(self.step_size, jnp.zeros(()), self.num_steps, spectrum)


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


@setting("gradient_descent_plus_plus")
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

    def from_spectrum(self, spectrum: Spectrum) -> Float[Array, " output_dim"]:
        """The prediction for a prompt in its singular basis."""
        return _spectral_steps(self.step_size, self.gamma, self.num_steps, spectrum)


def _spectral_steps(
    step_size: StepSize, gamma: StepSize, num_steps: int, spectrum: Spectrum
) -> Float[Array, " output_dim"]:
    """Steps in the singular basis of a prompt, which they never leave.

    ŷ ← ŷ + (η_k/N) Σ_r y_r s_r q_r,   y_r ← (1 − (η_k/N) s_r²) y_r,   (s_r, q_r) ← (1 − γ_k s_r²) (s_r, q_r)
    """
    s, ys, q = spectrum.singular_values, spectrum.ys, spectrum.query
    etas = jnp.broadcast_to(step_size, (num_steps,)) / spectrum.num_examples
    prediction = jnp.zeros(ys.shape[1], ys.dtype)
    for eta, g in zip(etas, jnp.broadcast_to(gamma, (num_steps,)), strict=True):
        prediction = prediction + eta * (s * q) @ ys
        ys = (1 - eta * s**2)[:, None] * ys
        s, q = (1 - g * s**2) * s, (1 - g * s**2) * q
    return prediction


@register_algorithm("gd-K")
class OneStepSize(Algorithm):
    """K steps of gradient descent with one η."""

    special_cases = ("zero", "gd-K")

    def shape(self) -> tuple[int, ...]:
        return ()

    def start(self, prompts: Prompt, targets: Targets) -> Learner:
        step_size = fitted_step_size(prompts, targets)
        return GradientDescent(jnp.broadcast_to(step_size, self.shape()), num_steps=self.number)

    @property
    def has_closed_form(self) -> bool:
        return self.number == 1

    def best(self, moments: Moments) -> Learner:
        return GradientDescent(best_step_size(moments).step_size) if self.number == 1 else super().best(moments)

    def fitted(self, prompts: Prompt, targets: Targets, *, tolerance: float) -> Learner:
        if self.number > 1:
            return super().fitted(prompts, targets, tolerance=tolerance)
        return GradientDescent(fitted_step_size(prompts, targets))


@register_algorithm("averaging")
class Averaging(OneStepSize):
    """gd-1 by its other name."""

    special_cases = ()

    @classmethod
    def numbers(cls, depth: int) -> Sequence[int]:
        return ()


@register_algorithm("gd-K-free")
class StepSizeForEachStep(OneStepSize):
    """K steps of gradient descent, each with an η of its own."""

    special_cases = ("zero", "gd-K", "gd-K-free")
    fewer_steps = True

    def shape(self) -> tuple[int, ...]:
        return (self.number,)

    @classmethod
    def numbers(cls, depth: int) -> Sequence[int]:
        return (depth,) if depth > 1 else ()


@register_algorithm("gd++-K")
class PlusPlus(Algorithm):
    """K steps of GD++ with one η and one γ."""

    special_cases = ("zero", "gd-K")

    def shape(self) -> tuple[int, ...]:
        return ()

    def start(self, prompts: Prompt, targets: Targets) -> Learner:
        # 1/(3 λ_max) of the Hessian Σᵢ xᵢxᵢᵀ, on average: the largest γ that keeps the order of its eigenvalues.
        gamma = 1 / (3 * average(lambda prompt: jnp.linalg.norm(prompt.xs, ord=2) ** 2, prompts))
        numbers = (jnp.broadcast_to(number, self.shape()) for number in (fitted_step_size(prompts, targets), gamma))
        return GradientDescentPlusPlus(*numbers, num_steps=self.number)

    def parameters(self, learner: Any) -> dict[str, Any]:
        """The last γ enters no prediction."""
        found = super().parameters(learner)
        return found | {"gamma": found["gamma"] if self.number > 1 else None}

    @classmethod
    def numbers(cls, depth: int) -> Sequence[int]:
        return range(2, depth + 1)


@register_algorithm("gd++-K-free")
class PlusPlusForEachStep(PlusPlus):
    """K steps of GD++, each with an η and a γ of its own."""

    special_cases = ("zero", "gd-K", "gd-K-free", "gd++-K", "gd++-K-free")
    fewer_steps = True

    def shape(self) -> tuple[int, ...]:
        return (self.number,)

    def start(self, prompts: Prompt, targets: Targets) -> Learner:
        """The Chebyshev ladder η_k/N = γ_k = (4/3s)·9^(k−1): K steps leave |T_n(u)|/(n u) of a target, n = 3^K, u = √(λ/s), on (0, s]."""
        few = prompts.xs[:FEW]
        largest = jnp.linalg.norm(few, ord=2, axis=(1, 2)) ** 2
        rates = (
            4
            / (3 * jnp.quantile(largest, 1 - 10.0**-self.number))
            * 9.0 ** jnp.arange(self.number, dtype=largest.dtype)
        )
        return GradientDescentPlusPlus(rates * few.shape[1], rates, num_steps=self.number)

    def settled(self, learner: Any) -> Learner:
        """The last γ is left at what it does not do."""
        return GradientDescentPlusPlus(learner.step_size, learner.gamma.at[-1].set(0.0), num_steps=self.number)

    def parameters(self, learner: Any) -> dict[str, Any]:
        found = Algorithm.parameters(self, learner)
        return found | {"gamma": [*found["gamma"][:-1], None]}

    @classmethod
    def numbers(cls, depth: int) -> Sequence[int]:
        return (depth,) if depth > 1 else ()


def per_step(name: str, value, num_steps: int) -> StepSize:
    """A number for every step or one for each. **Raises** `ConfigError` for any other shape, and for what is not finite."""
    wanted = f"one number or {num_steps} (one a step)"
    numbers = Reals(wanted, axes=(0, 1), empty=num_steps == 0)(name, value)
    if numbers.shape not in ((), (num_steps,)):
        raise ConfigError(f"{name} must be {wanted}, got shape {numbers.shape}")
    return numbers.astype(jnp.result_type(float))
