"""Attention patterns."""

from ...zoo.errors import NotApplicable
from ..activations.attention_patterns import mean_patterns
from ..instrument import MOST_HEADS, Content, register_instrument
from ..subject import Subject


@register_instrument(
    "patterns",
    title="Attention patterns",
    question="Where each token attends: the root mean square over tasks, for a linear pattern changes its sign.",
    order=160,
)
def measure(subject: Subject) -> Content:
    from ..activations.attention_patterns_plot import patterns_figure

    found = mean_patterns(subject.model, subject.task, num_tasks=min(subject.num_tasks, 2_000), key=subject.key)
    heads = sum(len(layer.pattern) for layer in found.layers)
    if heads > MOST_HEADS:
        raise NotApplicable(
            f"{heads} heads are too many for a page; draw them with iclzoo.inspect.activations.attention_patterns_plot"
        )
    return Content(
        figure=patterns_figure(found, quantity="pattern_size"),
        alternative="Where each token attends, root mean square over tasks.",
        numbers=found,
    )
