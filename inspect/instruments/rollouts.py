"""Repeated application."""

from ..behaviour.rollouts import rollouts
from ..instrument import Content, register_instrument
from ..subject import Subject


@register_instrument(
    "rollouts",
    title="Repeated application",
    question="The layer applied again and again with damping λ, beside as many damped steps of gradient descent.",
    order=120,
)
def measure(subject: Subject) -> Content:
    from ..behaviour.rollouts_plot import rollouts_figure

    found = rollouts(subject.model, subject.task, num_tasks=subject.num_tasks, key=subject.key)
    return Content(
        figure=rollouts_figure(found, name=subject.name),
        alternative="Half-MSE against repeated application, for several dampings; and the share of diverging tasks.",
        numbers=found,
    )
