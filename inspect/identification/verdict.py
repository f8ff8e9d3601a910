"""Which algorithm does a learner run?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from ...train.tasks.out_of_distribution import inside_and_outside
from ...train.tasks.regression import Task
from ...train.tuning.baselines import best_baseline
from ...zoo.checks.gate import gated
from ...zoo.determinism import fixed_settings, typed
from ...zoo.errors import NotApplicable, UnknownNameError, ZooError
from ...zoo.prompt import Learner, Prompt
from ...zoo.table import Table
from ..estimates.estimate import Estimate
from ..estimates.plain import plain
from ..instrument import FIXED_KEY, OWN_TASK, register_instrument
from ..measurement import OnFigure
from .candidates import Fit, Predictions, default_candidates, fit_candidate
from .explained_variance import CHUNK, Comparison, ExplainedVariance, compare, draw, mean_share, outputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

TUNING_TASKS = 5 * CHUNK
ENOUGH = 0.95  # what an algorithm must explain in training, of predictions and of sensitivities, for a verdict
CLEARLY = 0.01  # an explained share larger by this much is worth more parameters …
MUCH_LESS = 0.1  # … and so is leaving less than this part of what a simpler algorithm leaves …
NOTHING_LEFT = 1e-6  # … unless that is within rounding
CONSTANT = 1e-6  # predictions that differ by this part of themselves are one number
NEGLIGIBLE = 1e-4  # of the mean square of the targets: predictions smaller than that are called 0


@dataclass(frozen=True)
class Candidate:
    """An algorithm, tuned to the learner, and how much of the learner it explains on each distribution, the training one first."""

    name: str
    algorithm: Learner
    parameters: Mapping[str, Any]  # tuned to the learner's predictions
    num_parameters: int
    explained: tuple[ExplainedVariance, ...]
    score: Estimate  # the mean of what it explains of predictions and of sensitivities in training
    behind: Estimate  # the score of the first candidate minus this one's, paired over tasks
    contains_first: bool  # the first one is a special case of it, so that it cannot be ruled out by agreeing less

    @property
    def least(self) -> float | None:
        """The smaller of its explained shares in training; `None` where neither is defined."""
        return min(self._defined(self.explained[0]), default=None)

    def carries(self) -> Iterator[str]:
        """How far it explains the learner outside the training distribution, in words."""
        for one in self.explained[1:]:
            shares = self._defined(one)
            share = sum(shares) / len(shares) if shares else 0.0
            text = f"{_percent(share) if share > 0 else 'nothing'} on {one.distribution}"
            both = one.num_both_diverging / one.num_tasks
            yield f"{text}, where both diverge on {_percent(both)} of tasks" if both else text

    @staticmethod
    def _defined(one: ExplainedVariance) -> list[float]:
        return [mean.value for mean in (one.prediction, one.sensitivity) if mean.value is not None]


@dataclass(frozen=True, repr=False)
class Identification(OnFigure):
    """What a learner was compared with, and which of it, if any, the learner runs."""

    verdict: str | None  # the name of the algorithm; None: none of these
    reason: str  # how sure that is, in a sentence
    ranking: tuple[Candidate, ...]
    best_for_task: Mapping[str, Any]  # the parameters with which the algorithm would be at its best on the task itself
    skipped: Mapping[str, str]  # candidates that do not apply, and why
    relative_power: float | None  # E‖ŷ‖² / E‖y‖²
    num_tasks: int  # in each distribution
    num_tuning_tasks: int

    title = "which algorithm is it?"

    @property
    def summary(self) -> str:
        return f"{self.about.learner} runs {self.verdict or 'none of these'}: {self.reason}."

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "algorithm": candidate.name,
                "score": candidate.score,
                "behind": candidate.behind,
                "num_parameters": candidate.num_parameters,
                "distribution": one.distribution,
                "prediction": one.prediction,
                "sensitivity": one.sensitivity,
            }
            for candidate in self.ranking
            for one in candidate.explained
        ]

    def tables(self) -> tuple[Table, ...]:
        from ..report.tables import identification_tables

        return identification_tables(self)

    def to_dict(self) -> dict[str, Any]:
        named = [vars(candidate) | {"algorithm": type(candidate.algorithm).__name__} for candidate in self.ranking]
        return {"about": plain(self.about), **plain(vars(self) | {"ranking": named, "about_": None})}

    def draw(self, figure: "Figure | SubFigure | None", **options: Any) -> "Figure | SubFigure":
        from .verdict_plot import identification_figure

        return identification_figure(self, figure=figure, **{"name": self.about.learner, **options})


@register_instrument(
    "identify",
    title="Which algorithm is it?",
    question="Each algorithm is tuned to the learner; explained variance is the share of its predictions and sensitivities that "
    "it explains, inside and outside the training distribution.",
    cost="a minute",
    order=20,
    formerly=("identification",),
)
@gated
def identify(
    learner: Learner,
    task: Task = OWN_TASK,
    *,
    candidates: Sequence[str | Learner] | None = None,
    num_tasks: int = 5_000,
    key: PRNGKeyArray = FIXED_KEY,
) -> Identification:
    """Which algorithm a learner runs: every candidate is tuned to it, and they are ranked by how much of it they explain.

        explained share = 1 − Σ min(‖ŷ − ŷ'‖², c) / Σ min(‖ŷ‖², c),   and the same of sensitivities ∂ŷ/∂x_query

    ŷ being the learner's and ŷ' the candidate's (see `ExplainedVariance`). Parameters are tuned to the learner's predictions, so the η
    found is the learner's own; `best_for_task` gives the best one for the task beside it. Candidates are tuned on `TUNING_TASKS` tasks
    and measured on `num_tasks` others. The training distribution decides; inputs × 1.5 and inputs of another shape with the same
    second moment say how far the verdict carries.

    First comes the algorithm that explains most in training; but of two, the one with fewer parameters comes first unless the other
    explains more by more than two standard errors of their paired difference, and either by 0.01 or so that less than a tenth is left
    unexplained. The verdict is the first one's name where it explains at least 0.95 of predictions and of sensitivities in training, and
    otherwise `None`, except that a learner whose predictions are nearly nothing beside the targets predicts 0.

    Args:
        learner: a learner, or the name or path of a checkpoint.
        task: what it was trained on.
        candidates: names of algorithms (`iclzoo.list_algorithms`) and learners, which are taken as they are; by default the algorithms
            that suit the learner.
        num_tasks: how many, of each distribution.
        key: of the tasks.

    Raises:
        UnknownNameError: a name is none.
        NotApplicable: no candidate applies.

    Example:
        >>> iclzoo.identify("lsa-fast", candidates=["gd-1", "least-squares"], num_tasks=200).verdict
        'gd-1'
    """
    key = typed(key)
    with fixed_settings(learner, task, finite=False) as (learner, task):
        return _identify(learner, task, candidates, num_tasks, key)


def _identify(
    learner: Learner, task: Task, candidates: Sequence[str | Learner] | None, num_tasks: int, key: PRNGKeyArray
) -> Identification:
    key_tune, *keys = jr.split(key, 4)
    prompts, targets, predictions = _tuning_tasks(learner, task, key_tune)
    usable = jnp.isfinite(predictions).all(axis=1)
    if not usable.all():
        prompts, targets, predictions = jax.tree.map(lambda array: array[usable], (prompts, targets, predictions))
    own, whole = (float(np.square(np.asarray(values, np.float64)).sum()) for values in (predictions, targets))
    relative_power = own / whole if whole else None
    result = Identification(
        verdict=None,
        reason="",
        ranking=(),
        best_for_task={},
        skipped={},
        relative_power=relative_power,
        num_tasks=num_tasks,
        num_tuning_tasks=len(predictions),
    )
    if len(predictions) == 0:
        return replace(result, reason="its predictions are not finite on any task")
    if not predictions.any():
        return replace(result, verdict="zero", reason="its prediction is 0 on every task")
    if bool((abs(predictions - predictions[:1]) <= CONSTANT * abs(predictions[:1])).all()):
        value = ", ".join(f"{entry:.4g}" for entry in np.asarray(predictions[0]))
        return replace(result, reason=f"it predicts {value} whatever the prompt")

    fits, skipped = _fits(candidates or default_candidates(learner), learner, prompts, predictions)
    algorithms = {name: fit.algorithm for name, fit in fits.items()}
    compared = [
        compare(learner, algorithms, other, distribution=distribution, num_tasks=num_tasks, key=k)
        for (distribution, other), k in zip(inside_and_outside(task).items(), keys, strict=False)
    ]
    ranking = _rank(fits, {name: [measured[name] for measured in compared] for name in fits})
    verdict, reason = _decide(ranking, relative_power)
    best = _best_for_task(fits[verdict], learner, task, prompts, targets) if verdict in fits else {}
    return replace(result, verdict=verdict, reason=reason, ranking=ranking, best_for_task=best, skipped=skipped)


def _best_for_task(fit: Fit, learner: Learner, task: Task, prompts: Prompt, targets: Predictions) -> Mapping[str, Any]:
    """The parameters with which the algorithm is at its best on the task, without a closed form on the tasks it was tuned on."""
    if fit.tuned is None:
        return {}
    if fit.tuned.has_closed_form:
        return fit.tuned.parameters(best_baseline(fit.name, task))
    return fit_candidate(fit.name, learner, prompts, targets).parameters


def _tuning_tasks(learner: Learner, task: Task, key: PRNGKeyArray) -> tuple[Prompt, Predictions, Predictions]:
    """Prompts, their targets, and what the learner predicts for them."""
    chunks = [(*drawn, outputs(learner, drawn[0])[0]) for drawn in draw(task, TUNING_TASKS, key)]
    prompts, targets, predictions = jax.tree.map(lambda *arrays: jnp.concatenate(arrays), *chunks)
    return prompts, targets, predictions.astype(targets.dtype)


def _fits(
    candidates: Sequence[str | Learner], learner: Learner, prompts: Prompt, predictions: Predictions
) -> tuple[dict[str, Fit], dict[str, str]]:
    """The candidates that apply, tuned, and of the others, why they do not."""
    fits, skipped = {}, {}
    for candidate in candidates:
        try:
            fit = fit_candidate(candidate, learner, prompts, predictions)
        except UnknownNameError:
            raise
        except ZooError as error:
            skipped[candidate if isinstance(candidate, str) else type(candidate).__name__] = str(error)
        else:
            fits[fit.name] = fit
    if not fits:
        raise NotApplicable(f"no candidate applies to this learner: {'; '.join(skipped.values()) or 'none was named'}")
    return fits, skipped


def _rank(fits: Mapping[str, Fit], compared: Mapping[str, list[Comparison]]) -> tuple[Candidate, ...]:
    scores = {name: mean_share(comparisons[:1]) for name, comparisons in compared.items()}
    order = sorted(fits, key=lambda name: (scores[name].value is None, -(scores[name].value or 0.0)))
    best = order[0]
    # Of algorithms with as many parameters, what imitates another comes after it; the sort is stable, so the better one comes first.
    simplest = sorted(
        order, key=lambda name: (fits[name].num_parameters, sum(fits[name].imitates(fits[o]) for o in order))
    )
    first = next(name for name in simplest if not _clearly_better(compared[best][:1], compared[name][:1]))
    order.remove(first)
    return tuple(
        Candidate(
            name=name,
            algorithm=fits[name].algorithm,
            parameters=fits[name].parameters,
            num_parameters=fits[name].num_parameters,
            explained=tuple(comparison.explained for comparison in compared[name]),
            score=scores[name],
            behind=mean_share(compared[first][:1], minus=compared[name][:1]),
            contains_first=name != first and fits[name].imitates(fits[first]),
        )
        for name in (first, *order)
    )


def _clearly_better(best: list[Comparison], other: list[Comparison]) -> bool:
    """Whether `best` is worth more parameters than `other` has."""
    if best[0] is other[0]:
        return False
    lead, left, left_by_best = mean_share(best, minus=other), mean_share(other).value, mean_share(best).value
    if lead.value is None or left is None or left_by_best is None:
        return True
    left, left_by_best = 1 - left, 1 - left_by_best
    significant = lead.value > 2 * (lead.standard_error or 0.0)
    return significant and left > NOTHING_LEFT and (lead.value > CLEARLY or left_by_best < MUCH_LESS * left)


def _decide(ranking: tuple[Candidate, ...], relative_power: float | None) -> tuple[str | None, str]:
    first, score = ranking[0], ranking[0].score.value
    if score is None or first.least is None:
        return None, "no candidate explains a defined share of it"
    explains = f"{first.name} explains {_percent(score)} of it in training"
    outside = "; ".join(first.carries())
    if first.least >= ENOUGH:
        explains += f" (outside: {outside})" if outside else ""
        rival = next((c for c in ranking[1:] if not c.contains_first and c.behind.value is not None), None)
        if rival is not None:
            explains += f"; {rival.name}, the next that cannot imitate it, {rival.behind.value:.4f}{_error(rival)} less"
        return first.name, explains
    if relative_power is not None and relative_power < NEGLIGIBLE:
        return "zero", f"its predictions have {_percent(relative_power)} of the mean square of the targets"
    least = f"{_percent(first.least)} where it explains least"
    return None, f"the best candidate, {explains}, {least}; {ENOUGH:.0%} of predictions and sensitivities is asked for"


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _error(candidate: Candidate) -> str:
    error = candidate.behind.standard_error
    return "" if error is None else f" ± {error:.4f}"
