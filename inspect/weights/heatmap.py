"""The weights of a model as pictures: W_KQ and W_PV of every head, gauge fixed."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float

from ...zoo.checks.arguments import LEARNER
from ...zoo.checks.gate import gate
from ...zoo.errors import ArgumentError, HeadError, NotApplicable, ZooError
from ..instrument import register_instrument
from ..measurement import OnFigure
from .interpolation import implied_construction, match_heads
from .weight_products import Products, fix_gauge, products

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

Matrix = Float[np.ndarray, "embed_dim embed_dim"]


@dataclass(frozen=True)
class Head:
    """One head of one model, as it is drawn."""

    model: int  # 0, or 1 for the one beside
    layer: str
    index: int  # of the layer, from 0
    place: str  # the layer and the head, where there are several
    head: int
    W_KQ: Matrix
    W_PV: Matrix
    labels: tuple[str, ...]
    scale: float | None  # the c that was removed, W_KQ having been divided by it


@dataclass(frozen=True, repr=False)
class Weights(OnFigure):
    """W_KQ and W_PV of every head of a model, and those of another one after each."""

    heads: tuple[Head, ...]
    num_models: int
    what: str  # as the bar of colours says it
    names: tuple[str, str] | None = None  # of the models, where they are given

    title = "weights"

    @property
    def summary(self) -> str:
        return f"Heatmaps of W_KQ and W_PV of {self.about.learner}, {self.what}."

    def called(self, model: int) -> str:
        """What a model is called in the titles."""
        if self.names is not None:
            return self.names[model]
        beside = self.about.other or "the implied step"
        return beside if model else self.about.learner if self.num_models > 1 else ""

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "model": self.called(head.model),
                "layer": head.layer,
                "head": head.head,
                "product": product,
                "row": head.labels[row],
                "column": head.labels[column],
                "weight": matrix[row, column],
            }
            for head in self.heads
            for product, matrix in (("W_KQ", head.W_KQ), ("W_PV", head.W_PV))
            for row, column in np.ndindex(matrix.shape)
        ]

    def draw(self, figure: "Figure | SubFigure | None", **options: Any) -> "Figure | SubFigure":
        from .heatmap_plot import weights_figure

        return weights_figure(self, figure=figure, **options)


@register_instrument(
    "weights",
    title="Weights",
    question="The products that decide what a layer does, gauge fixed; below, the step of GD++ that they imply, and nothing else.",
    order=30,
)
@gate(minus=LEARNER)
def weights(
    model: Any,
    other: Any = None,
    *,
    minus: Any = None,
    fixed_gauge: bool = True,
    layer: int | None = None,
    head: int | None = None,
    names: tuple[str, str] | None = None,
) -> Weights:
    """W_KQ = W_Kᵀ W_Q ("QK") and W_PV = W_P W_V ("OV") of every layer and head.

    Args:
        model: a model with attention layers.
        other: a second one with as many layers and heads, shown below the first; by default the step of GD++ that the weights imply,
            where they imply one.
        minus: a model to subtract, its gauge fixed and its heads matched to those of `model`.
        fixed_gauge: remove the scale c of linear heads.
        layer: this layer only, counted from 0.
        head: this head of every layer only.
        names: of `model` and `other`, as the titles call them.

    Raises:
        NotApplicable: a model has no attention layer.
        ZooError: two models do not correspond.
        HeadError: there is no such layer or head.

    Example:
        >>> iclzoo.weights("lsa-fast").records()[0]["product"]
        'W_KQ'
    """
    if other is None and minus is None:
        with suppress(NotApplicable):
            other = implied_construction(model)
    return _weights(model, other, minus, fixed_gauge=fixed_gauge, layer=layer, head=head, names=names)


@gate(beside=LEARNER, minus=LEARNER)
def heatmap(
    model: Any,
    *,
    beside: Any = None,
    minus: Any = None,
    name: str | None = None,
    names: tuple[str, str] | None = None,
    fixed_gauge: bool = True,
    layer: int | None = None,
    head: int | None = None,
    product: Literal["W_KQ", "W_PV"] | None = None,
    annotate: bool | None = None,
    cmap: Any = None,
    figsize: tuple[float, float] | None = None,
    figure: "Figure | SubFigure | None" = None,
    ax: "Axes | None" = None,
) -> Any:
    """W_KQ and W_PV of every layer and head, all on one symmetric scale.

    The scale is logarithmic beyond the largest weight of the faintest panel, where another's is more than 20 times larger.
    The titles say by which c the gauge was fixed. Many heads stand in a grid, of at most 48 heads, and the title says so.

    Args:
        model: a model, or the name or path of a checkpoint.
        beside: a second model with as many layers and heads, such as a construction, drawn below the first.
        minus: a model to subtract, its gauge fixed and its heads matched.
        name: of the model, in the titles.
        names: of the two, by default "model" and "construction".
        fixed_gauge: remove the scale c of linear heads.
        layer: this layer only, counted from 0.
        head: this head of every layer only.
        product: this product only, which is what `ax` needs.
        annotate: write the values into the cells; by default where there are at most 12 rows.
        cmap: another colour map, with its middle at zero.
        figsize: inches.
        figure: a Figure or SubFigure to draw on.
        ax: axes to draw on; one `layer`, `head` and `product` must be chosen.

    Returns:
        The figure, or `ax`.

    Raises:
        NotApplicable: a model has no attention layer.
        ZooError: the two do not correspond.
        HeadError: there is no such layer or head.

    Example:
        >>> figure = iclzoo.heatmap("lsa-fast", name="trained")
    """
    from .heatmap_plot import product_heatmap

    if names is None:
        names = (name or "", "") if beside is None else (name or "model", "construction")
    found = _weights(model, beside, minus, fixed_gauge=fixed_gauge, layer=layer, head=head, names=names)
    if ax is None:
        return found.plot(figure=figure, product=product, annotate=annotate, cmap=cmap, figsize=figsize)
    if product is None or len(found.heads) != 1:
        raise ArgumentError(
            f"ax holds one panel, and this is {len(found.heads)} heads; choose product=, layer= and head=, or pass figure="
        )
    (one,) = found.heads
    return product_heatmap(
        getattr(one, product), product=product, labels=one.labels, title=name, values=annotate, cmap=cmap, ax=ax
    )


def _weights(
    model: Any,
    other: Any,
    minus: Any,
    *,
    fixed_gauge: bool,
    layer: int | None,
    head: int | None,
    names: tuple[str, str] | None,
) -> Weights:
    read = [_read(one, fixed_gauge) for one in (model, other) if one is not None]
    if minus is not None:
        read = [_difference(read[0], _read(minus, fixed_gauge))]
    layouts = [[one.num_heads for one in layers] for layers in read]
    if layouts[0] != layouts[-1]:
        raise ZooError(f"the two models have different heads in their layers: {layouts[0]} and {layouts[1]}")
    if layer is not None and not 0 <= layer < len(read[0]):
        raise HeadError(f"{type(model).__name__} has layers 0 … {len(read[0]) - 1}, got layer {layer}")
    chosen = range(len(read[0])) if layer is None else [layer]
    what = "difference of weights" if minus is not None else "weight"
    return Weights(
        heads=tuple(
            _head(place, layers[index], index, h, many=len(read[0]) > 1)
            for index in chosen
            for h in _heads(read[0][index], head)
            for place, layers in enumerate(read)
        ),
        num_models=len(read),
        what=f"{what}, gauge fixed" if fixed_gauge else what,
        names=names,
    )


def _read(model: Any, fixed_gauge: bool) -> list[Products]:
    return [fix_gauge(layer) if fixed_gauge else layer for layer in products(model)]


def _difference(layers: Sequence[Products], others: Sequence[Products]) -> list[Products]:
    shapes = [[one.W_KQ.shape for one in each] for each in (layers, others)]
    if shapes[0] != shapes[1]:
        raise ZooError(
            f"weights are subtracted where they have the same shapes; these have {shapes[0]} and {shapes[1]}"
        )
    matched = [match_heads(other, layer) for layer, other in zip(layers, others, strict=True)]
    return [
        replace(layer, W_KQ=layer.W_KQ - other.W_KQ, W_PV=layer.W_PV - other.W_PV, scale=None)
        for layer, other in zip(layers, matched, strict=True)
    ]


def _heads(layer: Products, head: int | None) -> range:
    if head is None:
        return range(layer.num_heads)
    if not 0 <= head < layer.num_heads:
        raise HeadError(f"layer {layer.name!r} has heads 0 … {layer.num_heads - 1}, got head {head}")
    return range(head, head + 1)


def _head(model: int, layer: Products, index: int, head: int, *, many: bool) -> Head:
    parts = ([layer.name] if many else []) + ([f"head {head}"] if layer.num_heads > 1 else [])
    scale = None if layer.scale is None else float(layer.scale[head])
    return Head(
        model, layer.name, index, ", ".join(parts), head, layer.W_KQ[head], layer.W_PV[head], layer.labels, scale
    )
