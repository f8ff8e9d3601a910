"""Means over tasks that say when they are undefined, and their arrays for drawing."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ...train.losses import CHUNK, in_chunks
from ...train.tasks.regression import Target, Task
from ...zoo.checks.gate import gate
from ...zoo.prompt import Prompt
from .estimate import Estimate

UNDEFINED = Estimate(None, None)


@gate(learners=None)
def mean_over_tasks(
    measure: Callable[[Any, Prompt, Target], PyTree[Array]],
    learners: PyTree,
    task: Task,
    *,
    num_tasks: int,
    key: PRNGKeyArray,
    chunk: int = CHUNK,
) -> PyTree[Estimate]:
    """The mean over `num_tasks` tasks of each number that `measure` gives, in memory that does not grow with them.

    The moments of each chunk are joined to those of the chunks before it: Chan, Golub and LeVeque 1983.
    """
    count, structure = 0, None
    means, squares = np.zeros(1), np.zeros(1)  # squares: Σ (value − mean)²
    for values in in_chunks(measure, learners, task, num_tasks=num_tasks, key=key, chunk=chunk):
        leaves, structure = jax.tree.flatten(values)
        table = np.stack(leaves)
        num, mean = table.shape[1], table.mean(axis=1)
        change = mean - means
        squares = squares + ((table - mean[:, None]) ** 2).sum(axis=1) + change**2 * (count * num / (count + num))
        count, means = count + num, means + change * (num / (count + num))
    errors = np.sqrt(squares / max(count - 1, 1) / count)
    assert structure is not None
    entries = [Estimate(float(m), float(e) if count > 1 else None) for m, e in zip(means, errors, strict=True)]
    return jax.tree.unflatten(structure, entries)


def finite_mean(values: Float[np.ndarray, " num_tasks"]) -> Estimate:
    """The mean and its standard error; undefined where one of the values is not finite, for that one decides the mean."""
    return Estimate.of(values) if np.isfinite(values).all() else UNDEFINED


def half_mse_of(squared_errors: Float[np.ndarray, "num_tasks num_points"]) -> tuple[Estimate, ...]:
    """½ · mean over tasks of ‖ŷ − y‖² at each point of a curve."""
    return tuple(finite_mean(column / 2) for column in squared_errors.T)


def finite_median(values: Float[np.ndarray, " num_tasks"]) -> float | None:
    """The median, what is not finite counted as infinitely large; undefined where the median itself is infinite."""
    median = float(np.median(np.where(np.isfinite(values), values, np.inf))) if len(values) else np.inf
    return median if np.isfinite(median) else None


def as_arrays(means: Sequence[Estimate]) -> tuple[np.ndarray, np.ndarray]:
    """Values and standard errors as arrays to draw; NaN, which leaves a gap, where they are undefined."""
    pairs = [(mean.value, mean.standard_error) for mean in means]
    values, errors = np.array(pairs, np.float64).reshape(-1, 2).T
    return values, errors
