"""Gradient descent on a linear read-out of a learner's own features."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..algorithm import Algorithm, Targets, register_algorithm
from ..checks.gate import gated
from ..errors import NotApplicable
from ..prompt import Prompt
from .gradient_descent import GradientDescent
from .one_step import fitted_step_size


class KernelGradientDescent(eqx.Module):
    """One step of gradient descent on a linear read-out of the features m of a model that has them.

        ŷ = W₀ m(x_query) − (η/N) Σᵢ (W₀ m(xᵢ) − yᵢ) k(xᵢ, x_query),   k(x, x') = m(x)ᵀ m(x')

    von Oswald et al. 2023, Proposition 2.
    """

    features: Callable[[Float[Array, " input_dim"]], Float[Array, " feature_dim"]]
    W_0: Float[Array, "output_dim feature_dim"] | None
    step_size: Float[Array, ""]

    @gated
    def mapped(self, prompt: Prompt) -> Prompt:
        """The prompt with features in place of inputs."""
        return Prompt(xs=jax.vmap(self.features)(prompt.xs), ys=prompt.ys, query=self.features(prompt.query))

    @gated
    def __call__(self, prompt: Prompt) -> Float[Array, " output_dim"]:
        return GradientDescent(self.step_size, W_0=self.W_0)(self.mapped(prompt))


@register_algorithm("kernel-gd")
class KernelStep(Algorithm):
    """One step of gradient descent on the learner's own features: `features(x)` of the learner, and its `W_0` if it has one."""

    special_cases = ("zero",)

    def __init__(self, number: int = 1, learner: Any = None):
        super().__init__(number)
        self.learner = learner

    def beside(self, learner: Any) -> Algorithm:
        if not callable(getattr(learner, "features", None)):
            raise NotApplicable(
                f"{self.name} needs the features of the learner, and {type(learner).__name__} has none that are known"
            )
        return KernelStep(self.number, learner)

    def start(self, prompts: Prompt, targets: Targets) -> Any:
        raise NotApplicable(f"{self.name} is an algorithm beside a learner, whose features it takes")

    def fitted(self, prompts: Prompt, targets: Targets, *, tolerance: float) -> Any:
        """With W₀ given, ŷ − W₀ m(x_query) is one step from zero on the labels that W₀ leaves, and η has a closed form."""
        if self.learner is None:
            return self.start(prompts, targets)
        W_0 = getattr(self.learner, "W_0", None)
        step = KernelGradientDescent(self.learner.features, W_0, jnp.zeros(()))

        def left(prompt: Prompt) -> Prompt:
            mapped = step.mapped(prompt)
            return mapped if W_0 is None else Prompt(mapped.xs, mapped.ys - mapped.xs @ W_0.T, mapped.query)

        mapped = jax.vmap(left)(prompts)
        if W_0 is not None:
            targets = targets - mapped.query @ W_0.T
        return eqx.tree_at(lambda a: a.step_size, step, fitted_step_size(mapped, targets))

    def parameters(self, learner: Any) -> dict[str, float]:
        return {"step_size": float(learner.step_size)}
