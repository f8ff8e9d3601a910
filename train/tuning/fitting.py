"""Bringing an algorithm as close as it can come to given predictions, such as those of a trained learner."""

from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ...zoo.frozen import trainable
from ...zoo.prompt import Prompt

Algorithm = TypeVar("Algorithm")
Targets = Float[Array, "num_tasks output_dim"]

NUM_STARTS = 16
SCREENING_STEPS, FITTING_STEPS = 30, 60
SETTLED = 1e-10  # a fit ends when its steps lower the loss by no more than this, in parts of the targets' mean square
LARGEST_STEP = 2.0  # of the logarithm of a parameter
TINY = np.finfo(np.float64).tiny


class _Moments(NamedTuple):
    """Of the residuals r and their Jacobian J on some tasks: what a step of Gauss and Newton needs."""

    loss: np.ndarray  # mean r²
    gradient: np.ndarray  # mean Jᵀr
    curvature: np.ndarray  # mean JᵀJ


def fit_predictions(algorithm: Algorithm, prompts: Prompt, targets: Targets, *, key: PRNGKeyArray) -> Algorithm:
    """`algorithm` with its parameters, all positive, where the mean of ‖ŷ − target‖² on these tasks is least.

    Each parameter is p₀·exp(θ), and Levenberg and Marquardt's method solves for θ: from `NUM_STARTS` random starts around p₀, for there
    are local minima, each on the same first part of the tasks, and then from the best of them on all tasks. Where the algorithm can
    meet its targets exactly, the parameters come out to the precision of the arithmetic. Marquardt 1963.

    The tasks are cut into as many parts as there are starts, so that one compiled function serves both rounds.
    """
    parameters, rest = eqx.partition(algorithm, trainable(algorithm))
    start, unravel = ravel_pytree(parameters)
    parts = np.resize(np.arange(len(targets)), (NUM_STARTS, max(1, len(targets) // NUM_STARTS)))
    all_tasks = jax.tree.map(lambda array: array[parts], (prompts, targets))
    first_part = jax.tree.map(lambda array: array[np.broadcast_to(parts[:1], parts.shape)], (prompts, targets))
    negligible = SETTLED * float((targets**2).mean())

    def screen(thetas: np.ndarray) -> _Moments:
        return _usable(_moments(jnp.asarray(thetas, start.dtype), parameters, rest, *first_part))

    def refine(theta: np.ndarray) -> _Moments:
        same = jnp.asarray(np.broadcast_to(theta, (NUM_STARTS, start.size)), start.dtype)
        moments = _moments(same, parameters, rest, *all_tasks)
        return _usable(tuple(moment.mean(axis=0, keepdims=True) for moment in moments))

    starts = np.array(jr.normal(key, (NUM_STARTS, start.size)), np.float64)
    starts[0] = 0.0  # one start is p₀ itself
    screened, losses = _descend(screen, starts, SCREENING_STEPS, negligible)
    fitted, _ = _descend(refine, screened[np.argmin(losses)][None], FITTING_STEPS, negligible)
    return eqx.combine(unravel(start * jnp.exp(jnp.asarray(fitted[0], start.dtype))), rest)


def _descend(measure, theta: np.ndarray, max_steps: int, negligible: float) -> tuple[np.ndarray, np.ndarray]:
    """Damped Gauss–Newton steps from each of `theta`, kept where the loss falls: where they end, and the loss there."""
    here, damping = measure(theta), np.full(len(theta), 1e-2)
    for _ in range(max_steps):
        size = np.einsum("sii->si", here.curvature)
        ridge = damping[:, None] * (size + 1e-6 * size.sum(axis=1, keepdims=True)) + TINY
        step = np.linalg.solve(here.curvature + ridge[:, :, None] * np.eye(theta.shape[1]), here.gradient[:, :, None])
        moved = theta - np.clip(step[:, :, 0], -LARGEST_STEP, LARGEST_STEP)
        there = measure(moved)
        better = there.loss < here.loss
        known = better & np.isfinite(here.loss)
        gained = (here.loss[known] - there.loss[known]).max(initial=0.0)
        theta = np.where(better[:, None], moved, theta)
        here = _Moments(
            *(np.where(better.reshape(-1, *[1] * (a.ndim - 1)), b, a) for a, b in zip(here, there, strict=True))
        )
        damping = np.clip(np.where(better, damping / 10, damping * 10), 1e-9, 1e9)
        if gained <= negligible and (damping[~better] > 1).all():
            break
    return theta, here.loss


@eqx.filter_jit
def _moments(
    thetas: Float[Array, "num_starts num_parameters"], parameters: PyTree, rest: PyTree, prompts: Prompt, targets: Array
) -> tuple[Array, Array, Array]:
    """The moments of each start on its part of the tasks."""
    start, unravel = ravel_pytree(parameters)

    def one(theta, prompts, targets):
        def residuals(theta):
            predictions = jax.vmap(eqx.combine(unravel(start * jnp.exp(theta)), rest))(prompts)
            return (predictions - targets).reshape(-1)

        r, J = residuals(theta), jax.jacfwd(residuals)(theta)
        return (r**2).mean(), r @ J / r.size, J.T @ J / r.size

    return jax.vmap(one)(thetas, prompts, targets)


def _usable(moments: tuple[Array, ...]) -> _Moments:
    """In double precision; a loss that is not finite is infinite, and no step is taken from there."""
    loss, gradient, curvature = (np.asarray(moment, np.float64) for moment in moments)
    finite = np.isfinite(loss) & np.isfinite(gradient).all(axis=1) & np.isfinite(curvature).all(axis=(1, 2))
    return _Moments(
        np.where(finite, loss, np.inf),
        np.where(finite[:, None], gradient, 0.0),
        np.where(finite[:, None, None], curvature, 0.0),
    )
