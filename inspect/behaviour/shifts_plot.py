"""Losses against a setting of the task, several learners in one figure, the training point marked."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, ScalarFormatter

from ..estimates.means import as_arrays
from ..pictures.curves import colours, draw_curve, logarithmic_losses, say_if_empty
from ..pictures.style import AnyFigure, Figure, label, on_figure, styled
from .shifts import Shift

_MARKERS = "osDv^<>P*X"


@styled
def shift_curves(shift: Shift, *, legend: bool = True, ax: Axes | None = None) -> Axes:
    """The half-MSE of each learner against one setting (axes-level: draws on `ax`, or on a figure of its own, and returns the Axes).

    Bands, or bars where the setting has no order, are ± 1 standard error; a grey line marks what learners were trained on. Losses more
    than two decades from those of training, such as 0 for an exact fit, are outside the panel.
    """
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    ordered = not any(isinstance(value, str) for value in shift.values)
    places = np.array(shift.values, np.float64) if ordered else np.arange(len(shift.values), dtype=np.float64)
    drawn: list[float] = []
    number = len(shift.half_mse)
    for index, (colour, (name, means)) in enumerate(zip(colours(number), shift.half_mse.items(), strict=True)):
        values, errors = as_arrays(means)
        drawn.extend(values)
        style = {"color": colour, "marker": _MARKERS[index % len(_MARKERS)], "markersize": 4.5, "label": label(name)}
        if ordered:
            draw_curve(ax, places, means, linestyle=("-", "--", ":", "-.")[index % 4], **style)
        else:
            beside = (index - (number - 1) / 2) * 0.6 / number
            ax.errorbar(places + beside, values, np.nan_to_num(errors), linestyle="none", capsize=2, **style)
    if ordered and places.min() > 0 and places.max() > 4 * places.min():
        ax.set_xscale("log")
    if not ordered or len(places) <= 8:
        ax.set_xticks(
            places, [v if isinstance(v, str) else f"{v:.3g}" for v in shift.values], minor=False, fontsize="small"
        )
        ax.set_xticks([], minor=True)
    if shift.training is not None and (ordered or shift.training in shift.values):
        trained = float(shift.training) if ordered else places[shift.values.index(shift.training)]
        ax.axvline(trained, color="0.7", linewidth=6 if ordered else 30, alpha=0.35, zorder=0, label="training")
    logarithmic_losses(ax, drawn, around=_usual(shift, drawn), decades=(2, 2))
    if ax.get_yscale() == "log":
        ax.yaxis.set_minor_formatter(NullFormatter() if np.diff(np.log10(ax.get_ylim()))[0] > 1 else ScalarFormatter())
        ax.tick_params(axis="y", which="minor", labelsize="x-small")
    say_if_empty(ax, drawn)
    ax.set(xlabel=shift.setting, ylabel="half-MSE, ½·mean ‖ŷ − y‖²")
    if legend:
        ax.legend(frameon=False, fontsize="small")
    return ax


@styled
def shifts_figure(shifts: Mapping[str, Shift], *, figure: AnyFigure | None = None) -> AnyFigure:
    """Every shift in a panel of its own, with one legend (figure-level)."""
    columns = min(3, len(shifts)) or 1
    rows = -(-len(shifts) // columns) or 1
    figure = on_figure(figure, (4.0 * columns, 3.3 * rows + 0.6))
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    entries: dict[str, object] = {}
    for ax, shift in zip(axes, shifts.values(), strict=False):
        handles, labels = shift_curves(shift, legend=False, ax=ax).get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    for ax in axes[len(shifts) :]:
        ax.remove()
    if entries:
        entries["training"] = entries.pop("training", None)  # last
        entries = {label: handle for label, handle in entries.items() if handle is not None}
        handles: Any = list(entries.values())
        figure.legend(handles, list(entries), loc="outside lower center", ncols=4, frameon=False)
    return figure


def _usual(shift: Shift, drawn: list[float]) -> float | None:
    """The largest loss in training; the median loss where no value is that of training. `None` where none is finite."""
    if shift.training in shift.values:
        place = shift.values.index(shift.training)
        finite = [loss for means in shift.half_mse.values() if (loss := means[place].value) is not None]
        return max(finite, default=None)
    finite = [loss for loss in drawn if np.isfinite(loss)]
    return float(np.median(finite)) if finite else None
