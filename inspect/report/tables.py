"""Cards and metrics as tables."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

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
from ...zoo.text import printable
from ..behaviour.alignment import Alignment
from ..estimates.estimate import Estimate
from ..identification.verdict import Identification
from ..instrument import INSTRUMENTS
from ..weights.block_shares import BlockShares
from .metrics import ALIGNMENT_TASKS

# The columns of the alignment measures, and where they are in an `Alignment`.
ALIGNMENT = {
    "prediction distance": "prediction_distance",
    "sensitivity distance": "sensitivity_distance",
    "sensitivity cosine": "sensitivity_cosine",
}


def names_table(pattern: str) -> Table:
    """Every checkpoint, recipe and model whose name fits the pattern, and every plugin that failed."""
    table = new_table("", "kind", "name", "what it is")
    for name in list_checkpoints(pattern):
        add_row(table, "checkpoint", name, _described(name))
    for name in list_recipes(pattern):
        add_row(table, "recipe", name, recipe(name).description)
    for name in list_tasks(pattern):
        add_row(table, "task", name, _first_line(SETTINGS[name]))
    for registry in (MODELS, ALGORITHMS):
        for name in registry.names(pattern):
            add_row(table, registry.kind, name, _first_line(registry[name]))
    for name in INSTRUMENTS.names(pattern):
        add_row(table, "instrument", name, INSTRUMENTS[name].question)
    for name, reason in failed_plugins().items():
        if fnmatchcase(name, pattern):
            add_row(table, "plugin", name, f"failed: {reason}")
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
    table = new_table(name, "", "")
    table.show_header = False
    add_row(table, "description", card.description)
    add_row(table, "reference", card.reference)
    add_row(table, "model", _call(card.model, card.hyperparameters))
    add_row(table, "task", _setting(card.task))
    training = {
        entry: value for entry, value in card.training.items() if entry not in ("task", "description", "reference")
    }
    add_row(table, "training", _setting(training))
    add_row(table, "steps kept", ", ".join(map(str, card.steps)) or "none")
    add_row(table, "tensors", "\n".join(f"{tensor}: {shape}" for tensor, shape in card.tensors.items()))
    add_row(table, "made with", _call("", card.versions))
    if not card.metrics:
        return (table,)
    try:
        return (table, *metrics_tables(card))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CardError(
            f"the metrics on the card of {name} have another form than `iclzoo train` writes ({error!r:.80}); "
            "iclzoo.inspect.report.metrics.measure_checkpoint writes them anew"
        ) from None


def metrics_tables(card: Card) -> tuple[Table, ...]:
    """The learner beside its baselines, and the steps that its weights imply."""
    metrics, columns = card.metrics, card.metrics["baselines"]
    table = new_table(
        f"on {metrics['num_tasks']:,} tasks (alignment on {ALIGNMENT_TASKS:,} at most)", "", "model", *columns
    )
    add_row(table, "half-MSE", _mean(metrics["half_mse"]), *(_mean(c["half_mse"]) for c in columns.values()))
    add_row(table, "excess of the model", "", *(_mean(c["excess"]) for c in columns.values()))
    add_row(table, "  relative", "", *(_ratio(c["excess"]["value"], c["half_mse"]["value"]) for c in columns.values()))
    for name, measure in ALIGNMENT.items():
        add_row(table, name, "", *(_mean(c["alignment"][measure]) for c in columns.values()))
    add_row(
        table,
        "tuned parameters",
        "",
        *("\n".join(f"{p} {_value(v)}" for p, v in c["parameters"].items()) for c in columns.values()),
    )
    if not metrics["implied_steps"]:
        return (table,)
    steps = new_table(
        "the step of GD++ that the gauge-fixed weights imply", "head", "η/N", "γ", "largest other entry", "at"
    )
    for step in metrics["implied_steps"]:
        numbers = (step[name] for name in ("step_size_over_num_examples", "gamma", "largest_other"))
        add_row(steps, f"{step['layer']}, {step['head']}", *(f"{n:.4f}" for n in numbers), step["largest_other_at"])
    return table, steps


def demo_tables(
    losses: Mapping[str, Estimate], optimum: OneStep, alignments: Mapping[str, Alignment], num_tasks: int
) -> tuple[Table, ...]:
    """The losses of some learners beside the closed form of one step of gradient descent, and how well they align with it."""
    loss_table = new_table(f"half-MSE on {num_tasks:,} tasks", "learner", "half-MSE")
    for name, loss in losses.items():
        add_row(loss_table, name, _mean(asdict(loss)))
    add_row(loss_table, f"closed form, η* = {optimum.step_size:.4f}", f"{optimum.half_mse:.5f}")
    num_aligned = next(iter(alignments.values())).num_tasks
    alignment_table = new_table(f"alignment with one step of GD on {num_aligned:,} tasks", "learner", *ALIGNMENT)
    for name, measured in alignments.items():
        add_row(alignment_table, name, *(_mean(asdict(measured)[measure]) for measure in ALIGNMENT.values()))
    return loss_table, alignment_table


def identification_tables(identification: Identification) -> tuple[Table, ...]:
    """The verdict, and every candidate with the shares of predictions / sensitivities that it explains on each distribution."""
    verdict = new_table("", "", "")
    verdict.show_header = False
    add_row(verdict, "runs", identification.verdict or "none of these")
    add_row(verdict, "because", identification.reason)
    if identification.ranking and identification.verdict == identification.ranking[0].name:
        add_row(verdict, "its parameters, fitted", _parameters(identification.ranking[0].parameters))
        add_row(verdict, "the best for the task", _parameters(identification.best_for_task))
    for name, reason in identification.skipped.items():
        add_row(verdict, f"{name} was left out", reason)
    if not identification.ranking:
        return (verdict,)
    distributions = [agreement.distribution for agreement in identification.ranking[0].agreements]
    ranking = new_table(
        f"explained share of predictions / sensitivities, on {identification.num_tasks:,} tasks each",
        *("algorithm", "mean", "less than the first", *distributions, "parameters"),
    )
    for candidate in identification.ranking:
        pairs = [" / ".join(_share(mean) for mean in (a.prediction, a.sensitivity)) for a in candidate.agreements]
        means = [
            _share(mean) if mean.standard_error is None else f"{_share(mean)} ± {mean.standard_error:.2g}"
            for mean in (candidate.score, candidate.behind)
        ]
        add_row(ranking, candidate.name, *means, *pairs, _parameters(candidate.parameters))
    return verdict, ranking


def blocks_table(shares: Sequence[BlockShares]) -> Table:
    """The share of each block in the squared norm of the products; steps of GD have xx of W_KQ and yy of W_PV alone."""
    names = ("xx", "xy", "yx", "yy")
    table = new_table(
        "share of the squared norm", "head", *(f"W_KQ {name}" for name in names), *(f"W_PV {name}" for name in names)
    )
    for share in shares:
        cells = [
            "undefined" if matrix is None else f"{matrix[row, column]:.4f}"
            for matrix in (share.W_KQ, share.W_PV)
            for row in range(2)
            for column in range(2)
        ]
        add_row(table, f"{share.layer}, {share.head}", *cells)
    return table


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


def new_table(title: str, *columns: str) -> Table:
    """A table whose title and headers are plain text: nothing in them is markup."""
    table = Table(title=Text(printable(title), "bold") if title else None, box=box.MARKDOWN, title_justify="left")
    for column in columns:
        table.add_column(_text(column), overflow="fold")
    return table


def add_row(table: Table, *cells: str) -> None:
    """Add a row of plain text: nothing in it is markup."""
    table.add_row(*map(_text, cells))


def _text(text: str) -> Text:
    return Text(printable(text))


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
