"""Reproducing published results: what was claimed, our number beside the published one, a verdict, and the picture.

A `Result` names the claim, its source, the checkpoints it rests on, and a function that measures them on a `Shelf`. The results
themselves are in `inspect/results/`, by the kind of model they speak of.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from ...train.recipes.catalogue import recipe
from ...train.recipes.recipe import Recipe
from ...train.run import fit
from ...zoo.errors import ZooError
from ...zoo.storage.card import CARD_FILE
from ...zoo.storage.checkpoint import load, read_card
from ..estimates.estimate import Mean
from ..pictures.style import our_style

# The seed of the tasks that results are measured on: not that of any training or card.
RESULT_SEED = 2_000_003


@dataclass(frozen=True)
class Bar:
    """What a number must come to if the claim is true: from `low` to `high`, either of them open."""

    low: float | None = None
    high: float | None = None

    def holds(self, value: float | None) -> bool:
        """An undefined value meets no bar."""
        return (
            value is not None and (self.low is None or value >= self.low) and (self.high is None or value <= self.high)
        )

    def __str__(self) -> str:
        if self.low is None:
            return f"≤ {self.high:g}"
        return f"≥ {self.low:g}" if self.high is None else f"{self.low:g} … {self.high:g}"


@dataclass(frozen=True)
class Finding:
    """One number of a result: what it is, what was published, what we measure, and the bar that decides."""

    what: str
    published: str
    ours: Mean
    bar: Bar

    @property
    def holds(self) -> bool:
        return self.bar.holds(self.ours.value)


@dataclass(frozen=True)
class Outcome:
    """What a result comes to. `conditions` says how many tasks, which loss and which input range."""

    findings: tuple[Finding, ...]
    conditions: str
    figure: Figure


@dataclass(frozen=True)
class Shelf:
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
            raise ZooError("a shelf of shipped checkpoints trains none; give it a folder of runs")
        folder = self.runs / recipe.name
        if not (folder / CARD_FILE).exists():
            fit(recipe, folder, resume=True)


@dataclass(frozen=True)
class Result:
    """A published result. `because` is the reason where our measurement contradicts it, which the findings show."""

    id: str
    claim: str
    source: str
    checkpoints: tuple[str, ...]
    measure: Callable[[Shelf], Outcome]
    because: str = ""


@dataclass(frozen=True)
class Reproduction:
    """A result and what came of it."""

    result: Result
    outcome: Outcome

    @property
    def reproduced(self) -> bool:
        return all(finding.holds for finding in self.outcome.findings)

    @property
    def verdict(self) -> str:
        """ "reproduced", or "differs" with what differs and, where it is known, why."""
        if self.reproduced:
            return "reproduced"
        failed = "; ".join(finding.what for finding in self.outcome.findings if not finding.holds)
        return f"differs in: {failed}." + (f" {self.result.because}" if self.result.because else "")


def reproduce(result: Result, *, retrain_in: Path | None = None) -> Reproduction:
    """Measure a result on the shipped checkpoints, or on those that are first trained anew in the folder `retrain_in`."""
    shelf = Shelf(retrain_in)
    if retrain_in is not None:
        for name in result.checkpoints:
            shelf.train(recipe(name))
    with our_style():  # results draw as they measure
        return Reproduction(result, result.measure(shelf))


def percent(mean: Mean, of: float = 1.0) -> Mean:
    """`mean` as a percentage of a number."""
    scale = 100 / of
    error = mean.standard_error
    return Mean(None if mean.value is None else mean.value * scale, None if error is None else error * abs(scale))


def exact(value: float | None) -> Mean:
    """A number without an uncertainty of its own."""
    return Mean(None if value is None else float(value), None)
