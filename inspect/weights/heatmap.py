"""Heatmaps of the weight products W_KQ and W_PV."""

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import seaborn as sns
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize, SymLogNorm

from ...zoo.checks.gate import gated
from ...zoo.checks.values import one_of
from ...zoo.errors import HeadError, ZooError
from ..pictures.style import Figure, label, styled
from .weight_products import Products, fix_gauge, products

# Negative red, zero white, positive blue: safe for colour-blind readers.
COLOURS = LinearSegmentedColormap.from_list("iclzoo", ["#8f1021", "#dd6f59", "#ffffff", "#5a9bc9", "#0b3a6f"])
LARGEST_ANNOTATED = 12
MOST_TICKS = 24
WIDEST = 20.0  # how far apart the largest weights of two panels may be on a linear scale
DEEPEST = 10_000.0  # a logarithmic scale reaches no further down: rounding stays white
TALLEST = 200.0  # inches: a figure of many heads has smaller panels

_SIDES = {"W_KQ": ("key side", "query side"), "W_PV": ("output", "input")}
_TITLES = {"W_KQ": r"$W_{KQ}$", "W_PV": r"$W_{PV}$"}


@styled
def product_heatmap(
    matrix: Float[np.ndarray, "embed_dim embed_dim"],
    *,
    product: Literal["W_KQ", "W_PV"],
    labels: Sequence[str] = (),
    limit: float | None = None,
    linear_until: float | None = None,
    title: str | None = None,
    values: bool = True,
    colour_bar: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """One product as a heatmap (axes-level: draws on `ax`, or on a figure of its own, and returns the Axes).

    Zero is white; colours reach from −`limit` to `limit`, by default the largest entry in size, and are logarithmic beyond
    ±`linear_until`, where that is given. Small matrices carry their `values`.
    All-zero matrices and cells that are not finite are drawn, marked, and warned of.

    **Raises** `ZooError` for another `product`, if `matrix` is not square or `labels` do not fit it.
    """
    one_of("product", product, _SIDES)
    matrix = np.asarray(matrix, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ZooError(f"a weight product is a square matrix, got shape {matrix.shape}")
    if labels and len(labels) != len(matrix):
        raise ZooError(f"{len(matrix)} labels are needed, one a row, got {len(labels)}")
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    title = _TITLES[product] if title is None else title
    title = _marked(title, matrix, product)
    limit = symmetric_limit([matrix]) if limit is None else limit
    small = values and len(matrix) <= LARGEST_ANNOTATED
    sns.heatmap(
        matrix,
        mask=~np.isfinite(matrix),
        norm=_scale(limit, linear_until),
        vmin=-limit,  # the scale's own ends, or seaborn would look for them in a matrix that may have no finite entry
        vmax=limit,
        cmap=COLOURS,
        annot=np.vectorize(_cell, otypes=[object])(np.nan_to_num(matrix)) if small else None,
        fmt="",
        annot_kws={"fontsize": 7},
        square=True,
        cbar=colour_bar,
        cbar_kws={"shrink": 0.8},
        xticklabels=False,  # seaborn would draw the whole figure to see whether they overlap
        yticklabels=False,
        linewidths=0.4 if small else 0.0,
        linecolor="0.92",
        ax=ax,
    )
    ax.grid(False)  # which axes of the user's may have
    ax.set_facecolor("0.75")  # what is not finite shows through
    for row, column in zip(*np.nonzero(~np.isfinite(matrix)), strict=True):
        ax.text(column + 0.5, row + 0.5, str(matrix[row, column]), ha="center", va="center", fontsize=6)
    left, below = _SIDES[product]
    ax.set(ylabel=left, xlabel=below)
    ax.set_title(title, fontsize="medium")
    if labels:
        every = 1 + len(labels) // MOST_TICKS
        places = np.arange(0, len(labels), every) + 0.5
        ax.set_xticks(places, labels[::every], rotation=90 if len(matrix) > LARGEST_ANNOTATED else 0)
        ax.set_yticks(places, labels[::every])
    return ax


@gated
@styled
def heatmap(
    model: Any,
    *,
    beside: Any = None,
    names: tuple[str, str] | None = None,
    fixed_gauge: bool = True,
    head: int | None = None,
) -> Figure:
    """W_KQ and W_PV of every layer and head, all on one symmetric scale (figure-level: makes and returns a Figure).

    The scale is logarithmic beyond the largest weight of the faintest panel, where another's is more than `WIDEST` times larger.

    With `beside`, a second model with as many layers and heads, such as a construction, is drawn next to it; `names` say in the titles
    which is which, by default "model" and "construction" where there are two. With `fixed_gauge`, the
    gauge of linear heads is removed and the titles say by which c. `head` picks one head of every layer.

    **Raises** `ZooError` if a model has no attention layer or the two do not correspond; `HeadError`, an `IndexError`, if there
    is no such head.
    """
    if names is None:
        names = ("", "") if beside is None else ("model", "construction")
    read = [[fix_gauge(p) if fixed_gauge else p for p in products(m)] for m in (model, beside) if m is not None]
    layouts = [[layer.num_heads for layer in layers] for layers in read]
    if layouts[0] != layouts[-1]:
        raise ZooError(f"the two models have different heads in their layers: {layouts[0]} and {layouts[1]}")
    rows = [
        (name, layer, h)
        for pair in zip(*read, strict=True)  # one layer of each model
        for h in _heads(pair[0], head)
        for name, layer in zip(names, pair, strict=False)
    ]
    limits = [
        symmetric_limit([matrix]) for _, layer, h in rows for matrix in (layer.W_KQ[h], layer.W_PV[h]) if matrix.any()
    ]
    limit = max(limits, default=1.0)
    faintest = max(min(limits, default=1.0), limit / DEEPEST)
    linear_until = faintest if limit > WIDEST * faintest else None
    size = min(0.36 * min(max(len(layer.labels) for layer in read[0]), 24) + 1.0, TALLEST / len(rows))
    figure = Figure(figsize=(2 * size + 0.8, len(rows) * size), layout="constrained")
    axes = figure.subplots(len(rows), 2, squeeze=False)
    for axes_of_row, (name, layer, h) in zip(axes, rows, strict=True):
        for ax, product in zip(axes_of_row, ("W_KQ", "W_PV"), strict=True):
            product_heatmap(
                getattr(layer, product)[h],
                product=product,
                labels=layer.labels,
                limit=limit,
                linear_until=linear_until,
                title=_panel_title(name, product, layer, h, many=len(read[0]) > 1),
                colour_bar=False,
                ax=ax,
            )
    bar = figure.colorbar(axes[0, 0].collections[0], ax=axes, shrink=0.6, aspect=30)
    bar.outline.set_visible(False)
    beyond = "" if linear_until is None else f", logarithmic beyond ±{linear_until:.2g}"
    bar.set_label(("weight, gauge fixed" if fixed_gauge else "weight") + beyond)
    return figure


def symmetric_limit(matrices: Sequence[np.ndarray]) -> float:
    """The largest finite entry in size over all matrices; 1 where all are zero, so that a scale exists."""
    sizes = [np.abs(matrix[np.isfinite(matrix)]).max(initial=0.0) for matrix in matrices]
    return float(max(sizes, default=0.0)) or 1.0


def _scale(limit: float, linear_until: float | None) -> Normalize:
    if linear_until is None:
        return Normalize(-limit, limit)
    return SymLogNorm(linear_until, vmin=-limit, vmax=limit)


def _cell(value: float) -> str:
    """A value with two decimals, fewer where it is large; "0" where they would say nothing."""
    return "0" if abs(value) < 0.005 else f"{value:.2f}" if abs(value) < 99.5 else f"{value:.0f}"


def _heads(layer: Products, head: int | None) -> range:
    if head is None:
        return range(layer.num_heads)
    if not 0 <= head < layer.num_heads:
        raise HeadError(f"layer {layer.name!r} has heads 0 … {layer.num_heads - 1}, got head {head}")
    return range(head, head + 1)


def _panel_title(name: str, product: str, layer: Products, head: int, *, many: bool) -> str:
    where = f", {layer.name}" if many else ""
    where += f", head {head}" if layer.num_heads > 1 else ""
    whose = f"{label(name)}{where}: " if name else f"{where}: ".removeprefix(", ") if where else ""
    if layer.scale is None:
        return f"{whose}{_TITLES[product]}"
    operation = "/" if product == "W_KQ" else "·"  # by the c of `fix_gauge`
    return f"{whose}{_TITLES[product]} {operation} c,  c = {layer.scale[head]:.3g}"


def _marked(title: str, matrix: np.ndarray, product: str) -> str:
    """The title, with a word on cells that are not finite and on matrices that are all zero, and a warning."""
    broken = int((~np.isfinite(matrix)).sum())
    if broken:
        note = f"{broken} of {matrix.size} cells not finite"
    elif not matrix.any():
        note = "all zero"
    else:
        return title
    warnings.warn(f"{product}: {note}", stacklevel=4)
    return f"{title} ({note})"
