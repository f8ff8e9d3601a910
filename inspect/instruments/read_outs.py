"""Read-out after every layer."""

from ..behaviour.rollouts import read_outs
from ..instrument import Content, register_instrument
from ..subject import Subject


@register_instrument(
    "read-outs",
    title="Read-out after every layer",
    question="What the query's token predicts on its way.",
    order=130,
)
def measure(subject: Subject) -> Content:
    from ..behaviour.rollouts_plot import read_outs_figure

    found = read_outs(subject.model, subject.task, num_tasks=subject.num_tasks, key=subject.key)
    return Content(
        figure=read_outs_figure(found, name=subject.name),
        alternative="Half-MSE of the prediction read out after every layer.",
        numbers=found,
    )
