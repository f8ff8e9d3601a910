"""Predictions that average the labels of the examples near the query, with no model of the function."""

from collections.abc import Sequence
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..algorithm import Algorithm, Targets, average, register_algorithm
from ..checks.annotations import Size, checked
from ..checks.gate import gated
from ..checks.numbers import Number
from ..checks.values import Scalar
from ..errors import ShapeError
from ..prompt import Learner, Prompt
from ..storage.config import setting

Weights = Float[Array, " num_examples"]


@setting("k_nearest_neighbours")
class KNearestNeighbours(eqx.Module):
    """The mean label of the `num_neighbours` examples nearest to the query; of two equally near, the earlier one counts.

        ŷ = (1/k) Σ_{i ∈ N_k} yᵢ,   N_k the k examples of least ‖xᵢ − x_query‖₂

    With k = 1 the limit of `NadarayaWatson` as h → 0. A baseline of Garg et al. 2022.
    """

    num_neighbours: int = eqx.field(static=True)

    @checked
    def __init__(self, num_neighbours: Size):
        self.num_neighbours = num_neighbours

    @gated
    def __call__(self, prompt: Prompt) -> Float[Array, " output_dim"]:
        """**Raises** `ShapeError` if the prompt has fewer than `num_neighbours` examples."""
        if self.num_neighbours > prompt.num_examples:
            raise ShapeError(
                f"the mean of {self.num_neighbours} neighbours needs as many examples, but the prompt has {prompt.num_examples}"
            )
        _, nearest = jax.lax.top_k(-squared_distances(prompt), self.num_neighbours)
        return prompt.ys[nearest].mean(axis=0)


@setting("nadaraya_watson")
class NadarayaWatson(eqx.Module):
    """Kernel smoothing with a Gaussian kernel of width `bandwidth` = h > 0.

        ŷ = Σᵢ yᵢ K(xᵢ, x_query) / Σᵢ K(xᵢ, x_query),   K(x, x′) = exp(−‖x − x′‖² / 2h²)

    The label of the nearest example as h → 0, the mean label as h → ∞; neither limit overflows. Nadaraya 1964; Watson 1964.
    """

    bandwidth: Float[Array, ""]

    @checked
    def __init__(self, bandwidth: Annotated[Number, Scalar(above=0, infinite=True)]):
        with np.errstate(over="ignore"):  # infinite in single precision
            self.bandwidth = jnp.asarray(bandwidth, jnp.result_type(float))

    @gated
    def weights(self, prompt: Prompt) -> Weights:
        """The share of each example in the prediction."""
        distances = squared_distances(prompt)
        # The nearest example gets exactly 0 whatever h is; h² is never formed, for it may underflow.
        return jax.nn.softmax((distances.min() - distances) / self.bandwidth / self.bandwidth / 2)

    @gated
    def __call__(self, prompt: Prompt) -> Float[Array, " output_dim"]:
        return self.weights(prompt) @ prompt.ys


@setting("softmax_smoother")
class SoftmaxSmoother(eqx.Module):
    """Kernel smoothing with the exponential of an inner product: what one softmax attention head with identity weights computes.

        ŷ = Σᵢ yᵢ softmaxᵢ(c xᵢᵀ x_query)

    As the inverse temperature c → ∞ it gives the label of the largest inner product. That is the nearest neighbour only where all
    ‖xᵢ‖ are equal; then it is `NadarayaWatson` with h = c^(−1/2) at every c, because ‖xᵢ − x‖² = ‖xᵢ‖² + ‖x‖² − 2 xᵢᵀx.
    """

    inverse_temperature: Float[Array, ""]

    @checked
    def __init__(self, inverse_temperature: Annotated[Number, Scalar(least=0)]):
        self.inverse_temperature = jnp.asarray(inverse_temperature, jnp.result_type(float))

    @gated
    def weights(self, prompt: Prompt) -> Weights:
        """The share of each example in the prediction."""
        scores = prompt.xs @ prompt.query
        return jax.nn.softmax(self.inverse_temperature * (scores - scores.max()))

    @gated
    def __call__(self, prompt: Prompt) -> Float[Array, " output_dim"]:
        return self.weights(prompt) @ prompt.ys


@gated
def squared_distances(prompt: Prompt) -> Weights:
    """‖xᵢ − x_query‖² of each example."""
    return ((prompt.xs - prompt.query[None]) ** 2).sum(axis=1)


@register_algorithm("knn-K")
class Nearest(Algorithm):
    """The mean label of the K nearest neighbours."""

    def start(self, prompts: Prompt, targets: Targets) -> Learner:
        return KNearestNeighbours(self.number)

    @classmethod
    def numbers(cls, depth: int) -> Sequence[int]:
        return (1, 3)


@register_algorithm("nadaraya-watson")
class BestBandwidth(Algorithm):
    """Smoothing with a Gaussian kernel of the best width."""

    special_cases = ("knn-1",)

    def start(self, prompts: Prompt, targets: Targets) -> Learner:
        return NadarayaWatson(
            jnp.sqrt(average(lambda prompt: squared_distances(prompt).mean() / prompt.input_dim, prompts))
        )


@register_algorithm("softmax-smoother")
class BestTemperature(Algorithm):
    """Softmax over inner products at the best inverse temperature."""

    def start(self, prompts: Prompt, targets: Targets) -> Learner:
        return SoftmaxSmoother(1 / average(lambda prompt: jnp.abs(prompt.xs @ prompt.query).mean(), prompts))
