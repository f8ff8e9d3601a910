"""Copying phase."""

from ..activations.token_jacobians import NUM_TASKS, copying_path, token_map
from ..instrument import Content, register_instrument
from ..subject import Subject


@register_instrument(
    "copying",
    title="Copying phase",
    question="How the first layer's output at an input's token moves with that token, with its label's and with others.",
    order=180,
)
def measure(subject: Subject) -> Content:
    from ..activations.token_jacobians_plot import copying_figure

    num_tasks = min(subject.num_tasks, NUM_TASKS)
    path = copying_path(subject.steps, subject.task, num_tasks=num_tasks, key=subject.key)
    tokens = token_map(subject.model, subject.task, num_tasks=num_tasks, key=subject.key)
    return Content(
        figure=copying_figure(path, tokens),
        alternative="Derivative norms of the first layer over training, and token by token at the end.",
        numbers={"path": path, "tokens": tokens},
    )
