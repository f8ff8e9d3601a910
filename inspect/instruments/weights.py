"""Weights."""

from ...zoo.errors import NotApplicable
from ..instrument import MOST_HEADS, Content, register_instrument
from ..subject import Subject
from ..weights.interpolation import implied_construction
from ..weights.weight_products import gauge_fixed


@register_instrument(
    "weights",
    title="Weights",
    question="The products that decide what a layer does, gauge fixed; below, the step of GD++ that they imply, and nothing else.",
    order=30,
)
def measure(subject: Subject) -> Content:
    from ..weights.heatmap import heatmap

    layers = gauge_fixed(subject.model)
    heads = sum(layer.num_heads for layer in layers)
    if heads > MOST_HEADS:
        raise NotApplicable(
            f"{heads} heads are too many for a page; see them with iclzoo heatmap {subject.name} --head K"
        )
    try:
        beside = implied_construction(subject.model)
    except NotApplicable:
        beside = None
    return Content(
        figure=heatmap(subject.model, beside=beside, names=(subject.name, "the implied steps")),
        alternative=f"Heatmaps of W_KQ and W_PV of {subject.name}, gauge fixed.",
        numbers=layers,
    )
