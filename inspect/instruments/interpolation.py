"""Interpolation."""

from ..instrument import Content, register_instrument
from ..subject import Subject
from ..weights.interpolation import implied_construction, interpolation


@register_instrument(
    "interpolation",
    title="Interpolation",
    question="Half-MSE on the line to the construction, in product space with the gauge removed; beside it the naive line.",
    order=110,
)
def measure(subject: Subject) -> Content:
    from ..weights.interpolation_plot import interpolation_figure

    construction = implied_construction(subject.model)
    path = interpolation(subject.model, construction, subject.task, num_tasks=subject.num_tasks, key=subject.key)
    names = (subject.name, "construction")
    return Content(
        figure=interpolation_figure(path, names=names),
        alternative=f"Half-MSE on the line from {names[0]} to the {names[1]}, with the gauge removed and without.",
        numbers=path,
    )
