"""Training."""

from ...zoo.errors import NotApplicable
from ..behaviour.training_path import alignment_path
from ..instrument import Content, register_instrument
from ..subject import Subject
from ..weights.weight_path import weight_path


@register_instrument(
    "training",
    title="Training",
    question="Half-MSE, alignment with the first baseline, and the steps that the weights imply, at every stored step.",
    order=60,
)
def measure(subject: Subject) -> Content:
    from ..behaviour.training_path_plot import training_figure

    if not subject.baselines:
        raise NotApplicable("no baseline is named to compare the training with")
    name, baseline = next(iter(subject.baselines.items()))
    weights = weight_path(subject.steps)
    aligned = alignment_path(
        subject.steps, name, baseline, subject.task, num_tasks=min(subject.num_tasks, 2_000), key=subject.key
    )
    return Content(
        figure=training_figure(weights, aligned),
        alternative=f"Loss, alignment with {name}, and the steps that the weights imply, over training.",
        numbers={"alignment": aligned, "implied": weights.implied},
    )
