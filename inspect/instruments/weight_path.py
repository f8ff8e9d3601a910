"""Weights over training."""

from ..instrument import Content, register_instrument
from ..subject import Subject
from ..weights.weight_path import weight_path


@register_instrument(
    "weight-path",
    title="Weights over training",
    question="The first head at six of the stored steps, on one scale.",
    order=50,
)
def measure(subject: Subject) -> Content:
    from ..behaviour.training_path_plot import weight_path_figure

    path = weight_path(subject.steps)
    return Content(
        figure=weight_path_figure(path),
        alternative="W_KQ and W_PV of the first head at six stored steps.",
        numbers=path,
    )
