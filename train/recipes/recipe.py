"""A recipe: everything that decides the outcome of a training."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from ...zoo.checks.annotations import Size
from ...zoo.checks.values import MAX_SEED, Each, FileName, Whole
from ...zoo.errors import ConfigError
from ...zoo.factory import check_hyperparameters
from ...zoo.storage.config import setting, to_config
from ...zoo.table import settings_table
from ..optimiser import Adam
from ..schedule import Ends, Every, Schedule
from ..tasks.regression import LinearRegression, Task
from ..tuning.baselines import Baseline


@setting("recipe")
@dataclass(frozen=True, repr=False)
class Recipe:
    """Train the registered `model` on fresh tasks, `batch_size` in each of `num_steps` steps, on the half-MSE of the query.

    `baselines` names the algorithms the learner is compared with, in the log and on the card (see `train/tuning/baselines.py`).
    `log` and `keep` say at which steps a row is logged and the weights are kept. `initial_values` sets arrays of the untrained
    model to a number, by their names on a card, as in a known W₀ ("W_0.value").
    """

    name: Annotated[str, FileName()]
    model: str
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    initial_values: Mapping[str, float] = field(default_factory=dict)
    task: Task = LinearRegression()
    optimiser: Adam = Adam()
    batch_size: Size = 2048
    num_steps: Size = 5000
    seed: Annotated[int, Whole(0, MAX_SEED)] = 0
    log: Schedule = Every(250)
    keep: Schedule = Ends()
    baselines: Annotated[tuple[str | Any, ...], Each(Baseline())] = ("gd-1",)
    description: str = ""
    reference: str = ""

    def __repr__(self) -> str:
        return f"<Recipe {self.name!r}: {self.model}, {self.num_steps:,} steps of {self.batch_size:,} tasks, seed {self.seed}>"

    def _repr_html_(self) -> str:
        """Every setting, as a notebook shows it."""
        return settings_table(f"recipe {self.name}", to_config(self))._repr_html_()

    def __post_init__(self):
        check_hyperparameters(self.model, self.hyperparameters)
        for dim in ("input_dim", "output_dim"):
            reads, has = self.hyperparameters.get(dim), getattr(self.task, dim)
            if reads is not None and reads != has:
                raise ConfigError(
                    f"the model reads prompts of {dim} {reads}, but the task has {has} ({type(self.task).__name__})"
                )
        if self.optimiser.warmup_steps >= self.num_steps:
            raise ConfigError(
                f"warmup_steps ({self.optimiser.warmup_steps}) must be fewer than num_steps ({self.num_steps})"
            )
        for schedule in (self.log, self.keep):
            schedule.steps(self.num_steps)
