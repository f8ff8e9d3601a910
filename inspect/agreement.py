"""How much of what one learner does another explains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..train.losses import over_tasks
from ..train.tasks import Task
from ..zoo.prompt import Learner, Prompt
from .alignment import Mean, sensitivity
from .means import UNDEFINED

CHUNK = 1024
PerTask = Float[np.ndarray, " num_tasks"]


@dataclass(frozen=True)
class Agreement:
    """The share of a learner's predictions and sensitivities that another one explains on one distribution of tasks.

        prediction = 1 − E‖ŷ − ŷ'‖² / E‖ŷ‖²,   sensitivity = 1 − E‖s − s'‖_F² / E‖s‖_F²,   s = ∂ŷ/∂x_query

    for the learner ŷ and the other one ŷ'. 1 says that they are the same, 0 that the other explains no more than predicting 0 does;
    less than 0 is worse than that. Undefined where the learner's own is zero on every task, and where the other one is not finite on
    some task; tasks where the learner itself is not finite are left out and counted.
    """

    distribution: str
    prediction: Mean
    sensitivity: Mean
    num_tasks: int
    num_not_finite: int  # tasks left out


@dataclass(frozen=True)
class Share:
    """An explained share, and what each task pulls it by: shares of the same tasks are compared in pairs.

    The pulls have mean zero; the standard error of a sum of shares is that of the mean of the summed pulls (the delta method).
    """

    value: float
    pulls: PerTask

    @property
    def mean(self) -> Mean:
        error = self.pulls.std(ddof=1) / np.sqrt(len(self.pulls)) if len(self.pulls) > 1 else None
        return Mean(self.value, None if error is None else float(error))


@dataclass(frozen=True)
class Comparison:
    """An `Agreement` and the shares it is made of; `None` where the other learner is not finite."""

    agreement: Agreement
    shares: (
        tuple[Share, ...] | None
    )  # of predictions and of sensitivities, without those that the learner leaves undefined


def compare(
    learner: Learner,
    others: Mapping[str, Learner],
    task: Task,
    *,
    distribution: str,
    num_tasks: int,
    key: PRNGKeyArray,
) -> dict[str, Comparison]:
    """How much each of `others` explains of `learner`, all on the same tasks."""
    powers, errors = over_tasks(
        _measure, (learner, dict(others)), task, num_tasks=num_tasks, key=key, chunk=min(CHUNK, num_tasks)
    )
    usable = np.isfinite(powers).all(axis=1)
    return {name: _compare(errors[name][usable], powers[usable], num_tasks, distribution) for name in others}


def explained_share(errors: PerTask, powers: PerTask) -> Share | None:
    """1 − Σ errors / Σ powers, with the pull ((1 − share)·power − error) / mean power of each task; `None` where all powers are zero."""
    if not powers.any():
        return None
    left = errors.mean() / powers.mean()
    return Share(float(1 - left), (left * powers - errors) / powers.mean())


def mean_share(comparisons: Sequence[Comparison], *, minus: Sequence[Comparison] | None = None) -> Mean:
    """The mean of all shares over both measures and all distributions; with `minus`, of their differences, paired over tasks.

    Tasks of different distributions are independent. Undefined where a learner is not finite, or no share is defined.
    """
    sums, count = [], 0
    for index, comparison in enumerate(comparisons):
        shares, others = comparison.shares, minus[index].shares if minus else ()
        if shares is None or others is None:
            return UNDEFINED
        if shares:
            value = sum(share.value for share in shares) - sum(other.value for other in others)
            pulls = np.sum([share.pulls for share in shares], axis=0) - np.sum([o.pulls for o in others], axis=0)
            sums.append(Share(value, pulls).mean)
            count += len(shares)
    if count == 0:
        return UNDEFINED
    errors = [mean.standard_error for mean in sums]
    error = None if None in errors else float(np.linalg.norm(np.array(errors, np.float64))) / count
    return Mean(sum(mean.value or 0.0 for mean in sums) / count, error)


def power(learner: Learner, task: Task, *, num_tasks: int, key: PRNGKeyArray) -> tuple[PerTask, PerTask]:
    """‖ŷ‖² and ‖y‖² on each task: how large predictions are beside the targets."""
    return over_tasks(_powers, learner, task, num_tasks=num_tasks, key=key, chunk=min(CHUNK, num_tasks))


def _compare(errors: np.ndarray, powers: np.ndarray, num_tasks: int, distribution: str) -> Comparison:
    finite = bool(np.isfinite(errors).all())
    found = [explained_share(errors[:, part], powers[:, part]) if finite else None for part in (0, 1)]
    prediction, slope = (UNDEFINED if share is None else share.mean for share in found)
    agreement = Agreement(distribution, prediction, slope, num_tasks, num_tasks - len(powers))
    return Comparison(agreement, tuple(share for share in found if share is not None) if finite else None)


def _measure(learners: tuple[Learner, dict[str, Any]], prompt: Prompt, _: Array) -> Any:
    learner, others = learners
    y, slope = learner(prompt), sensitivity(learner, prompt)
    return _squares(y, slope), {
        name: _squares(other(prompt) - y, sensitivity(other, prompt) - slope) for name, other in others.items()
    }


def _squares(y: Array, slope: Array) -> Array:
    return jnp.stack([(y**2).sum(), (slope**2).sum()])


def _powers(learner: Learner, prompt: Prompt, target: Array) -> tuple[Array, Array]:
    return (learner(prompt) ** 2).sum(), (target**2).sum()
