"""The exact loss of one layer of linear attention on linear regression, from the moments of the inputs, without sampling.

With G = Σᵢ eᵢ eᵢᵀ over the examples, B_h the y rows of W_PV,h and A_h the columns of W_KQ,h that the query meets, a layer predicts

    ŷ = W₀ x_query − Σ_h B_h G A_h x_query,   so   ½·MSE = ½ E tr ZΛZᵀ,   Z = W − W₀ + Σ_h B_h G A_h

G is of second degree in the inputs, the teacher and the noise. Averaging over the teacher and the noise first leaves moments of the
inputs up to the fourth: Λ = E[x xᵀ] and M(A) = E[x xᵀ A x xᵀ].
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...train.tasks.regression import Task
from ...zoo.checks.arguments import several
from ...zoo.checks.gate import COUNT, gate, gated
from ...zoo.checks.numbers import Number
from ...zoo.errors import NotApplicable, ZooError
from ...zoo.layers.attention import Product
from ...zoo.moments import Matrix, Moments
from ...zoo.token_model import ConcatenatingModel
from ..weights.weight_products import attention_layers

Scalar = Float[Array, ""]
Form = Float[Array, "embed_dim embed_dim"]
Cross = Float[Array, "input_dim output_dim"]
Square = Float[Array, "output_dim output_dim"]
Forms = Float[Array, "output_dim input_dim embed_dim embed_dim"]
QueryStart = Float[Array, "output_dim input_dim"]


class ProductGradient(NamedTuple):
    """The gradient of the population loss by the two products of a layer, head by head."""

    W_KQ: Float[np.ndarray, "num_heads embed_dim embed_dim"]
    W_PV: Float[np.ndarray, "num_heads embed_dim embed_dim"]


@gated
def population_loss(model: Any, task: Task) -> float:
    """½·MSE of a model of one linear attention layer over all tasks of a distribution, exact, in float64.

    Any W_KQ and W_PV, any number of heads and outputs, any W₀; independent inputs of any mean, a Gaussian teacher of any mean, label
    noise, distractors. NaN where the weights are.

    **Raises** `ZooError` for another model or another task, saying why. Ahn et al. 2023 and Zhang et al. 2024 work with special cases.
    """
    check_one_layer(model, task)
    with jax.enable_x64(True):
        return float(_population_loss(*in_float64((model, task))))


@gate(num_examples=several(COUNT))
def population_loss_by_length(model: Any, task: Task, num_examples: Sequence[int]) -> Float[np.ndarray, " num_lengths"]:
    """`population_loss` on prompts of each of these lengths, in one program. **Raises** `ZooError` like `population_loss`."""
    check_one_layer(model, task)
    if min(num_examples) < (least := task.moments().num_distractors):
        raise ZooError(f"num_examples must be lengths of at least num_distractors = {least}, got {num_examples}")
    with jax.enable_x64(True):
        model, settings, lengths = in_float64((model, task, np.array(num_examples)))
        return np.asarray(_by_length(model, settings, lengths))


@gated
def population_loss_gradient(model: Any, task: Task) -> ProductGradient:
    """The gradient of `population_loss` by W_KQ and W_PV, exact, in float64. **Raises** `ZooError` like `population_loss`."""
    check_one_layer(model, task)
    with jax.enable_x64(True):
        return ProductGradient(*map(np.asarray, _gradient(*in_float64((model, task)))))


@gated
def one_layer(model: ConcatenatingModel) -> tuple[Product, Product, QueryStart]:
    """W_KQ, W_PV and W₀ of a model of one linear attention layer, so that JAX can differentiate by its parameters."""
    (layer,), damping = attention_layers(model).values(), model.update_scale
    if damping is None:
        raise NotApplicable(f"{type(model).__name__} does more to its tokens than to add an update")
    W_0 = model.initial_weights
    if W_0 is None:
        W_0 = jnp.zeros((model.output_dim, model.input_dim), layer.W_KQ.dtype)
    return layer.W_KQ, damping * layer.W_PV, W_0


@gate(num_examples=None)
def exact_half_mse(
    W_KQ: Product, W_PV: Product, W_0: QueryStart, task: Task, num_examples: Number | None = None
) -> Scalar:
    """`population_loss` as a function JAX can differentiate: of the products, W₀ and the settings of a task.

    `num_examples` is that of `task` unless given.

    With W = μ + αV and L = [[I, 0], [μ, I]], entry (o, c) of Z is αV_oc + (μ − W₀)_oc + q_oc, where q_oc = Σᵢ eᵢᵀ M_oc eᵢ,

        M_oc = sym Σ_h B_h[o, :]ᵀ A_h[:, c]ᵀ,   and LᵀM_ocL in its place for examples (x, αVx + ε) whose labels follow the teacher

    The loss is ½ Σ_oc E[Z_oc Z̃_oc] with Z̃ = ZΛ, and E[q q̃] = E[q]E[q̃] + Σᵢ Cov(qᵢ, q̃ᵢ) + Σ_{i≠j} Cov(qᵢ, q̃ⱼ).
    """
    moments = exact_moments(task)
    d, covariance, scale = moments.input_dim, moments.covariance, moments.teacher_scale
    mean = jnp.broadcast_to(jnp.asarray(moments.teacher_mean, covariance.dtype), W_0.shape)
    met = W_KQ[:, :, :d] - jnp.einsum("hak,kc->hac", W_KQ[:, :, d:], W_0)  # A_h
    forms = jnp.einsum("hoa,hbc->ocab", W_PV[:, d:], met)
    forms = (forms + forms.mT) / 2
    shift = jnp.eye(W_KQ.shape[-1], dtype=covariance.dtype).at[d:, :d].set(mean)
    followers = (moments.num_examples if num_examples is None else num_examples) - moments.num_distractors
    of_labels = partial(_Labels, covariance, moments.fourth_moment)
    kinds = [(followers, shift.T @ forms @ shift, of_labels(scale, moments.noise_std))]
    if moments.num_distractors:
        kinds.append((moments.num_distractors, forms, of_labels(0.0, 1.0)))
    expected = mean - W_0
    squares = scale**2 * moments.output_dim * jnp.trace(covariance)
    for num, M, labels in kinds:
        M_tilde = jnp.einsum("ce,oeab->ocab", covariance, M)
        over_entries = partial(_over_entries, M, M_tilde)
        expected = expected + num * jax.vmap(jax.vmap(labels.mean))(M)
        squares += num * over_entries(labels.covariance_of_one)
        squares += num * (num - 1) * over_entries(labels.covariance_of_two)
        squares += 4 * num * labels.scale**2 * jnp.einsum("cb,ocbo->", covariance, M_tilde[:, :, :d, d:])  # with αV
    return (squares + (expected @ covariance * expected).sum()) / 2


class _Labels(NamedTuple):
    """Moments of q = eᵀMe for examples e = (x, αVx + ε), V of independent N(0, 1) entries, ε ~ N(0, σ²I); M = [[C, B], [Bᵀ, K]]."""

    Lambda: Matrix
    fourth_moment: Callable[[Matrix], Matrix]
    scale: Number  # α
    noise_std: Number  # σ

    def mean(self, M: Form) -> Scalar:
        """E[q] = tr CΛ + (α² tr Λ + σ²) tr K."""
        C, _, K = self._blocks(M)
        return (C * self.Lambda).sum() + (self.scale**2 * jnp.trace(self.Lambda) + self.noise_std**2) * jnp.trace(K)

    def covariance_of_two(self, M: Form, M_tilde: Form) -> Scalar:
        """Cov(qᵢ, q̃ⱼ) = 4α² tr BᵀΛ²B̃ + 2α⁴ tr Λ² tr KK̃: what two examples share through the teacher."""
        (_, B, K), (_, B_tilde, K_tilde), a2 = self._blocks(M), self._blocks(M_tilde), self.scale**2
        both_B, both_K = ((self.Lambda @ B) * (self.Lambda @ B_tilde)).sum(), (K * K_tilde).sum()
        return 4 * a2 * both_B + 2 * a2**2 * (self.Lambda**2).sum() * both_K

    def covariance_of_one(self, M: Form, M_tilde: Form) -> Scalar:
        """Cov(qᵢ, q̃ᵢ), from E[qq̃] averaged over V and ε first: with τ = tr K, κ = ττ̃ + 2 tr KK̃ and M₁ = M(I), E[qq̃] is the sum of

        tr C̃M(C) + α²(τ tr C̃M₁ + τ̃ tr CM₁) + 4α² tr B̃ᵀM₁B + α⁴κ tr M₁          and, from the noise,
        σ²(τ̃ tr CΛ + τ tr C̃Λ + 2α²ττ̃ tr Λ) + 4σ²(tr BᵀΛB̃ + α² tr KK̃ tr Λ) + σ⁴κ
        """
        (C, B, K), (C_t, B_t, K_t) = self._blocks(M), self._blocks(M_tilde)
        a2, s2, Lambda, trace = self.scale**2, self.noise_std**2, self.Lambda, jnp.trace(self.Lambda)
        M_1 = self.fourth_moment(jnp.eye(len(Lambda), dtype=Lambda.dtype))
        tau, tau_t, both_K = jnp.trace(K), jnp.trace(K_t), (K * K_t).sum()
        kappa = tau * tau_t + 2 * both_K
        clean = (C_t * self.fourth_moment(C)).sum() + 4 * a2 * (B_t * (M_1 @ B)).sum()
        clean += a2 * (tau * (C_t * M_1).sum() + tau_t * (C * M_1).sum()) + a2**2 * kappa * jnp.trace(M_1)
        noisy = tau_t * (C * Lambda).sum() + tau * (C_t * Lambda).sum() + 2 * a2 * tau * tau_t * trace
        noisy += 4 * ((B_t * (Lambda @ B)).sum() + a2 * both_K * trace)
        return clean + s2 * noisy + s2**2 * kappa - self.mean(M) * self.mean(M_tilde)

    def _blocks(self, M: Form) -> tuple[Matrix, Cross, Square]:
        d = len(self.Lambda)
        return M[:d, :d], M[:d, d:], M[d:, d:]


def _over_entries(M: Forms, M_tilde: Forms, bilinear: Callable[[Form, Form], Scalar]) -> Scalar:
    """Σ_oc f(M_oc, M̃_oc)."""
    return jax.vmap(jax.vmap(bilinear))(M, M_tilde).sum()


@eqx.filter_jit
def _population_loss(model: ConcatenatingModel, task: Task) -> Scalar:
    return exact_half_mse(*one_layer(model), task)


@eqx.filter_jit
def _by_length(model: ConcatenatingModel, task: Task, num_examples: Float[Array, " num_lengths"]) -> Array:
    return jax.vmap(lambda N: exact_half_mse(*one_layer(model), task, N))(num_examples)


@eqx.filter_jit
def _gradient(model: ConcatenatingModel, task: Task) -> tuple[Product, Product]:
    return jax.grad(exact_half_mse, argnums=(0, 1))(*one_layer(model), task)


def in_float64(settings: Any) -> Any:
    """All numbers of a model or a task as 64-bit arrays: under `jax.enable_x64`, and so that a sweep over them compiles once."""
    return jax.tree.map(lambda value: jnp.asarray(value, jnp.float64), settings)


@gated
def check_one_layer(model: Any, task: Task) -> None:
    """`NotApplicable` where `population_loss` does not apply, saying why."""
    exact_moments(task)
    if (reason := _why_not_bilinear(model)) is not None:
        raise NotApplicable(f"the exact loss is that of one linear attention layer over (x, y) tokens, but {reason}")


@gated
def exact_moments(task: Task) -> Moments:
    """The moments of a task, where they decide the loss of a linear attention layer. **Raises** `NotApplicable`, saying why, if not."""
    try:
        moments = task.moments()
        if moments.independent_inputs:
            return moments
        reason = "the inputs of a prompt depend on each other"
    except NotApplicable as error:
        reason = str(error)
    raise NotApplicable(
        f"exact theory needs linear regression, a Gaussian teacher and independent inputs, but {reason}; measure the loss instead"
    ) from None


def _why_not_bilinear(model: Any) -> str | None:
    """Why a model is no single layer of linear attention over (x, y) tokens; `None` if it is."""
    name = type(model).__name__
    if not isinstance(model, ConcatenatingModel) or model.joint is None:
        return f"{name} does not read (x, y) tokens"
    if len(model.stack) != 1:
        return f"{name} applies {len(model.stack)} layers"
    if not getattr(model.stack[0], "is_linear", False):
        return f"its layer is {type(model.stack[0]).__name__}"
    if model.query_in_context:
        return "the query is among its keys and values"
    if model.update_scale is None:
        return f"{name} does more to its tokens than to add an update, as where it clips them"
    return None
