"""Reproducing published results: what was claimed, our number beside the published one, a verdict, and the picture.

A `Result` names the claim, its source, the checkpoints it rests on, and a function that measures them on a `CheckpointSource`. The claims
are in `results.md`, in the order of the document; the functions in `results/`, by the kind of model they speak of.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...train.recipes.catalogue import recipe
from ...train.recipes.recipe import Recipe
from ...train.run import fit
from ...zoo.errors import ZooError
from ...zoo.storage.card import CARD_FILE
from ...zoo.storage.checkpoint import load, read_card
from ..estimates.estimate import Estimate
from ..pictures.style import AnyFigure, our_style

# The seed of the tasks that results are measured on: not that of any training or card.
RESULT_SEED = 2_000_003


@dataclass(frozen=True)
class Measurement:
    """One number of a result: what it is, what was published, what we measure, and the range it must lie in if the claim is true."""

    what: str
    published: str
    ours: Estimate
    low: float | int | None = None
    high: float | int | None = None

    @property
    def holds(self) -> bool:
        """Whether it is in its range; an undefined value is in none."""
        value = self.ours.value
        return (
            value is not None and (self.low is None or value >= self.low) and (self.high is None or value <= self.high)
        )

    @property
    def tolerance(self) -> str:
        if self.low is None:
            return f"≤ {self.high:g}"
        return f"≥ {self.low:g}" if self.high is None else f"{self.low:g} … {self.high:g}"


@dataclass(frozen=True)
class Outcome:
    """What a result comes to. `conditions` says how many tasks, which loss and which input range."""

    measurements: tuple[Measurement, ...]
    conditions: str
    figure: AnyFigure


@dataclass(frozen=True)
class CheckpointSource:
    """Where checkpoints are taken from: those that are shipped, or the runs in the folder `runs`."""

    runs: Path | None = None

    def place(self, name: str) -> str | Path:
        """What `load` and `read_card` want to be called with."""
        return name if self.runs is None else self.runs / name

    def load(self, name: str, *, step: int | None = None) -> Any:
        return load(self.place(name), step=step)

    def steps(self, name: str) -> tuple[int, ...]:
        """The points of training that were kept."""
        return read_card(self.place(name)).steps

    def train(self, recipe: Recipe) -> None:
        """Train by a recipe into its folder in `runs`, unless that is done; a run that was cut short goes on."""
        if self.runs is None:
            raise ZooError("a source of shipped checkpoints trains none; give it a folder of runs")
        folder = self.runs / recipe.name
        if not (folder / CARD_FILE).exists():
            fit(recipe, folder, resume=True)


@dataclass(frozen=True)
class Result:
    """A published result. `explanation` is the reason where our measurement contradicts it, which the measurements show."""

    id: str
    claim: str
    source: str
    checkpoints: tuple[str, ...]
    measure: Callable[[CheckpointSource], Outcome]
    explanation: str = ""


@dataclass(frozen=True)
class Reproduction:
    """A result and what came of it."""

    result: Result
    outcome: Outcome

    @property
    def reproduced(self) -> bool:
        return all(measurement.holds for measurement in self.outcome.measurements)

    @property
    def verdict(self) -> str:
        """ "reproduced", or "differs" with what differs and, where it is known, why."""
        if self.reproduced:
            return "reproduced"
        failed = "; ".join(measurement.what for measurement in self.outcome.measurements if not measurement.holds)
        return f"differs in: {failed}." + (f" {self.result.explanation}" if self.result.explanation else "")


def reproduce(result: Result, *, retrain_in: Path | None = None) -> Reproduction:
    """Measure a result on the shipped checkpoints, or on those that are first trained anew in the folder `retrain_in`."""
    source = CheckpointSource(retrain_in)
    if retrain_in is not None:
        for name in result.checkpoints:
            source.train(recipe(name))
    with our_style():  # results draw as they measure
        return Reproduction(result, result.measure(source))


def percent(mean: Estimate, of: float = 1.0) -> Estimate:
    """`mean` as a percentage of a number."""
    scale = 100 / of
    error = mean.standard_error
    return Estimate(None if mean.value is None else mean.value * scale, None if error is None else error * abs(scale))


def exact(value: float | None) -> Estimate:
    """A number without an uncertainty of its own."""
    return Estimate(None if value is None else float(value), None)
