"""Cards and metrics as tables."""

from collections.abc import Mapping
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import Any

from ...train.recipes.catalogue import list_recipes, recipe
from ...train.tasks.task import list_tasks
from ...train.tuning.step_size import OneStep
from ...zoo.algorithm import ALGORITHMS
from ...zoo.errors import CheckpointError
from ...zoo.factory import MODELS
from ...zoo.registry import failed_plugins
from ...zoo.storage.checkpoint import list_checkpoints, read_card
from ...zoo.storage.config import SETTINGS
from ...zoo.table import Table
from ..behaviour.alignment import Alignment
from ..estimates.estimate import Estimate
from ..identification.verdict import Identification
from ..instrument import INSTRUMENTS, in_order
from .card_tables import ALIGNMENT, mean_text


def names_table(pattern: str) -> Table:
    """Every checkpoint, recipe and model whose name fits the pattern, and every plugin that failed."""
    table = Table("", ("kind", "name", "what it is"))
    for name in list_checkpoints(pattern):
        table.add("checkpoint", name, _described(name))
    for name in list_recipes(pattern):
        table.add("recipe", name, recipe(name).description)
    for name in list_tasks(pattern):
        table.add("task", name, _first_line(SETTINGS[name]))
    for registry in (MODELS, ALGORITHMS):
        for name in registry.names(pattern):
            table.add(registry.kind, name, _first_line(registry[name]))
    for name in INSTRUMENTS.names(pattern):
        table.add("instrument", name, INSTRUMENTS[name].question)
    for name, reason in failed_plugins().items():
        if fnmatchcase(name, pattern):
            table.add("plugin", name, f"failed: {reason}")
    return table


def instruments_table() -> Table:
    """Every instrument, what it asks, and what it costs."""
    table = Table("", ("instrument", "question", "cost"))
    for one in in_order():
        table.add(one.name, one.question, one.cost)
    return table


def _first_line(thing: Any) -> str:
    return (thing.__doc__ or "").strip().split("\n")[0]


def _described(checkpoint: str) -> str:
    """What the card of a checkpoint says it is, or what is wrong with the card."""
    try:
        return read_card(checkpoint).description
    except (CheckpointError, OSError) as error:
        return f"damaged: {error}"


def demo_tables(
    losses: Mapping[str, Estimate], optimum: OneStep, alignments: Mapping[str, Alignment], num_tasks: int
) -> tuple[Table, ...]:
    """The losses of some learners beside the closed form of one step of gradient descent, and how well they align with it."""
    loss_table = Table(f"half-MSE on {num_tasks:,} tasks", ("learner", "half-MSE"))
    for name, loss in losses.items():
        loss_table.add(name, mean_text(asdict(loss)))
    loss_table.add(f"closed form, η* = {optimum.step_size:.4f}", f"{optimum.half_mse:.5f}")
    num_aligned = next(iter(alignments.values())).num_tasks
    alignment_table = Table(f"alignment with one step of GD on {num_aligned:,} tasks", ("learner", *ALIGNMENT))
    for name, measured in alignments.items():
        alignment_table.add(name, *(mean_text(asdict(measured)[measure]) for measure in ALIGNMENT.values()))
    return loss_table, alignment_table


def identification_tables(identification: Identification) -> tuple[Table, ...]:
    """The verdict, and every candidate with the shares of predictions / sensitivities that it explains on each distribution."""
    verdict = Table("", ("", ""))
    verdict.add("runs", identification.verdict or "none of these")
    verdict.add("because", identification.reason)
    if identification.ranking and identification.verdict == identification.ranking[0].name:
        verdict.add("its parameters, fitted", _parameters(identification.ranking[0].parameters))
        verdict.add("the best for the task", _parameters(identification.best_for_task))
    for name, reason in identification.skipped.items():
        verdict.add(f"{name} was left out", reason)
    if not identification.ranking:
        return (verdict,)
    distributions = [one.distribution for one in identification.ranking[0].explained]
    ranking = Table(
        f"explained share of predictions / sensitivities, on {identification.num_tasks:,} tasks each",
        ("algorithm", "in training", "less than the first", *distributions, "parameters"),
    )
    for candidate in identification.ranking:
        pairs = [" / ".join(_share(mean) for mean in (a.prediction, a.sensitivity)) for a in candidate.explained]
        means = [
            _share(mean) if mean.standard_error is None else f"{_share(mean)} ± {mean.standard_error:.2g}"
            for mean in (candidate.score, candidate.behind)
        ]
        ranking.add(candidate.name, *means, *pairs, _parameters(candidate.parameters))
    return verdict, ranking


def _share(share: Estimate) -> str:
    """Four decimals of what lies between −10 and 10."""
    if share.value is None:
        return "undefined"
    return f"{share.value:.4f}" if abs(share.value) < 10 else f"{share.value:.2g}"


def _parameters(parameters: Mapping[str, Any]) -> str:
    """Parameters by name; of a matrix, its size, and of one that does not matter, a dash."""
    return "\n".join(f"{name} {_parameter(value)}" for name, value in parameters.items()) or "none"


def _parameter(value: Any) -> str:
    if isinstance(value, list):
        inner = value[0] if value else None
        return f"{len(value)} × {len(inner)}" if isinstance(inner, list) else f"[{', '.join(map(_parameter, value))}]"
    return "–" if value is None else f"{value:.5g}"
