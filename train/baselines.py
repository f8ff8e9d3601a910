"""The classical algorithms by name, each at its best on a task.

zero            predict 0
least-squares   the shortest weights that fit the examples best
gd-K            K steps of gradient descent with one η
gd++-K          K steps of GD++ with one η and one γ
gd-K-free, gd++-K-free   the same with an η (and γ) for each step
"""

import re
from functools import cache

import jax
import jax.numpy as jnp
import jax.random as jr

from ..zoo.algorithms.gradient_descent import GradientDescent, GradientDescentPlusPlus
from ..zoo.algorithms.least_squares import LeastSquares, Zero
from ..zoo.config import to_config
from ..zoo.errors import UnknownNameError
from ..zoo.prompt import Learner
from .step_size import fitted_step_size, has_optimal_step_size, optimal_step_size
from .tasks import Task
from .tuning import tune

TUNING_TASKS = 50_000
_STEPWISE = re.compile(r"(gd|gd\+\+)-([1-9][0-9]?)(-free)?")


def best_baseline(name: str, task: Task, *, seed: int = 0) -> Learner:
    """The algorithm called `name`, tuned in closed form for the distribution where there is one, else on `TUNING_TASKS` tasks
    drawn from `seed`; algorithms without parameters come as they are.

    **Raises** `UnknownNameError` for a name that is not in this module's list.
    """
    return _tuned(name, _Hashable(task), seed)


@cache
def _tuned(name: str, task: "_Hashable", seed: int) -> Learner:
    if name == "zero":
        return Zero()
    if name == "least-squares":
        return LeastSquares()
    match = _STEPWISE.fullmatch(name)
    if match is None:
        raise UnknownNameError(
            f"unknown baseline {name!r}; known: zero, least-squares, gd-K, gd++-K, gd-K-free, gd++-K-free"
        )
    algorithm, num_steps, free = match[1], int(match[2]), bool(match[3])
    if (algorithm, num_steps) == ("gd", 1) and has_optimal_step_size(task.task):
        return GradientDescent(optimal_step_size(task.task).step_size)
    prompts, targets = task.task.sample_batch(jr.key(seed), TUNING_TASKS)
    step_size = fitted_step_size(prompts, targets)
    if (algorithm, num_steps) == ("gd", 1):
        return GradientDescent(step_size)
    shape = (num_steps,) if free else ()
    etas = jnp.broadcast_to(step_size, shape)
    if algorithm == "gd":
        start = GradientDescent(etas, num_steps=num_steps)
    else:
        start = GradientDescentPlusPlus(etas, jnp.broadcast_to(_typical_gamma(prompts), shape), num_steps=num_steps)
    return tune(start, prompts, targets, key=jr.key(seed + 1))


def _typical_gamma(prompts):
    """1/(3 λ_max) of the Hessian Σᵢ xᵢxᵢᵀ, on average: the largest γ that keeps the order of its eigenvalues."""
    top = jax.vmap(lambda xs: jnp.linalg.norm(xs, ord=2) ** 2)(prompts.xs[:1000])
    return 1 / (3 * top.mean())


class _Hashable:
    """A task as a key of the cache: two tasks with the same settings are the same."""

    def __init__(self, task: Task):
        self.task = task
        self.config = repr(to_config(task))

    def __hash__(self) -> int:
        return hash(self.config)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashable) and self.config == other.config
