"""Conserved quantities."""

from ..balance import balance_path
from ..instrument import Content, register_instrument
from ..subject import Subject


@register_instrument(
    "balance",
    title="Conserved quantities",
    question="Differences of norms that gradient flow conserves; Adam need not.",
    order=90,
)
def measure(subject: Subject) -> Content:
    from ..balance_plot import balance_figure

    path = balance_path(subject.steps)
    return Content(figure=balance_figure(path), alternative="Differences that gradient flow conserves.", numbers=path)
