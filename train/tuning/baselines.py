"""Algorithms at their best: on a task, in closed form or on tasks drawn from it, or closest to given predictions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from ...zoo.algorithm import Algorithm, Targets, algorithm
from ...zoo.checks.gate import gated
from ...zoo.checks.values import Check
from ...zoo.determinism import fixed_settings, key_of
from ...zoo.errors import NotApplicable, UnknownNameError
from ...zoo.minimise import GRADIENT_TOLERANCE
from ...zoo.names import tunes_algorithms
from ...zoo.prompt import Learner, Prompt
from ...zoo.spectrum import spectra
from ...zoo.storage.config import SETTINGS, to_config
from ..tasks.task import Task
from .fitting import fit_predictions
from .search import SpectralLearner, tune

TUNING_TASKS = 50_000
FITTING_TOLERANCE = 1e-6  # of the gradient, in parts of the targets' mean square


@tunes_algorithms
@gated
def best_baseline(name: str, task: Task, *, num_tasks: int = TUNING_TASKS, seed: int = 0) -> Any:
    """The algorithm called `name`, tuned in closed form for the distribution where there is one, else on `num_tasks` tasks
    drawn from `seed`; algorithms without parameters come as they are.

    **Raises** `UnknownNameError` for a name that is not registered (`iclzoo.list_algorithms`).
    """
    with fixed_settings(task, finite=False) as (task,):
        return _best(name, _SameSettings(task), num_tasks, seed)


@gated
def fitted_baseline(
    name: str, prompts: Prompt, targets: Float[Array, "num_tasks output_dim"], *, seed: int = 0
) -> Learner:
    """The algorithm called `name`, with the parameters that bring it closest to `targets`, whoever gave them: with the predictions of
    a learner as targets, the parameters are the learner's own, and not the best for its task.

        argmin over parameters of ½ · mean over tasks of ‖ŷ − target‖²

    **Raises** `UnknownNameError` for a name that is not registered.
    """
    return fitted(algorithm(name), prompts, targets, seed=seed)


def fitted(wanted: Algorithm, prompts: Prompt, targets: Targets, *, seed: int = 0) -> Any:
    """`fitted_baseline` of an algorithm that was found."""
    with fixed_settings(prompts, targets, finite=False) as (prompts, targets):
        try:
            return wanted.fitted(prompts, targets, tolerance=FITTING_TOLERANCE * float((targets**2).sum(axis=1).mean()))
        except NotApplicable:
            start = wanted.start(prompts, targets)
        return wanted.settled(_searched(fit_predictions, start, prompts, targets, seed))


class _SameSettings:
    """A task as a key of the cache: two with the same settings are the same."""

    def __init__(self, task: Task):
        self.task, self.identity = task, repr(to_config(task))

    def __hash__(self) -> int:
        return hash(self.identity)

    def __eq__(self, other: Any) -> bool:
        return self.identity == other.identity


@cache
def _best(name: str, given: _SameSettings, num_tasks: int, seed: int) -> Learner:
    wanted = algorithm(name)
    try:
        return wanted.best(given.task.moments())
    except NotApplicable:
        prompts, targets = given.task.sample_batch(key_of(seed), num_tasks)
    try:
        return wanted.fitted(prompts, targets, tolerance=GRADIENT_TOLERANCE)
    except NotApplicable:
        start = wanted.start(prompts, targets)
    return wanted.settled(_searched(_tuned, start, prompts, targets, seed))


def _tuned(start: Any, prompts: Prompt, targets: Targets, *, key: PRNGKeyArray) -> Learner:
    """At its best on labelled prompts; by way of their spectra, where that is enough."""
    if hasattr(start, "from_spectrum"):
        return tune(SpectralLearner(start), spectra(prompts), targets, key=key).learner
    return tune(start, prompts, targets, key=key)


def _searched(search: Callable, start: Any, prompts: Prompt, targets: Targets, seed: int) -> Any:
    """What a search finds from `start`; an algorithm without parameters as it is."""
    return search(start, prompts, targets, key=key_of(seed + 1)) if jax.tree.leaves(start) else start


@gated
def baselines_of(baselines: Sequence[str | Learner], task: Task) -> dict[str, Learner]:
    """Each baseline by its name: an algorithm by name at its best on `task`, a learner as it is, called as on a card."""
    return {baseline_name(one): best_baseline(one, task) if isinstance(one, str) else one for one in baselines}


def baseline_name(baseline: str | Learner) -> str:
    """How a baseline is called: an algorithm by its name, a learner by the kind and the numbers it has on a card."""
    if isinstance(baseline, str):
        return baseline
    config = to_config(baseline)
    settings = ", ".join(f"{name}={value}" for name, value in config.items() if name != "kind" and value is not None)
    return f"{config['kind']}({settings})"


@dataclass(frozen=True, repr=False)
class Baseline(Check):
    """The name of an algorithm, or a learner that a card can hold."""

    @property
    def expected(self) -> str:
        return "the name of an algorithm, as in 'gd-2', or a learner that a card can hold"

    def take(self, value: Any) -> Any:
        if isinstance(value, str):
            try:
                algorithm(value)
            except UnknownNameError as error:
                raise UnknownNameError(f"baselines: {error}") from None
        elif not callable(value) or SETTINGS.name_of(type(value)) is None:
            raise TypeError
        return value
