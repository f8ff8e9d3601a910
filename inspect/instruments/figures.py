"""Figures of the card."""

from ...zoo.errors import NotApplicable
from ..instrument import Content, register_instrument
from ..report.tables import figures_tables
from ..subject import Subject


@register_instrument(
    "figures",
    title="Figures of the card",
    question="The learner beside its baselines, each at its best, on the same tasks.",
    order=10,
)
def measure(subject: Subject) -> Content:
    if not subject.card.figures:
        raise NotApplicable(
            "the card has no figures; measure them with iclzoo.inspect.report.metrics.measure_checkpoint"
        )
    return Content(numbers=subject.card.figures, tables=figures_tables(subject.card))
