"""Bringing an algorithm to its best on a task."""

from functools import partial
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..zoo.frozen import trainable

Algorithm = TypeVar("Algorithm")

NUM_STARTS = 8
SCREENING_TASKS = 2000
GRADIENT_TOLERANCE = 2e-4  # of the loss, in parts of that of predicting 0, by the logarithm of a parameter


def tune(
    algorithm: Algorithm, prompts: PyTree, targets: Float[Array, "num_tasks output_dim"], *, key: PRNGKeyArray
) -> Algorithm:
    """`algorithm` with its parameters, all positive, where the half-MSE on these tasks is least; `prompts` are what it reads.

    Each parameter is p₀·exp(θ), and L-BFGS minimises over θ: from `NUM_STARTS` random starts around p₀ on the first
    `SCREENING_TASKS` tasks, for there are local minima, and then from the best of them on all tasks.
    """
    parameters, rest = eqx.partition(algorithm, trainable(algorithm))

    def learner(theta):
        return eqx.combine(jax.tree.map(lambda p, t: p * jnp.exp(t), parameters, theta), rest)

    few = jax.tree.map(lambda array: array[:SCREENING_TASKS], (prompts, targets))
    leaves, structure = jax.tree.flatten(parameters)
    starts = jax.tree.unflatten(
        structure,
        [
            jr.normal(k, (NUM_STARTS, *leaf.shape)).at[0].set(0.0)  # one start is p₀ itself
            for k, leaf in zip(jr.split(key, len(leaves)), leaves, strict=True)
        ],
    )

    @partial(jax.jit, static_argnames="max_steps")
    def descend(theta, prompts, targets, max_steps):
        scale = (targets**2).sum(axis=1).mean() / 2

        def loss(theta):
            predictions = jax.vmap(learner(theta))(prompts)
            return ((predictions - targets) ** 2).sum(axis=1).mean() / 2 / scale

        return minimise(loss, theta, max_steps)

    screened, losses = jax.vmap(lambda theta: descend(theta, *few, max_steps=50))(starts)
    best = jnp.nanargmin(losses)
    theta, _ = descend(jax.tree.map(lambda array: array[best], screened), prompts, targets, max_steps=30)
    return learner(theta)


def minimise(
    loss, theta, max_steps: int, gradient_tolerance: float | Float[Array, ""] = GRADIENT_TOLERANCE
) -> tuple[Any, Float[Array, ""]]:
    """L-BFGS on `loss` from `theta`, until the gradient is smaller than `gradient_tolerance` or `max_steps` are done."""
    optimiser = optax.lbfgs()
    value_and_grad = optax.value_and_grad_from_state(loss)

    def step(carry):
        theta, state, count, _ = carry
        value, grad = value_and_grad(theta, state=state)
        updates, state = optimiser.update(grad, state, theta, value=value, grad=grad, value_fn=loss)
        return optax.apply_updates(theta, updates), state, count + 1, optax.tree.norm(grad)

    def unfinished(carry):
        _, _, count, gradient_norm = carry
        return (count < max_steps) & (gradient_norm > gradient_tolerance)

    theta, *_ = jax.lax.while_loop(unfinished, step, (theta, optimiser.init(theta), 0, jnp.inf))
    return theta, loss(theta)
