"""The difference of two heads' key-query products, and the sizes of offset, linear part and remainder."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from ...zoo.errors import NotApplicable
from ..estimates.means import as_arrays
from ..pictures.curves import colours, say_if_empty
from ..pictures.style import AnyFigure, Figure, on_figure, styled
from ..weights.heatmap_plot import product_heatmap, symmetric_limit
from .softmax_heads import SoftmaxHeads


@styled
def head_difference(
    heads: SoftmaxHeads, *, limit: float | None = None, colour_bar: bool = True, ax: Axes | None = None
) -> Axes:
    """W_1,KQ − W_2,KQ as a heatmap (axes-level: draws on `ax`, or on a figure of its own, and returns the Axes).

    **Raises** `ZooError` unless the layer has two heads.
    """
    if heads.difference is None:
        raise NotApplicable(f"{heads.layer} has {len(heads.W_KQ)} heads, and a difference needs two")
    share = "" if heads.diagonal_share is None else f": {100 * heads.diagonal_share:.3g} % diagonal"
    return product_heatmap(
        heads.difference,
        product="W_KQ",
        labels=heads.labels,
        limit=limit,
        title=rf"{heads.layer}: $W_{{1,KQ}} - W_{{2,KQ}}${share}",
        colour_bar=colour_bar,
        ax=ax,
    )


@styled
def head_parts(heads: SoftmaxHeads, *, ax: Axes | None = None) -> Axes:
    """The mean sizes of each head's offset and of the parts of all heads together, as bars (axes-level: draws on `ax`, or on a figure
    of its own, and returns the Axes). Error bars are ± 1 standard error."""
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    names = [f"offset,\nhead {h}" for h in range(len(heads.head_offset))] + [
        "offset,\nall heads",
        "linear\npart",
        "remainder",
    ]
    values, errors = as_arrays([*heads.head_offset, heads.offset, heads.linear, heads.remainder])
    palette = colours(4)
    bars = [palette[0]] * len(heads.head_offset) + palette[1:]
    ax.bar(np.arange(len(names)), np.nan_to_num(values), yerr=np.nan_to_num(errors), color=bars, capsize=2)
    ax.set_xticks(np.arange(len(names)), names, fontsize="small")
    for place, value in enumerate(values):
        if np.isfinite(value):
            ax.annotate(
                f"{value:.3g}", (place, value), (0, 3), textcoords="offset points", ha="center", fontsize="small"
            )
    ax.margins(y=0.12)
    say_if_empty(ax, values)
    ax.set_ylabel("update of the query token, mean ‖·‖₂")
    eta = "" if heads.step_size is None else f", linear part: step η = {heads.step_size:.4g}"
    ax.set_title(f"{heads.layer}{eta}  ({heads.num_tasks:,} tasks)", fontsize="medium")
    return ax


@styled
def softmax_heads_figure(layers: Sequence[SoftmaxHeads], *, figure: AnyFigure | None = None) -> AnyFigure:
    """A row for each layer: the difference where it has two heads, and the parts (figure-level)."""
    figure = on_figure(figure, (9.6, 4.2 * len(layers)))
    axes = figure.subplots(len(layers), 2, squeeze=False)
    differences = [heads.difference for heads in layers if heads.difference is not None]
    limit = symmetric_limit(differences)
    for (left, right), heads in zip(axes, layers, strict=True):
        if heads.difference is None:
            left.axis("off")
            left.text(
                0.5, 0.5, f"{heads.layer}: {len(heads.W_KQ)} head(s), no difference of two", ha="center", va="center"
            )
        else:
            head_difference(heads, limit=limit, colour_bar=heads.difference is differences[0], ax=left)
        head_parts(heads, ax=right)
    return figure
