"""Bringing an algorithm to its best on a task."""

from functools import partial
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ...zoo.frozen import trainable
from ...zoo.minimise import minimise
from ...zoo.spectrum import Spectrum

Algorithm = TypeVar("Algorithm")


class SpectralLearner(eqx.Module):
    """What a learner predicts from the spectrum of a prompt in place of the prompt."""

    learner: Any  # has `from_spectrum`

    def __call__(self, spectrum: Spectrum) -> Float[Array, " output_dim"]:
        return self.learner.from_spectrum(spectrum)


NUM_STARTS = 8
SCREENING_TASKS = 2000


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
