"""The loss, and how any learner is measured on many tasks."""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..zoo.checks.gate import gate, gated, predict
from ..zoo.determinism import fixed_settings, typed
from ..zoo.prompt import Learner, Prompt
from .tasks.regression import Target, Task

CHUNK = 4096


@gated
def half_mse(learner: Learner, prompts: Prompt, targets: Float[Array, "num_tasks output_dim"]) -> Float[Array, ""]:
    """½ · mean over tasks of ‖ŷ − y‖², the loss of the papers, for a batch of prompts and targets."""
    return jax.vmap(squared_error, in_axes=(None, 0, 0))(learner, prompts, targets).mean() / 2


@gated
def squared_error(learner: Learner, prompt: Prompt, target: Target) -> Float[Array, ""]:
    """‖ŷ − y‖² for one prompt."""
    return ((predict(learner, prompt) - target) ** 2).sum()


@gate(learners=None)
def in_chunks(
    measure: Callable[[Any, Prompt, Target], PyTree[Array]],
    learners: PyTree,
    task: Task,
    *,
    num_tasks: int,
    key: PRNGKeyArray,
    chunk: int = CHUNK,
) -> Iterator[PyTree[np.ndarray]]:
    """`measure(learners, prompt, target)` on each of `num_tasks` tasks, as float64 NumPy arrays of at most `chunk` tasks at a time.

    Task i depends on `key` and i alone: learners measured with the same key meet the same tasks, a longer run begins with the tasks
    of a shorter one, and the size of the chunks changes nothing but the rounding. What is not finite is given as it comes. See
    `fixed_settings` for what JAX is set to meanwhile.
    """
    chunk, key = min(chunk, num_tasks), typed(key)
    # A loop in Python, and not in XLA: its CPU backend can lock up on batches of LAPACK calls inside a compiled loop.
    for start in range(0, num_tasks, chunk):
        with fixed_settings(learners, task, finite=False) as (learners, task):
            values = _on_chunk(measure, learners, task, key, jnp.arange(start, start + chunk, dtype=jnp.uint32))
        yield jax.tree.map(lambda array, start=start: np.asarray(array, np.float64)[: num_tasks - start], values)


@gate(learners=None)
def over_tasks(
    measure: Callable[[Any, Prompt, Target], PyTree[Array]],
    learners: PyTree,
    task: Task,
    *,
    num_tasks: int,
    key: PRNGKeyArray,
    chunk: int = CHUNK,
) -> PyTree[np.ndarray]:
    """What `in_chunks` gives, put together: an entry for each task. `inspect.means.mean_over_tasks` needs no memory for them."""
    chunks = in_chunks(measure, learners, task, num_tasks=num_tasks, key=key, chunk=chunk)
    return jax.tree.map(lambda *values: np.concatenate(values), *chunks)


@eqx.filter_jit
def _on_chunk(measure, learners, task, key, indices):
    def one(index):
        prompt, target = task.sample(jr.fold_in(key, index))
        return measure(learners, prompt, target)

    return jax.vmap(one)(indices)
