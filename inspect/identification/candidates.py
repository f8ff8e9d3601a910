"""The algorithms a learner may be running, each brought as close to it as it can come."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float

from ...train.tuning.baselines import baseline_name, fitted
from ...zoo.algorithm import ALGORITHMS, Algorithm, algorithm
from ...zoo.checks.arguments import NAME_OR_LEARNER
from ...zoo.checks.gate import gate, gated
from ...zoo.errors import NotApplicable
from ...zoo.prompt import Learner, Prompt
from ...zoo.storage.config import SETTINGS
from ...zoo.token_model import TokenModel

MOST_STEPS = 5
DEEPEST = 12  # layers
Predictions = Float[Array, "num_tasks output_dim"]


@dataclass(frozen=True)
class Fit:
    """An algorithm with the parameters that bring its predictions closest to a learner's.

    A parameter that the predictions do not depend on is `None`: γ of the last step of GD++. Steps of gradient descent with free η
    commute, so the order of their step sizes is arbitrary.
    """

    name: str
    algorithm: Learner
    parameters: Mapping[str, Any]
    num_parameters: int
    tuned: Algorithm | None = None  # by its name; `None` for a learner that was given as it is

    def imitates(self, other: "Fit") -> bool:
        """Whether it can do exactly what the other does, for some choice of its parameters or in their limit."""
        if self.tuned is None or other.tuned is None:
            return self is other
        return self.tuned.imitates(other.tuned)


@gated
def default_candidates(learner: Learner) -> tuple[str, ...]:
    """The algorithms worth trying: those with steps, for up to `MOST_STEPS` and for as many steps as the learner has layers."""
    depth = min(len(learner.stack), DEEPEST) if isinstance(learner, TokenModel) else MOST_STEPS
    names = []
    for family in ALGORITHMS.items().values():
        for number in (n for n in family.numbers(depth) if n <= MOST_STEPS or n == depth):
            try:
                names.append(family(number).beside(learner).name)
            except NotApplicable:
                break
    return tuple(names)


@gate(name=NAME_OR_LEARNER)
def fit_candidate(name: str | Learner, learner: Learner, prompts: Prompt, predictions: Predictions) -> Fit:
    """The algorithm called `name`, tuned to the predictions of `learner` on these prompts, and not to their targets; a learner in place
    of a name is taken as it is.

    **Raises** `UnknownNameError` for an unknown algorithm; `NotApplicable` if it needs what the learner does not have; `ZooError` if it
    cannot read such prompts.
    """
    one = jax.tree.map(lambda array: array[0], prompts)
    if not isinstance(name, str):
        eqx.filter_eval_shape(name, one)
        known = SETTINGS.name_of(type(name)) is not None
        return Fit(baseline_name(name) if known else type(name).__name__, name, {}, 0)
    wanted = algorithm(name).beside(learner)
    found = fitted(wanted, prompts, predictions)
    eqx.filter_eval_shape(found, one)
    parameters = wanted.parameters(found)
    leaves = jax.tree.leaves(list(parameters.values()))  # without those that are None
    return Fit(name, found, parameters, len(leaves), wanted)
