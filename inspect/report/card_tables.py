"""A card as tables, without JAX."""

from collections.abc import Mapping
from typing import Any

from ...zoo.errors import CardError
from ...zoo.storage.card import Card
from ...zoo.table import Table, call_text, value_text

ALIGNMENT_TASKS = 100_000  # of the alignment on a card, at most
# The columns of the alignment measures, and where they are in an `Alignment`.
ALIGNMENT = {
    "prediction distance": "prediction_distance",
    "sensitivity distance": "sensitivity_distance",
    "sensitivity cosine": "sensitivity_cosine",
}


def card_tables(name: str, card: Card) -> tuple[Table, ...]:
    """A card: what it is, and its metrics.

    **Raises** `CardError` if the metrics have another form than those of `Metrics`.
    """
    table = Table(name, ("", ""))
    table.add("description", card.description)
    table.add("reference", card.reference)
    table.add("model", call_text(card.model, card.hyperparameters))
    table.add("task", value_text(card.task))
    training = {
        entry: value for entry, value in card.training.items() if entry not in ("task", "description", "reference")
    }
    table.add("training", value_text(training))
    table.add("steps kept", ", ".join(map(str, card.steps)) or "none")
    table.add("tensors", "\n".join(f"{tensor}: {shape}" for tensor, shape in card.tensors.items()))
    table.add("made with", call_text("", card.versions))
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
    table.add("half-MSE", mean_text(metrics["half_mse"]), *(mean_text(c["half_mse"]) for c in columns.values()))
    table.add("excess of the model", "", *(mean_text(c["excess"]) for c in columns.values()))
    table.add("  relative", "", *(_ratio(c["excess"]["value"], c["half_mse"]["value"]) for c in columns.values()))
    for name, measure in ALIGNMENT.items():
        table.add(name, "", *(mean_text(c["alignment"][measure]) for c in columns.values()))
    table.add(
        "tuned parameters",
        "",
        *("\n".join(f"{p} {value_text(v)}" for p, v in c["parameters"].items()) for c in columns.values()),
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


def _ratio(part: float | None, whole: float | None) -> str:
    return f"{part / whole:+.2%}" if part is not None and whole else "undefined"


def mean_text(mean: Mapping[str, float | None]) -> str:
    """A mean with its standard error; "undefined" where there is none."""
    value, error = mean["value"], mean["standard_error"]
    if value is None:
        return "undefined"
    return f"{value:.5f}" if error is None else f"{value:.5f} ± {error:.5f}"
