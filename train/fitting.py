"""Bringing an algorithm as close as it can come to given predictions, such as those of a trained learner."""

from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..zoo.frozen import trainable
from ..zoo.prompt import Prompt

Algorithm = TypeVar("Algorithm")
Targets = Float[Array, "num_tasks output_dim"]

NUM_STARTS = 16
SCREENING_TASKS, SCREENING_STEPS, FITTING_STEPS = 256, 20, 30
SETTLED = 1e-10  # a fit ends when no step lowers its loss by more than this, in parts of the targets' mean square


class _Fits(NamedTuple):
    """Fits from several starts, on their way."""

    theta: Float[Array, "num_starts num_parameters"]  # logarithms of the parameters, relative to the algorithm's own
    loss: Float[Array, " num_starts"]
    damping: Float[Array, " num_starts"]


def fit_predictions(algorithm: Algorithm, prompts: Prompt, targets: Targets, *, key: PRNGKeyArray) -> Algorithm:
    """`algorithm` with its parameters, all positive, where the mean of ‖ŷ − target‖² on these tasks is least.

    Each parameter is p₀·exp(θ), and Levenberg and Marquardt's method solves for θ: from `NUM_STARTS` random starts around p₀ on the
    first `SCREENING_TASKS` tasks, for there are local minima, and then from the best of them on all tasks. Where the algorithm can
    meet its targets exactly, the parameters come out to the precision of the arithmetic. Marquardt 1963.
    """
    parameters, rest = eqx.partition(algorithm, trainable(algorithm))
    start, unravel = ravel_pytree(parameters)
    few = jax.tree.map(lambda array: array[:SCREENING_TASKS], (prompts, targets))
    theta = jr.normal(key, (NUM_STARTS, start.size), start.dtype).at[0].set(0.0)  # one start is p₀ itself
    screened = _fit(theta, parameters, rest, *few, max_steps=SCREENING_STEPS)
    best = screened.theta[jnp.argmin(screened.loss)]
    fitted = _fit(best[None], parameters, rest, prompts, targets, max_steps=FITTING_STEPS)
    return eqx.combine(unravel(start * jnp.exp(fitted.theta[0])), rest)


def _fit(theta, parameters: PyTree, rest: PyTree, prompts: Prompt, targets: Targets, *, max_steps: int) -> _Fits:
    infinite, damping = jnp.full_like(theta[:, 0], jnp.inf), jnp.full_like(theta[:, 0], 1e-2)
    fits = _improve(_Fits(theta, infinite, damping), parameters, rest, prompts, targets)
    for _ in range(max_steps):
        before, fits = fits.loss, _improve(fits, parameters, rest, prompts, targets)
        moved = fits.loss < before
        gained = jnp.where(moved & jnp.isfinite(before), before - fits.loss, 0.0)
        if gained.max() <= SETTLED * (targets**2).mean() and not (moved & ~jnp.isfinite(before)).any():
            break
    return fits


@eqx.filter_jit
def _improve(fits: _Fits, parameters: PyTree, rest: PyTree, prompts: Prompt, targets: Targets) -> _Fits:
    """One step of each fit, the best of three dampings, kept where the loss falls."""
    start, unravel = ravel_pytree(parameters)

    def predictions(theta: Float[Array, " num_parameters"]) -> Targets:
        return jax.vmap(eqx.combine(unravel(start * jnp.exp(theta)), rest))(prompts)

    def loss_at(theta: Float[Array, " num_parameters"]) -> Float[Array, ""]:
        loss = ((predictions(theta) - targets) ** 2).mean()
        return jnp.where(jnp.isfinite(loss), loss, jnp.inf)

    def improve(theta, loss, damping):
        residuals = (predictions(theta) - targets).reshape(-1)
        jacobian = jax.jacfwd(predictions)(theta).reshape(-1, theta.size)
        gradient, curvature = residuals @ jacobian, jacobian.T @ jacobian
        tiny = jnp.finfo(theta.dtype).tiny
        dampings = damping * jnp.array([0.01, 1.0, 100.0], theta.dtype)

        def candidate(damping):
            ridge = damping * (jnp.diag(curvature) + 1e-6 * jnp.trace(curvature)) + tiny
            return theta - jnp.clip(jnp.linalg.solve(curvature + jnp.diag(ridge), gradient), -2.0, 2.0)

        candidates = jnp.concatenate([theta[None], jax.vmap(candidate)(dampings)])
        losses = jax.vmap(loss_at)(candidates)
        best = jnp.argmin(losses)
        kept = jnp.concatenate([100 * damping[None], dampings])[best]
        return _Fits(candidates[best], losses[best], jnp.clip(kept, 1e-8, 1e8))

    return _Fits(*jax.vmap(improve)(*fits))
