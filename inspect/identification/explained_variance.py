"""How much of what one learner does another explains."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ...train.tasks.regression import Task
from ...zoo.checks.gate import gated, predict
from ...zoo.determinism import split
from ...zoo.prompt import Learner, Prompt
from ..behaviour.alignment import sensitivity
from ..estimates.estimate import Estimate
from ..estimates.means import UNDEFINED

CHUNK = 1024
PerTask = Float[np.ndarray, " num_tasks"]


@dataclass(frozen=True)
class ExplainedVariance:
    """The share of a learner's predictions and sensitivities that another one explains on one distribution of tasks.

        prediction = 1 − E‖ŷ − ŷ'‖² / E‖ŷ‖²,   sensitivity = 1 − E‖s − s'‖_F² / E‖s‖_F²,   s = ∂ŷ/∂x_query

    for the learner ŷ and the other one ŷ'. 1 says that they are the same, 0 that the other explains no more than predicting 0 does;
    less than 0 is worse than that. Undefined where the learner's own is zero on every task, and where the other one is not finite on
    some task; tasks where the learner itself is not finite are left out and counted.
    """

    distribution: str
    prediction: Estimate
    sensitivity: Estimate
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
    def mean(self) -> Estimate:
        error = self.pulls.std(ddof=1) / np.sqrt(len(self.pulls)) if len(self.pulls) > 1 else None
        return Estimate(self.value, None if error is None else float(error))


@dataclass(frozen=True)
class Comparison:
    """An `ExplainedVariance` and the shares it is made of; `None` where the other learner is not finite."""

    explained: ExplainedVariance
    shares: (
        tuple[Share, ...] | None
    )  # of predictions and of sensitivities, without those that the learner leaves undefined


@gated
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
    powers, errors = [], {name: [] for name in others}
    for prompts, _ in draw(task, num_tasks, key):
        own = outputs(learner, prompts)
        powers.append(_squares(*own))
        for name, other in others.items():
            theirs = outputs(other, prompts)
            errors[name].append(_squares(*(a - b for a, b in zip(theirs, own, strict=True))))
    power = np.concatenate(powers)[:num_tasks]
    usable = np.isfinite(power).all(axis=1)
    return {
        name: _compare(np.concatenate(errors[name])[:num_tasks][usable], power[usable], num_tasks, distribution)
        for name in others
    }


@gated
def draw(task: Task, num_tasks: int, key: PRNGKeyArray) -> Iterator[tuple[Prompt, Array]]:
    """At least `num_tasks` prompts and targets, `CHUNK` at a time: memory is bounded, and what reads them is compiled once.

    Unlike in `over_tasks`, a learner is then compiled apart from the task and from the learners it is compared with.
    """
    num_chunks = -(-num_tasks // CHUNK)
    for keys in split(key, num_chunks * CHUNK).reshape(num_chunks, CHUNK):
        yield _sample(task, keys)


@gated
def outputs(learner: Learner, prompts: Prompt) -> tuple[np.ndarray, np.ndarray]:
    """Predictions [num_tasks, output_dim] and sensitivities [num_tasks, output_dim, input_dim], in float64."""
    predictions, slopes = _outputs(learner, prompts)
    return np.asarray(predictions, np.float64), np.asarray(slopes, np.float64)


def explained_share(errors: PerTask, powers: PerTask) -> Share | None:
    """1 − Σ errors / Σ powers, with the pull ((1 − share)·power − error) / mean power of each task; `None` where all powers are zero."""
    if not powers.any():
        return None
    left = errors.mean() / powers.mean()
    return Share(float(1 - left), (left * powers - errors) / powers.mean())


def mean_share(comparisons: Sequence[Comparison], *, minus: Sequence[Comparison] | None = None) -> Estimate:
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
    return Estimate(sum(mean.value or 0.0 for mean in sums) / count, error)


def _compare(errors: np.ndarray, powers: np.ndarray, num_tasks: int, distribution: str) -> Comparison:
    finite = bool(np.isfinite(errors).all())
    found = [explained_share(errors[:, part], powers[:, part]) if finite else None for part in (0, 1)]
    prediction, slope = (UNDEFINED if share is None else share.mean for share in found)
    explained = ExplainedVariance(distribution, prediction, slope, num_tasks, num_tasks - len(powers))
    return Comparison(explained, tuple(share for share in found if share is not None) if finite else None)


@eqx.filter_jit
def _sample(task: Task, keys: Array) -> tuple[Prompt, Array]:
    return jax.vmap(task.sample)(keys)


@eqx.filter_jit
def _outputs(learner: Learner, prompts: Prompt) -> tuple[Array, Array]:
    return jax.vmap(lambda prompt: (predict(learner, prompt), sensitivity(learner, prompt)))(prompts)


def _squares(predictions: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        return np.stack([(predictions**2).sum(axis=1), (slopes**2).sum(axis=(1, 2))], axis=1)
