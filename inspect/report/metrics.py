"""The metrics on a card: a learner's loss beside its baselines, on the same tasks, and how alike they are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...train.losses import squared_error
from ...train.recipes.recipe import Recipe
from ...train.tasks.regression import Task
from ...train.tuning.baselines import baselines_of
from ...zoo.checks.gate import gated
from ...zoo.determinism import key_of
from ...zoo.errors import NotApplicable, ZooError
from ...zoo.prompt import Learner
from ...zoo.storage.card import Card
from ...zoo.storage.checkpoint import load, read_card, settings_of, write_card
from ...zoo.storage.tensors import named_arrays
from ...zoo.table import Table
from ..behaviour.alignment import Alignment, alignment
from ..checkpoint import Checkpoint
from ..estimates.estimate import Estimate
from ..estimates.means import mean_over_tasks
from ..estimates.plain import plain
from ..instrument import MEASURING_SEED, register_instrument
from ..measurement import OnAxes
from ..weights.implied_step import ImpliedStep, steps_where_implied
from .card_tables import ALIGNMENT_TASKS, metrics_tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CARD_TASKS = 200_000


@dataclass(frozen=True)
class Comparison:
    """A learner beside one baseline, on the same tasks."""

    parameters: Mapping[str, Any]  # of the baseline, tuned
    half_mse: Estimate  # of the baseline
    excess: Estimate  # half-MSE of the learner minus that of the baseline, paired
    alignment: Alignment


@dataclass(frozen=True)
class Metrics:
    """What a card says of a learner: half-MSE is ½ · mean over tasks of ‖ŷ − y‖²."""

    num_tasks: int
    seed: int
    half_mse: Estimate
    baselines: Mapping[str, Comparison]
    implied_steps: tuple[ImpliedStep, ...]  # what the weights imply, where they imply a step of GD++

    def to_json(self) -> dict[str, Any]:
        return plain(self)


@dataclass(frozen=True, repr=False)
class CardMetrics(OnAxes):
    """The metrics on a card: those of `Metrics`, as plain data."""

    metrics: Mapping[str, Any]

    title = "metrics of the card"
    size = (5.2, 3.2)

    @property
    def summary(self) -> str:
        return f"Half-MSE of {self.about.learner} beside its baselines."

    def rows(self) -> list[dict[str, Any]]:
        own = {"learner": self.about.learner, "half_mse": Estimate(**self.metrics["half_mse"])}
        return [
            own,
            *(
                {"learner": name, "half_mse": Estimate(**one["half_mse"]), "excess_of_model": Estimate(**one["excess"])}
                for name, one in self.metrics["baselines"].items()
            ),
        ]

    def tables(self) -> tuple[Table, ...]:
        return metrics_tables(self.metrics)

    def draw(self, ax: "Axes", **options: Any) -> None:
        from .metrics_plot import loss_bars

        loss_bars(self, ax=ax, **options)


@register_instrument(
    "metrics",
    title="Metrics of the card",
    question="The learner beside its baselines, each at its best, on the same tasks.",
    cost="none: they are on the card",
    order=10,
)
def metrics(checkpoint: Checkpoint) -> CardMetrics:
    """The metrics on the card of a checkpoint. **Raises** `NotApplicable` where the card has none.

    Example:
        >>> iclzoo.metrics("lsa-fast").records()[1]["learner"]
        'gd-1'
    """
    if not checkpoint.card.metrics:
        raise NotApplicable("the card has no metrics; measure them with iclzoo.measure_checkpoint(folder)")
    return CardMetrics(checkpoint.card.metrics)


@gated
def measure(
    learner: Learner,
    task: Task,
    baselines: tuple[str | Learner, ...],
    *,
    num_tasks: int = CARD_TASKS,
    seed: int = MEASURING_SEED,
) -> Metrics:
    """Measure a learner beside `baselines`, each at its best on `task`."""
    key = key_of(seed)
    tuned = baselines_of(baselines, task)
    own, others, excess = mean_over_tasks(_half_errors, (learner, tuned), task, num_tasks=num_tasks, key=key)
    return Metrics(
        num_tasks=num_tasks,
        seed=seed,
        half_mse=own,
        baselines={
            name: Comparison(
                parameters={path: np.asarray(array).tolist() for path, array in named_arrays(baseline).items()},
                half_mse=others[name],
                excess=excess[name],
                alignment=alignment(learner, baseline, task, num_tasks=min(num_tasks, ALIGNMENT_TASKS), key=key),
            )
            for name, baseline in tuned.items()
        },
        implied_steps=steps_where_implied(learner),
    )


@gated
def measure_checkpoint(folder: str | Path, *, num_tasks: int = CARD_TASKS) -> Card:
    """Measure a checkpoint on disk on its task, beside its recipe's baselines, and write the metrics on its card.

    **Raises** `ZooError` if its card names no recipe.
    """
    card = read_card(folder)
    recipe = settings_of(card, "training")
    if not isinstance(recipe, Recipe):
        raise ZooError(f"the card of {folder} names no recipe, so there is nothing to measure it against")
    metrics = measure(load(folder), recipe.task.population, recipe.baselines, num_tasks=num_tasks)
    card = replace(card, metrics=metrics.to_json())
    write_card(folder, card)
    return card


@gated
def standard_probe(recipe: Recipe, *, num_tasks: int = 2_000) -> Callable[[Learner], dict[str, float | None]]:
    """What a training logs beside the loss: alignment with the recipe's baselines, and the steps the gauge-fixed weights imply."""
    key, task = key_of(MEASURING_SEED), recipe.task.population

    def probe(learner: Learner) -> dict[str, float | None]:
        row: dict[str, float | None] = {}
        for name, baseline in baselines_of(recipe.baselines, task).items():  # tuned at the first call
            measured = alignment(learner, baseline, task, num_tasks=num_tasks, key=key)
            for measure in ("prediction_distance", "sensitivity_distance", "sensitivity_cosine"):
                row[f"{name} {measure}"] = getattr(measured, measure).value
        for step in steps_where_implied(learner):
            where = f"{step.layer} head {step.head}"
            row[f"{where} eta/N"] = step.step_size_over_num_examples
            row[f"{where} gamma"] = step.gamma
            row[f"{where} largest other"] = step.largest_other
        return row

    return probe


def _half_errors(learners: tuple[Learner, Mapping[str, Learner]], prompt, target):
    """½‖ŷ − y‖² of the learner, of each of the others, and how much more the learner's is."""
    learner, others = learners
    own = squared_error(learner, prompt, target) / 2
    errors = {name: squared_error(other, prompt, target) / 2 for name, other in others.items()}
    return own, errors, {name: own - error for name, error in errors.items()}
