"""Task landscapes."""

from ..behaviour.landscapes import landscapes
from ..instrument import Content, register_instrument
from ..subject import Subject


@register_instrument(
    "landscapes",
    title="Task landscapes",
    question="The quadratic loss of single tasks of two inputs, with the learner's implied step and the gradient step.",
    order=150,
)
def measure(subject: Subject) -> Content:
    from ..behaviour.landscapes_plot import landscapes_figure

    found = landscapes(subject.model, subject.task, key=subject.key)
    return Content(
        figure=landscapes_figure(found, name=subject.name),
        alternative="The quadratic loss of six tasks, with the learner's step and the gradient step as arrows.",
        numbers=found,
    )
