"""The classical algorithms by name, each at its best on a task.

zero                predict 0
least-squares       the shortest weights that fit the examples best
ridge               ridge regression: ρ = σ²/α² where the task has a Gaussian teacher of mean 0, else tuned
averaging           gd-1 by its other name
gd-K                K steps of gradient descent with one η
gd++-K              K steps of GD++ with one η and one γ
gd-K-free, gd++-K-free   the same with an η (and γ) for each step
preconditioned-gd   one step of gradient descent through the best matrix
knn-K               the mean label of the K nearest neighbours
nadaraya-watson     smoothing with a Gaussian kernel of the best width
softmax-smoother    softmax over inner products at the best inverse temperature
"""

import re
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..zoo.algorithms.gradient_descent import GradientDescent, GradientDescentPlusPlus
from ..zoo.algorithms.least_squares import LeastSquares, Ridge, Zero
from ..zoo.algorithms.preconditioned import PreconditionedGradientDescent
from ..zoo.algorithms.smoothing import KNearestNeighbours, NadarayaWatson, SoftmaxSmoother, squared_distances
from ..zoo.config import to_config
from ..zoo.determinism import fixed_settings, key_of
from ..zoo.errors import unknown_name
from ..zoo.gate import gated
from ..zoo.prompt import Learner, Prompt
from .fitting import fit_predictions
from .regularisation import bayes_regularisation, fitted_regularisation
from .spectral import Descent, SpectralDescent, Spectrum, spectra
from .step_size import (
    fitted_preconditioner,
    fitted_step_size,
    has_optimal_step_size,
    optimal_preconditioner,
    optimal_step_size,
)
from .tasks import Task
from .tuning import GRADIENT_TOLERANCE, Algorithm, tune

TUNING_TASKS = 50_000
FITTING_TOLERANCE = 1e-6  # of the gradient, in parts of the targets' mean square


@gated
def best_baseline(name: str, task: Task, *, seed: int = 0) -> Any:
    """The algorithm called `name`, tuned in closed form for the distribution where there is one, else on `TUNING_TASKS` tasks
    drawn from `seed`; algorithms without parameters come as they are.

    **Raises** `UnknownNameError` for a name that is not in this module's list.
    """
    with fixed_settings(task, finite=False) as (task,):
        return _best(name, _Problem(task, seed))


@gated
def fitted_baseline(
    name: str, prompts: Prompt, targets: Float[Array, "num_tasks output_dim"], *, seed: int = 0
) -> Learner:
    """The algorithm called `name`, with the parameters that bring it closest to `targets`, whoever gave them: with the predictions of
    a learner as targets, the parameters are the learner's own, and not the best for its task.

        argmin over parameters of ½ · mean over tasks of ‖ŷ − target‖²

    **Raises** `UnknownNameError` for a name that is not in this module's list.
    """
    with fixed_settings(prompts, targets, finite=False) as (prompts, targets):
        return _build(name, _Fit(prompts, targets, seed))


@cache
def _best(name: str, problem: "_Problem") -> Learner:
    return _build(name, problem)


def check_baseline(name: str) -> None:
    """**Raises** `UnknownNameError` for a name that is not in this module's list."""
    _found(name)


def _build(name: str, problem: "_Problem") -> Learner:
    build, number = _found(name)
    return build(problem, number)


def _found(name: str) -> tuple[Callable[["_Problem", int], Learner], int]:
    """How the algorithm called `name` is built, and the number in its name."""
    for known, build in _ALGORITHMS.items():
        match = re.fullmatch(re.escape(known).replace("K", "([1-9][0-9]{0,2})"), name)
        if match:
            return build, int(match[1]) if match.groups() else 1
    raise unknown_name("baseline", name, _ALGORITHMS)


class _Problem:
    """A task to be at one's best on. As a key of the cache, two tasks with the same settings are the same."""

    gradient_tolerance = GRADIENT_TOLERANCE

    def __init__(self, task: Task, seed: int):
        self.task: Task | None = task
        self.seed, self.identity = seed, (repr(to_config(task)), seed)

    def __hash__(self) -> int:
        return hash(self.identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Problem) and self.identity == other.identity

    @cached_property
    def labelled(self) -> tuple[Prompt, Float[Array, "num_tasks output_dim"]]:
        """The tasks to tune on."""
        assert self.task is not None
        return self.task.sample_batch(key_of(self.seed), TUNING_TASKS)

    def average(self, statistic: Callable[[Prompt], Float[Array, ""]]) -> Float[Array, ""]:
        """The mean of a number over a thousand prompts: for the size of the parameters that tuning starts from."""
        few = jax.tree.map(lambda array: array[:1000], self.labelled[0])
        return jax.vmap(statistic)(few).mean()

    @cached_property
    def spectra(self) -> Spectrum:
        """The tasks to tune on, each in its singular basis."""
        return spectra(self.labelled[0])

    def tuned(self, start: Algorithm) -> Algorithm:
        key = key_of(self.seed + 1)
        if isinstance(start, Descent):
            return tune(SpectralDescent(start), self.spectra, self.labelled[1], key=key).algorithm  # pyright: ignore[reportReturnType]
        return tune(start, *self.labelled, key=key)


