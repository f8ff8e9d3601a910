"""Exact loss."""

from ..instrument import Content, register_instrument
from ..subject import Subject
from ..theory.exact_losses import loss_path


@register_instrument(
    "theory",
    title="Exact loss",
    question="The population half-MSE from the weights, by moments and without sampling.",
    order=70,
)
def measure(subject: Subject) -> Content:
    from ..theory.exact_losses_plot import loss_path_figure

    path = loss_path(subject.steps, subject.task)
    return Content(figure=loss_path_figure(path), alternative="Exact half-MSE over training.", numbers=path)
