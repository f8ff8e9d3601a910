"""Metrics of the card."""

from ...zoo.errors import NotApplicable
from ..instrument import Content, register_instrument
from ..report.tables import metrics_tables
from ..subject import Subject


@register_instrument(
    "metrics",
    title="Metrics of the card",
    question="The learner beside its baselines, each at its best, on the same tasks.",
    order=10,
)
def measure(subject: Subject) -> Content:
    if not subject.card.metrics:
        raise NotApplicable(
            "the card has no metrics; measure them with iclzoo.inspect.report.metrics.measure_checkpoint"
        )
    return Content(numbers=subject.card.metrics, tables=metrics_tables(subject.card))
