"""Heatmaps of the weight products W_KQ and W_PV."""

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import seaborn as sns
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize, SymLogNorm

from ...zoo.checks.values import one_of
from ...zoo.errors import ZooError
from ..pictures.style import AnyFigure, Figure, label, on_figure, styled
from .heatmap import Head, Weights

# Negative red, zero white, positive blue: safe for colour-blind readers.
COLOURS = LinearSegmentedColormap.from_list("iclzoo", ["#8f1021", "#dd6f59", "#ffffff", "#5a9bc9", "#0b3a6f"])
LARGEST_ANNOTATED = 12
MOST_TICKS = 24
WIDEST = 20.0  # how far apart the largest weights of two panels may be on a linear scale
DEEPEST = 10_000.0  # a logarithmic scale reaches no further down: rounding stays white
TALLEST = 200.0  # inches: a figure of many heads has smaller panels
TOWER = 4  # panels that stand below each other; more stand in a grid
MOST_HEADS = 48  # of each model, on one figure

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
    values: bool | None = None,
    colour_bar: bool = True,
    cmap: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """One product as a heatmap (axes-level: draws on `ax`, or on a figure of its own, and returns the Axes).

    Zero is white; colours reach from −`limit` to `limit`, by default the largest entry in size, and are logarithmic beyond
    ±`linear_until`, where that is given. Matrices of up to 12 rows carry their values, unless `values` says otherwise;
    `cmap` is another map of colours.
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
    small = len(matrix) <= LARGEST_ANNOTATED if values is None else values
    sns.heatmap(
        matrix,
        mask=~np.isfinite(matrix),
        norm=_scale(limit, linear_until),
        vmin=-limit,  # the scale's own ends, or seaborn would look for them in a matrix that may have no finite entry
        vmax=limit,
        cmap=COLOURS if cmap is None else cmap,
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


@styled
def weights_figure(
    weights: Weights,
    *,
    figure: AnyFigure | None = None,
    product: Literal["W_KQ", "W_PV"] | None = None,
    annotate: bool | None = None,
    cmap: Any = None,
    figsize: tuple[float, float] | None = None,
) -> AnyFigure:
    """Every head's products, on one symmetric scale: below each other, and in a grid where they are many (figure-level).

    At most `MOST_HEADS` heads are drawn, and the title says so.
    """
    shown = weights.heads[: MOST_HEADS * weights.num_models]
    kinds = ("W_KQ", "W_PV") if product is None else (product,)
    limits = [
        symmetric_limit([matrix]) for head in shown for matrix in (getattr(head, k) for k in kinds) if matrix.any()
    ]
    limit = max(limits, default=1.0)
    faintest = max(min(limits, default=1.0), limit / DEEPEST)
    linear_until = faintest if limit > WIDEST * faintest else None
    units = len(shown) // weights.num_models  # a head of each model
    across = 1 if len(shown) <= TOWER else _across(shown, units * weights.num_models)
    down = -(-units // across) * weights.num_models
    widest = max(len(head.labels) for head in shown)
    size = 0.36 * min(widest, 24) + 1.0 if across == 1 else 1.9
    figure = on_figure(figure, figsize or (len(kinds) * across * size + 0.8, down * size + 0.1))
    axes = figure.subplots(down, len(kinds) * across, squeeze=False)
    used = []
    for place, head in enumerate(shown):
        unit, model = divmod(place, weights.num_models)
        row, column = (unit // across) * weights.num_models + model, (unit % across) * len(kinds)
        for kind, ax in zip(kinds, axes[row, column : column + len(kinds)], strict=True):
            product_heatmap(
                getattr(head, kind),
                product=kind,
                labels=head.labels,
                limit=limit,
                linear_until=linear_until,
                title=_panel_title(weights, kind, head) if across == 1 else _short_title(weights, kind, head),
                values=annotate if annotate is not None or across == 1 else False,
                colour_bar=False,
                cmap=cmap,
                ax=ax,
            )
            used.append(ax)
            if across > 1:
                _bare(ax)
    for ax in axes.flat:
        if ax not in used:
            ax.remove()
    bar = figure.colorbar(used[0].collections[0], ax=used, shrink=0.6, aspect=30)
    bar.outline.set_visible(False)
    beyond = "" if linear_until is None else f", logarithmic beyond ±{linear_until:.2g}"
    bar.set_label(weights.what + beyond)
    if across > 1:
        figure.supxlabel("rows: key side, output;  columns: query side, input", fontsize="small")
        names = [label(name) for name in dict.fromkeys(map(weights.called, range(weights.num_models))) if name]
        total = len(weights.heads) // weights.num_models
        if units < total:
            names.append(f"the first {units} of {total} heads, choose others by layer and head")
        figure.suptitle("; ".join(names), fontsize="medium")
    return figure


def _across(heads: Sequence[Head], number: int) -> int:
    """How many heads stand side by side: those of a layer, where they are a few; else so many that the figure is about square."""
    of_a_layer = max(head.head for head in heads) + 1
    return of_a_layer if 1 < of_a_layer <= 6 else max(1, round((number / 2) ** 0.5))


def _bare(ax: Axes) -> None:
    """A panel of a grid: its sides are said once, below all."""
    ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
    ax.title.set_fontsize(7)


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


def _short_title(weights: Weights, product: str, head: Head) -> str:
    which = f", {('first', 'second')[head.model]}" if weights.num_models > 1 else ""
    return f"layer {head.index}, head {head.head}{which}: {_TITLES[product]}"


def _panel_title(weights: Weights, product: str, head: Head) -> str:
    whose = ", ".join(filter(None, (label(weights.called(head.model)), head.place)))
    what = f"{whose}: {_TITLES[product]}" if whose else _TITLES[product]
    if head.scale is None:
        return what
    operation = "/" if product == "W_KQ" else "·"  # by the c of `fix_gauge`
    return f"{what} {operation} c,  c = {head.scale:.3g}"


def _marked(title: str, matrix: np.ndarray, product: str) -> str:
    """The title, with a word on cells that are not finite and on matrices that are all zero, and a warning."""
    broken = int((~np.isfinite(matrix)).sum())
    if broken:
        note = f"{broken} of {matrix.size} cells not finite"
    elif not matrix.any():
        note = "all zero"
    else:
        return title
    warnings.warn(f"{product}: {note}", stacklevel=6)
    return f"{title} ({note})"
