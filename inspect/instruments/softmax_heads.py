"""Softmax heads."""

from ..activations.softmax_heads import softmax_heads
from ..instrument import Content, register_instrument
from ..subject import Subject


@register_instrument(
    "softmax-heads",
    title="Softmax heads",
    question="The difference of the heads' key-query products, each head's offset at zero scores, and the linear part that is left.",
    order=170,
)
def measure(subject: Subject) -> Content:
    from ..activations.softmax_heads_plot import softmax_heads_figure

    found = softmax_heads(subject.model, subject.task, num_tasks=subject.num_tasks, key=subject.key)
    return Content(
        figure=softmax_heads_figure(found),
        alternative="Differences of key-query products, the offset of each head, and the linear part left.",
        numbers=found,
    )
