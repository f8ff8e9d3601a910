"""Cards and metrics as tables."""

from collections.abc import Mapping
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import Any

from ...train.recipes.catalogue import list_recipes, recipe
from ...train.tasks.task import list_tasks
from ...train.tuning.step_size import OneStep
from ...zoo.algorithm import ALGORITHMS
from ...zoo.errors import CardError, CheckpointError
from ...zoo.factory import MODELS
from ...zoo.registry import failed_plugins
from ...zoo.storage.card import Card
from ...zoo.storage.checkpoint import list_checkpoints, read_card
from ...zoo.storage.config import SETTINGS
from ..behaviour.alignment import Alignment
from ..estimates.estimate import Estimate
from ..identification.verdict import Identification
from ..instrument import INSTRUMENTS, in_order
from ..table import Table
from .metrics import ALIGNMENT_TASKS

# The columns of the alignment measures, and where they are in an `Alignment`.
ALIGNMENT = {
    "prediction distance": "prediction_distance",
    "sensitivity distance": "sensitivity_distance",
    "sensitivity cosine": "sensitivity_cosine",
}


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


def card_tables(name: str, card: Card) -> tuple[Table, ...]:
    """A card: what it is, and its metrics.

    **Raises** `CardError` if the metrics have another form than those of `Metrics`.
    """
    table = Table(name, ("", ""))
    table.add("description", card.description)
    table.add("reference", card.reference)
    table.add("model", _call(card.model, card.hyperparameters))
    table.add("task", _setting(card.task))
    training = {
        entry: value for entry, value in card.training.items() if entry not in ("task", "description", "reference")
    }
    table.add("training", _setting(training))
    table.add("steps kept", ", ".join(map(str, card.steps)) or "none")
    table.add("tensors", "\n".join(f"{tensor}: {shape}" for tensor, shape in card.tensors.items()))
    table.add("made with", _call("", card.versions))
    if not card.metrics:
        return (table,)
    try:
        return (table, *metrics_tables(card.metrics))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CardError(
            f"the metrics on the card of {name} have another form than `iclzoo train` writes ({error!r:.80}); "
            "iclzoo.inspect.report.metrics.measure_checkpoint writes them anew"
        ) from None


def metrics_tables(metrics: Mapping[str, Any]) -> tuple[Table, ...]:
    """The metrics of a card: the learner beside its baselines, and the steps that its weights imply."""
    columns = metrics["baselines"]
    table = Table(
        f"on {metrics['num_tasks']:,} tasks (alignment on {ALIGNMENT_TASKS:,} at most)", ("", "model", *columns)
    )
    table.add("half-MSE", _mean(metrics["half_mse"]), *(_mean(c["half_mse"]) for c in columns.values()))
    table.add("excess of the model", "", *(_mean(c["excess"]) for c in columns.values()))
    table.add("  relative", "", *(_ratio(c["excess"]["value"], c["half_mse"]["value"]) for c in columns.values()))
    for name, measure in ALIGNMENT.items():
        table.add(name, "", *(_mean(c["alignment"][measure]) for c in columns.values()))
    table.add(
        "tuned parameters",
        "",
        *("\n".join(f"{p} {_value(v)}" for p, v in c["parameters"].items()) for c in columns.values()),
    )
    if not metrics["implied_steps"]:
        return (table,)
    steps = Table(
        "the step of GD++ that the gauge-fixed weights imply", ("head", "η/N", "γ", "largest other entry", "at")
    )
    for step in metrics["implied_steps"]:
        numbers = (step[name] for name in ("step_size_over_num_examples", "gamma", "largest_other"))
        steps.add(f"{step['layer']}, {step['head']}", *(f"{n:.4f}" for n in numbers), step["largest_other_at"])
    return table, steps


def demo_tables(
    losses: Mapping[str, Estimate], optimum: OneStep, alignments: Mapping[str, Alignment], num_tasks: int
) -> tuple[Table, ...]:
    """The losses of some learners beside the closed form of one step of gradient descent, and how well they align with it."""
    loss_table = Table(f"half-MSE on {num_tasks:,} tasks", ("learner", "half-MSE"))
    for name, loss in losses.items():
        loss_table.add(name, _mean(asdict(loss)))
    loss_table.add(f"closed form, η* = {optimum.step_size:.4f}", f"{optimum.half_mse:.5f}")
    num_aligned = next(iter(alignments.values())).num_tasks
    alignment_table = Table(f"alignment with one step of GD on {num_aligned:,} tasks", ("learner", *ALIGNMENT))
    for name, measured in alignments.items():
        alignment_table.add(name, *(_mean(asdict(measured)[measure]) for measure in ALIGNMENT.values()))
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
        ("algorithm", "mean", "less than the first", *distributions, "parameters"),
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


def _ratio(part: float | None, whole: float | None) -> str:
    return f"{part / whole:+.2%}" if part is not None and whole else "undefined"


def _mean(mean: Mapping[str, float | None]) -> str:
    """A mean with its standard error; "undefined" where there is none."""
    value, error = mean["value"], mean["standard_error"]
    if value is None:
        return "undefined"
    return f"{value:.5f}" if error is None else f"{value:.5f} ± {error:.5f}"


def _setting(config: Mapping[str, Any]) -> str:
    return _call(str(config.get("kind", "")), {name: value for name, value in config.items() if name != "kind"})


def _call(name: str, arguments: Mapping[str, Any]) -> str:
    """`name(argument=value, …)`, settings written alike."""
    return f"{name}({', '.join(f'{argument}={_value(value)}' for argument, value in arguments.items())})"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return _setting(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
