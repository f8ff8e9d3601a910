"""A checkpoint as one object, by name or path: all that is asked of it, each part read when it is first asked for."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from ..train.recipes.recipe import Recipe
from ..train.tasks.task import Task
from ..train.tuning.baselines import baselines_of
from ..zoo.errors import CheckpointError, NotApplicable
from ..zoo.names import names_checkpoint
from ..zoo.prompt import Learner
from ..zoo.storage.card import Card
from ..zoo.storage.checkpoint import checkpoint_folder, load, read_card, settings_of
from ..zoo.text import one_line
from .report.card_tables import card_tables
from .stored_steps import stored_models


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint by name or path, at the end of its training or at a kept `step`.

    Args:
        source: a name, as "lsa", or the path of a folder.
        step: a kept step of its training; the end unless given.

    What is not there **raises** `NotApplicable` when it is asked for; a damaged file, `CheckpointError`. Reading writes nothing. Functions
    that take the path of a checkpoint take this, too.

    Example:
        >>> checkpoint = iclzoo.Checkpoint("lsa-fast")
        >>> checkpoint.task.num_examples, checkpoint.at(0).input_dim, [*checkpoint.baselines]
        (10, 10, ['gd-1'])
    """

    source: str | Path
    step: int | None = None

    @classmethod
    def of(
        cls,
        model: Learner,
        task: Task,
        *,
        name: str = "learner",
        steps: Mapping[int, Any] | None = None,
        baselines: Mapping[str, Learner] | None = None,
    ) -> "Checkpoint":
        """A learner in memory in place of one on disk; `steps` are the model at points of its training, `baselines` what to compare it
        with."""
        checkpoint = cls(name)
        vars(checkpoint).update(
            name=name, model=model, task=task, card=Card(), steps=dict(steps or {}), baselines=dict(baselines or {})
        )
        return checkpoint

    def _repr_html_(self) -> str:
        """The card and its metrics, as a notebook shows them."""
        return "".join(table._repr_html_() for table in card_tables(self.name, self.card))

    def __fspath__(self) -> str:
        return str(checkpoint_folder(self.source))

    @cached_property
    def name(self) -> str:
        """The name of its folder, whatever path leads there, and the step: `..` has one, too."""
        name = one_line(os.path.basename(os.path.abspath(self.source))) or "checkpoint"
        return name if self.step is None else f"{name} at step {self.step}"

    @cached_property
    def card(self) -> Card:
        """What its config.json says."""
        return read_card(self.source)

    @cached_property
    def model(self) -> Any:
        """The model, at the end of its training or at `step`."""
        return load(self.source, step=self.step)

    def at(self, step: int) -> Any:
        """The model at a kept step. **Raises** `CheckpointError` for one that was not kept."""
        if "steps" not in vars(self):
            return load(self.source, step=step)
        if step not in self.steps:
            raise CheckpointError(
                f"{self.name} keeps the steps {', '.join(map(str, self.steps)) or 'none'}, and not {step}"
            )
        return self.steps[step]

    @cached_property
    def recipe(self) -> Recipe:
        """How it was trained."""
        recipe = settings_of(self.card, "training")
        if not isinstance(recipe, Recipe):
            raise NotApplicable("the card names no recipe, so neither the task nor the baselines are known")
        return recipe

    @cached_property
    def task(self) -> Task:
        """What it was made for."""
        task = settings_of(self.card, "task")
        return task if isinstance(task, Task) else self.recipe.task

    @cached_property
    def baselines(self) -> dict[str, Learner]:
        """The recipe's baselines, each at its best."""
        return baselines_of(self.recipe.baselines, self.task)

    @property
    def first_baseline(self) -> tuple[str, Learner]:
        """The name and the learner of the first of the baselines."""
        if not self.baselines:
            raise NotApplicable("no baseline is named to compare the learner with")
        return next(iter(self.baselines.items()))

    @cached_property
    def steps(self) -> dict[int, Any]:
        """The model at each stored step of its training."""
        return stored_models(self.source)

    def read(self) -> None:
        """Read every file of the checkpoint. **Raises** `CheckpointError`, for a damaged one has no report."""
        _ = self.model, self.steps if self.card.steps else None


def checkpoint_named(value: Any) -> Checkpoint | None:
    """The checkpoint that a name, a path or a `Checkpoint` stands for; `None` for everything else."""
    if isinstance(value, Checkpoint):
        return value
    return (
        Checkpoint(value if isinstance(value, str) else Path(value))
        if isinstance(value, str | PathLike) and names_checkpoint(value)
        else None
    )
