"""What a report is about: a checkpoint, and all that its sections need of it."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jaxtyping import PRNGKeyArray

from ..train.baselines import best_baseline
from ..train.recipe import Recipe
from ..train.tasks import Task
from ..zoo.card import Card
from ..zoo.checkpoint import load, read_card
from ..zoo.config import from_config
from ..zoo.determinism import key_of
from ..zoo.errors import ZooError
from ..zoo.prompt import Learner
from ..zoo.text import one_line
from .figures import MEASURING_SEED
from .stored_steps import stored_models


@dataclass(frozen=True)
class Subject:
    """A checkpoint by name or path. Its parts are read when they are first asked for; **raises** `ZooError` where there are none."""

    source: str | Path
    num_tasks: int = 10_000

    @property
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
        recipe = from_config(dict(self.card.training))
        if not isinstance(recipe, Recipe):
            raise ZooError("the card names no recipe, so neither the task nor the baselines are known")
        return recipe

    @property
    def task(self) -> Task:
        return self.recipe.task

    @cached_property
    def baselines(self) -> dict[str, Learner]:
        """The recipe's baselines, each at its best."""
        return {name: best_baseline(name, self.task) for name in self.recipe.baselines}

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
