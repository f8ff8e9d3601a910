"""What a report is about: a checkpoint, and all that its sections need of it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jaxtyping import PRNGKeyArray

from ..train.recipes.recipe import Recipe
from ..train.tasks.regression import Task
from ..train.tuning.baselines import baselines_of
from ..zoo.determinism import key_of
from ..zoo.errors import NotApplicable
from ..zoo.prompt import Learner
from ..zoo.storage.card import Card
from ..zoo.storage.checkpoint import load, read_card, settings_of
from ..zoo.text import one_line
from .report.metrics import MEASURING_SEED
from .stored_steps import stored_models


@dataclass(frozen=True)
class Subject:
    """A checkpoint by name or path. Its parts are read when they are first asked for; **raises** `NotApplicable` where there are none."""

    source: Any  # a name, a path, or the models of a training by step
    num_tasks: int = 10_000

    @classmethod
    def of(
        cls,
        model: Learner,
        task: Task,
        *,
        name: str = "learner",
        steps: Mapping[int, Any] | None = None,
        baselines: Mapping[str, Learner] | None = None,
        num_tasks: int = 10_000,
    ) -> "Subject":
        """A learner in memory on a task; `steps` are the model at points of its training, `baselines` what to compare it with."""
        subject = cls(dict(steps or {}), num_tasks)
        vars(subject).update(name=name, model=model, task=task, card=Card(), baselines=dict(baselines or {}))
        return subject

    @cached_property
    def name(self) -> str:
        """The name of its folder, whatever path leads there: `..` has one, too."""
        return one_line(os.path.basename(os.path.abspath(self.source))) or "checkpoint"

    @cached_property
    def card(self) -> Card:
        return read_card(self.source)

    @cached_property
    def model(self) -> Any:
        return load(self.source)

    @cached_property
    def recipe(self) -> Recipe:
        recipe = settings_of(self.card, "training")
        if not isinstance(recipe, Recipe):
            raise NotApplicable("the card names no recipe, so neither the task nor the baselines are known")
        return recipe

    @cached_property
    def task(self) -> Task:
        return self.recipe.task

    @cached_property
    def baselines(self) -> dict[str, Learner]:
        """The recipe's baselines, each at its best."""
        return baselines_of(self.recipe.baselines, self.task)

    @cached_property
    def steps(self) -> dict[int, Any]:
        """The model at each stored step of its training."""
        return stored_models(self.source)

    def read(self) -> None:
        """Read every file of the checkpoint. **Raises** `CheckpointError`, for a damaged one has no report."""
        _ = self.model, self.steps if self.card.steps else None

    @property
    def key(self) -> PRNGKeyArray:
        """The key of the tasks that everything in a report is measured on."""
        return key_of(MEASURING_SEED)
