"""Conserved quantities."""

from ..instrument import Content, register_instrument
from ..subject import Subject
from ..weights.conserved_quantities import conserved_path


@register_instrument(
    "conserved-quantities",
    title="Conserved quantities",
    question="Differences of norms that gradient flow conserves; Adam need not.",
    order=90,
)
def measure(subject: Subject) -> Content:
    from ..weights.conserved_quantities_plot import conserved_figure

    path = conserved_path(subject.steps)
    return Content(figure=conserved_figure(path), alternative="Differences that gradient flow conserves.", numbers=path)
