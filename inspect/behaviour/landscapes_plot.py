"""One prompt's loss in colour, the learner's step and the gradient step as arrows."""

from collections.abc import Sequence

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import PowerNorm
from matplotlib.lines import Line2D

from ..pictures.style import AnyFigure, Figure, label, on_figure, styled
from .landscapes import Landscape, Point

LOSS_COLOURS = sns.light_palette("#0b3a6f", as_cmap=True)
STEP_COLOUR, DESCENT_COLOUR, SOLUTION_COLOUR = "#c1121f", "#e69f00", "black"
_LOSS = "in-context loss, 1/(2N) Σ (w·x − y)²"


@styled
def landscape(
    landscape: Landscape,
    *,
    name: str = "learner",
    limit: float | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """One landscape over (w1, w2) with both steps (axes-level: draws on `ax`, or on a figure of its own, and returns the Axes).

    Colours follow the square root of the loss, from 0 to `limit`, by default its largest value.
    """
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    norm = _norm([landscape], limit)
    reach = landscape.ticks[-1]
    ax.imshow(
        landscape.loss,
        origin="lower",
        extent=(-reach, reach, -reach, reach),
        cmap=LOSS_COLOURS,
        norm=norm,
        aspect="equal",
    )
    if np.ptp(landscape.loss) > 0:
        lowest, highest = landscape.loss.min(), landscape.loss.max()
        levels = lowest + (highest - lowest) * np.linspace(0, 1, 9)[1:-1] ** 2
        ax.contour(landscape.ticks, landscape.ticks, landscape.loss, levels=levels, colors="0.45", linewidths=0.5)
    _arrow(ax, landscape.descent, DESCENT_COLOUR, width=3.5)
    _arrow(ax, landscape.step, STEP_COLOUR, width=1.5)
    if landscape.least_squares is not None:
        ax.plot(*landscape.least_squares, "*", color=SOLUTION_COLOUR, markersize=9, markeredgecolor="white", zorder=5)
    ax.set(xlabel="w1", ylabel="w2", xlim=(-reach, reach), ylim=(-reach, reach))
    if legend:
        ax.legend(handles=_handles([landscape], name), frameon=True, fontsize="small")
    return ax


@styled
def landscapes_figure(
    landscapes: Sequence[Landscape], *, name: str = "learner", columns: int = 3, figure: AnyFigure | None = None
) -> AnyFigure:
    """The landscapes of several prompts in a grid, on one scale of colours (figure-level)."""
    columns = min(columns, len(landscapes))
    rows = -(-len(landscapes) // columns)
    figure = on_figure(figure, (2.7 * columns + 0.9, 2.7 * rows + 0.6))
    axes = figure.subplots(rows, columns, squeeze=False)
    norm = _norm(landscapes, None)
    for ax, one in zip(axes.flat, landscapes, strict=False):
        landscape(one, name=name, limit=norm.vmax, legend=False, ax=ax)
    for ax in axes.flat[len(landscapes) :]:
        ax.remove()
    bar = figure.colorbar(
        ScalarMappable(norm, LOSS_COLOURS), ax=axes[:, :].ravel().tolist()[: len(landscapes)], shrink=0.7
    )
    bar.outline.set_visible(False)
    bar.set_label(_LOSS)
    figure.legend(handles=_handles(landscapes, name), loc="outside lower center", ncols=3, frameon=False)
    return figure


def _norm(landscapes: Sequence[Landscape], limit: float | None) -> PowerNorm:
    losses = np.concatenate([one.loss[np.isfinite(one.loss)] for one in landscapes])
    return PowerNorm(0.5, vmin=0.0, vmax=(float(losses.max(initial=0.0)) or 1.0) if limit is None else limit)


def _arrow(ax: Axes, tip: Point | None, colour: str, *, width: float) -> None:
    if tip is not None and np.any(tip):
        style = {
            "arrowstyle": "-|>",
            "color": colour,
            "linewidth": width,
            "shrinkA": 0,
            "shrinkB": 0,
            "mutation_scale": 8 + 2 * width,
        }
        ax.annotate("", xy=tuple(tip), xytext=(0, 0), arrowprops=style, zorder=4)


def _handles(landscapes: Sequence[Landscape], name: str) -> list[Line2D]:
    absent = sum(one.step is None for one in landscapes)
    note = f" (not finite on {absent} of {len(landscapes)})" if absent else ""
    return [
        Line2D([], [], color=STEP_COLOUR, linewidth=1.5, label=f"{label(name)}: ∂ŷ/∂x{note}"),
        Line2D([], [], color=DESCENT_COLOUR, linewidth=3.5, label=f"gradient step, η = {landscapes[0].step_size:.3g}"),
        Line2D([], [], color=SOLUTION_COLOUR, marker="*", linestyle="none", markersize=9, label="least squares"),
    ]
