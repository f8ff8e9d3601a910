"""Shifts."""

from ...zoo.errors import NotApplicable
from ..behaviour.shifts import shifts
from ..instrument import Content, register_instrument
from ..subject import Subject


@register_instrument(
    "shifts",
    title="Shifts",
    question="Half-MSE where one setting of the task changes; the training point is marked.",
    order=140,
)
def measure(subject: Subject) -> Content:
    from ..behaviour.shifts_plot import shifts_figure

    learners = {subject.name: subject.model, **subject.baselines}
    found, missing = shifts(learners, subject.task, num_tasks=subject.num_tasks, key=subject.key)
    if not found:
        raise NotApplicable("; ".join(missing.values()))
    return Content(
        figure=shifts_figure(found),
        alternative="Half-MSE of the model and its baselines under shifts of the task.",
        numbers={"found": found, "missing": missing},
    )
