"""Attention maps with the names of the tokens on the axes."""

from typing import Literal

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from ...zoo.checks.values import one_of
from ...zoo.errors import HeadError, ZooError
from ..pictures.style import AnyFigure, Figure, on_figure, styled
from ..weights.heatmap_plot import COLOURS, MOST_TICKS, TALLEST, symmetric_limit
from .attention_patterns import LayerPatterns, Patterns

Quantity = Literal["scores", "pattern", "pattern_size"]
_WHAT = {"scores": "score", "pattern": "pattern", "pattern_size": "pattern"}  # what the bar says
SIZES = LinearSegmentedColormap.from_list("iclzoo sizes", COLOURS(np.linspace(0.5, 1.0, 9)))  # what is never negative


@styled
def attention_map(
    patterns: Patterns,
    *,
    layer: int = 0,
    head: int = 0,
    quantity: Quantity = "pattern",
    limit: float | None = None,
    colour_bar: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """One head's map (axes-level: draws on `ax`, or on a figure of its own, and returns the Axes).

    Zero is white; colours reach from −`limit` to `limit`, by default the largest entry in size, or from 0 where nothing can be negative.
    What is not finite is grey, and the title counts it.

    **Raises** `ZooError` if there is no such layer; `HeadError`, an `IndexError`, if it has no such head.
    """
    one_of("quantity", quantity, _WHAT)
    if not 0 <= layer < len(patterns.layers):
        raise ZooError(f"the model has layers 0 … {len(patterns.layers) - 1}, got layer {layer}")
    maps = getattr(patterns.layers[layer], quantity)
    if not 0 <= head < len(maps):
        raise HeadError(f"{patterns.layers[layer].name} has heads 0 … {len(maps) - 1}, got head {head}")
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    matrix = maps[head]
    limit = symmetric_limit([matrix]) if limit is None else limit
    signed = _is_signed(patterns.layers[layer], quantity)
    sns.heatmap(
        matrix,
        mask=~np.isfinite(matrix),
        vmin=-limit if signed else 0.0,
        vmax=limit,
        cmap=COLOURS if signed else SIZES,
        cbar=colour_bar,
        cbar_kws={"shrink": 0.8},
        square=True,
        xticklabels=False,
        yticklabels=False,
        ax=ax,
    )
    ax.grid(False)  # which axes of the user's may have
    ax.set_facecolor("0.75")  # what is not finite shows through
    for axis, names in ((ax.xaxis, patterns.context), (ax.yaxis, patterns.tokens)):
        places = _places(len(names))
        axis.set_ticks(places + 0.5, [names[place] for place in places], fontsize="small")
    ax.tick_params(axis="x", rotation=90 if max(map(len, patterns.context), default=0) > 1 else 0)
    ax.tick_params(axis="y", rotation=0)
    ax.set(xlabel="context token", ylabel="token that attends")
    ax.set_title(_title(patterns, layer, head, matrix), fontsize="medium")
    return ax


@styled
def patterns_figure(
    patterns: Patterns, *, quantity: Quantity = "pattern", figure: AnyFigure | None = None
) -> AnyFigure:
    """Every head in a panel, a row for each layer (figure-level).

    Layers that share their attention out, as softmax does, are on one scale, and all others on one of their own.
    """
    one_of("quantity", quantity, _WHAT)
    maps = [getattr(layer, quantity) for layer in patterns.layers]
    rows, columns = len(maps), max(map(len, maps), default=1)
    size = min(0.16 * min(len(patterns.tokens), MOST_TICKS) + 1.5, TALLEST / max(rows, columns))
    figure = on_figure(figure, (columns * size + 1.6, rows * size + 0.5))
    axes = figure.subplots(rows, columns, squeeze=False)
    kinds = [quantity != "scores" and _shares_out(layer) for layer in patterns.layers]
    limits = {
        kind: symmetric_limit([m for m, other in zip(maps, kinds, strict=True) if other == kind]) for kind in kinds
    }
    for layer, row in enumerate(axes):
        limit = limits[kinds[layer]]
        for head, ax in enumerate(row):
            if head < len(maps[layer]):
                attention_map(patterns, layer=layer, head=head, quantity=quantity, limit=limit, colour_bar=False, ax=ax)
                ax.label_outer()
            else:
                ax.remove()
    for kind in limits:
        rows_of_kind = axes[np.array(kinds) == kind]
        bar = figure.colorbar(rows_of_kind[0, 0].collections[0], ax=rows_of_kind, shrink=0.7, aspect=30)
        bar.outline.set_visible(False)
        bar.set_label(_bar_label(patterns, quantity), fontsize="small")
    return figure


def _bar_label(patterns: Patterns, quantity: Quantity) -> str:
    """A few short lines: a bar may be no taller than one panel."""
    if patterns.num_tasks == 1:
        lines = [f"attention {_WHAT[quantity]}{', size' if quantity == 'pattern_size' else ''}", "(one prompt)"]
    else:
        mean = "root mean square" if quantity == "pattern_size" else "mean"
        lines = [f"attention {_WHAT[quantity]},", mean, f"({patterns.num_tasks:,} tasks)"]
    return "\n".join(lines)


def _shares_out(layer: LayerPatterns) -> bool:
    """Whether a token's attention is shared out between the context tokens: never negative, one in all."""
    return bool((layer.pattern >= 0).all() and np.allclose(layer.pattern.sum(axis=-1), 1, atol=1e-3))


def _is_signed(layer: LayerPatterns, quantity: Quantity) -> bool:
    return quantity == "scores" or (quantity == "pattern" and not _shares_out(layer))


def _places(number: int) -> np.ndarray:
    """The tokens that get a tick: all, or every second, third, …; the last always."""
    step = 1 + number // MOST_TICKS
    return np.arange(number - 1, -1, -step)[::-1]


def _title(patterns: Patterns, layer: int, head: int, matrix: np.ndarray) -> str:
    where = [patterns.layers[layer].name] if len(patterns.layers) > 1 else []
    where += [f"head {head}"] if len(patterns.layers[layer].pattern) > 1 else []
    broken = int((~np.isfinite(matrix)).sum())
    note = [f"{broken} of {matrix.size} not finite"] if broken else [] if matrix.any() else ["all zero"]
    return ", ".join(where + note)
