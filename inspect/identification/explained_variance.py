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
CAP = 100.0  # times the mean square of the targets: predictions beyond have diverged
PerTask = Float[np.ndarray, " num_tasks"]


@dataclass(frozen=True)
class ExplainedVariance:
    """The share of a learner's predictions and sensitivities that another one explains on one distribution of tasks, capped.

        prediction = 1 − Σ min(‖ŷ − ŷ'‖², c) / Σ min(‖ŷ‖², c),   c = 100·E‖y‖²
        sensitivity = 1 − Σ min(‖s − s'‖_F², c_s) / Σ min(‖s‖_F², c_s),   s = ∂ŷ/∂x_query,   c_s = c·d/E‖x_query‖²

    for the learner ŷ, the other one ŷ' and the targets y: the sums over tasks are no sums over a few that explode. 1 says that the two are
    the same, 0 that the other explains no more than predicting 0 does; less than 0 is worse than that. A learner diverges on a task where
    ‖ŷ‖² > c, or where it is not finite. Tasks on which both diverge say nothing of how alike they are: they are left out and counted.
    So are those where the learner itself is not finite. Undefined where the learner's own is zero on every task that is left.
    """

    distribution: str
    prediction: Estimate
    sensitivity: Estimate
    num_tasks: int
    num_not_finite: int  # tasks left out, the learner being not finite
    num_diverging: int  # tasks on which the learner diverges
    num_other_diverging: int
    num_both_diverging: int  # left out too


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
    """An `ExplainedVariance` and the shares it is made of."""

    explained: ExplainedVariance
    shares: tuple[Share, ...]  # of predictions and of sensitivities, without those that the learner leaves undefined


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
    powers, targets, queries = [], [], []
    errors: dict[str, list[np.ndarray]] = {name: [] for name in others}
    theirs: dict[str, list[np.ndarray]] = {name: [] for name in others}
    for prompts, target in draw(task, num_tasks, key):
        own = outputs(learner, prompts)
        powers.append(_squares(*own))
        targets.append((np.asarray(target, np.float64) ** 2).sum(axis=1))
        queries.append((np.asarray(prompts.query, np.float64) ** 2).sum(axis=1))
        for name, other in others.items():
            its = outputs(other, prompts)
            theirs[name].append(_squares(*its))
            errors[name].append(_squares(*(a - b for a, b in zip(its, own, strict=True))))
    cap = CAP * np.concatenate(targets)[:num_tasks].mean()
    per_input = np.concatenate(queries)[:num_tasks].mean() / task.input_dim
    caps = np.array([cap, cap / per_input if per_input else np.inf]) if cap else np.full(2, np.inf)
    power = np.concatenate(powers)[:num_tasks]
    return {
        name: _compare(
            np.concatenate(errors[name])[:num_tasks],
            power,
            np.concatenate(theirs[name])[:num_tasks],
            caps,
            distribution,
        )
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

    Tasks of different distributions are independent. Undefined where no share is.
    """
    sums, count = [], 0
    for index, comparison in enumerate(comparisons):
        shares, others = comparison.shares, minus[index].shares if minus else ()
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


def _compare(
    errors: np.ndarray, powers: np.ndarray, theirs: np.ndarray, caps: np.ndarray, distribution: str
) -> Comparison:
    finite = np.isfinite(powers).all(axis=1)
    diverges, other_diverges = (~(squares[:, 0] <= caps[0]) for squares in (powers, theirs))
    left_out = ~finite | (diverges & other_diverges)
    errors, powers = (
        np.where(left_out[:, None], 0.0, np.minimum(np.nan_to_num(values, nan=np.inf), caps))
        for values in (errors, powers)
    )
    found = [explained_share(errors[:, part], powers[:, part]) for part in (0, 1)]
    prediction, slope = (UNDEFINED if share is None else share.mean for share in found)
    explained = ExplainedVariance(
        distribution,
        prediction,
        slope,
        num_tasks=len(powers),
        num_not_finite=int((~finite).sum()),
        num_diverging=int(diverges.sum()),
        num_other_diverging=int(other_diverges.sum()),
        num_both_diverging=int((finite & diverges & other_diverges).sum()),
    )
    return Comparison(explained, tuple(share for share in found if share is not None))


@eqx.filter_jit
def _sample(task: Task, keys: Array) -> tuple[Prompt, Array]:
    return jax.vmap(task.sample)(keys)


@eqx.filter_jit
def _outputs(learner: Learner, prompts: Prompt) -> tuple[Array, Array]:
    return jax.vmap(lambda prompt: (predict(learner, prompt), sensitivity(learner, prompt)))(prompts)


def _squares(predictions: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        return np.stack([(predictions**2).sum(axis=1), (slopes**2).sum(axis=(1, 2))], axis=1)