class _Fit(_Problem):
    """Labelled tasks, of no known distribution, whose labels are to be met exactly if they can be."""

    def __init__(self, prompts: Prompt, targets: Float[Array, "num_tasks output_dim"], seed: int):
        self.task, self.seed, self.labelled = None, seed, (prompts, targets)
        self.gradient_tolerance = FITTING_TOLERANCE * float((targets**2).sum(axis=1).mean())

    def tuned(self, start: Algorithm) -> Algorithm:
        return fit_predictions(start, *self.labelled, key=key_of(self.seed + 1))


def _gradient_descent(problem: _Problem, num_steps: int, shape: tuple[int, ...] = ()) -> Learner:
    if num_steps == 1 and problem.task is not None and has_optimal_step_size(problem.task):
        return GradientDescent(optimal_step_size(problem.task).step_size)
    step_size = fitted_step_size(*problem.labelled)
    if num_steps == 1:
        return GradientDescent(step_size)
    return problem.tuned(GradientDescent(jnp.broadcast_to(step_size, shape), num_steps=num_steps))


def _gd_plus_plus(problem: _Problem, num_steps: int, shape: tuple[int, ...] = ()) -> Learner:
    step_size = fitted_step_size(*problem.labelled)
    # 1/(3 λ_max) of the Hessian Σᵢ xᵢxᵢᵀ, on average: the largest γ that keeps the order of its eigenvalues.
    gamma = 1 / (3 * problem.average(lambda prompt: jnp.linalg.norm(prompt.xs, ord=2) ** 2))
    start = (jnp.broadcast_to(step_size, shape), jnp.broadcast_to(gamma, shape))
    tuned = problem.tuned(GradientDescentPlusPlus(*start, num_steps=num_steps))
    if not shape:
        return tuned
    # The last γ enters no prediction: it is left at what it does not do.
    return GradientDescentPlusPlus(tuned.step_size, tuned.gamma.at[-1].set(0.0), num_steps=num_steps)


def _preconditioned(problem: _Problem) -> Learner:
    if problem.task is not None and has_optimal_step_size(problem.task):
        return PreconditionedGradientDescent(optimal_preconditioner(problem.task).preconditioner)
    return PreconditionedGradientDescent(fitted_preconditioner(*problem.labelled))


def _ridge(problem: _Problem) -> Learner:
    """Ridge regression; at ρ = 0 its limit, least squares."""
    regularisation = None if problem.task is None else bayes_regularisation(problem.task)
    if regularisation is None:
        return Ridge(fitted_regularisation(*problem.labelled, problem.gradient_tolerance))
    return Ridge(regularisation) if regularisation else LeastSquares()


_ALGORITHMS: dict[str, Callable[[_Problem, int], Learner]] = {
    "zero": lambda problem, _: Zero(),
    "least-squares": lambda problem, _: LeastSquares(),
    "ridge": lambda problem, _: _ridge(problem),
    "averaging": lambda problem, _: _gradient_descent(problem, 1),
    "gd-K": _gradient_descent,
    "gd-K-free": lambda problem, K: _gradient_descent(problem, K, (K,)),
    "gd++-K": _gd_plus_plus,
    "gd++-K-free": lambda problem, K: _gd_plus_plus(problem, K, (K,)),
    "preconditioned-gd": lambda problem, _: _preconditioned(problem),
    "knn-K": lambda problem, K: KNearestNeighbours(K),
    "nadaraya-watson": lambda problem, _: problem.tuned(
        NadarayaWatson(jnp.sqrt(problem.average(lambda prompt: squared_distances(prompt).mean() / prompt.input_dim)))
    ),
    "softmax-smoother": lambda problem, _: problem.tuned(
        SoftmaxSmoother(1 / problem.average(lambda prompt: jnp.abs(prompt.xs @ prompt.query).mean()))
    ),
}
