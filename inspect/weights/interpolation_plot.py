"""The loss between two models, gauge removed, and the naive curves beside it."""

from matplotlib.axes import Axes

from ..estimates.means import as_arrays
from ..pictures.curves import colours, draw_curve, logarithmic_losses, say_if_empty
from ..pictures.style import Figure, label, styled
from .interpolation import Interpolation

_NAMES = {
    "gauge removed": "products, gauge removed",
    "products": "products as they are",
    "factors": "factors as they are",
}
_STYLES = {"gauge removed": "-", "products": "--", "factors": ":"}


@styled
def interpolation_curves(
    interpolation: Interpolation,
    *,
    names: tuple[str, str] = ("start", "end"),
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The half-MSE against t (axes-level: draws on `ax`, or on a figure of its own, and returns the Axes).

    Both end points are marked, and bands are ± 1 standard error. The axis is logarithmic where the curves span more than a decade.
    """
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    losses = []
    for colour, (name, curve) in zip(colours(len(_NAMES)), interpolation.curves.items(), strict=False):
        draw_curve(ax, interpolation.t, curve.half_mse, color=colour, linestyle=_STYLES[name], label=_NAMES[name])
        values, _ = as_arrays(curve.half_mse)
        losses.extend(values)
        ends = (interpolation.t == 0) | (interpolation.t == 1)
        ax.plot(interpolation.t[ends], values[ends], "o", color=colour, markersize=5, zorder=3)
    finite = [loss for loss in losses if loss == loss]
    if finite and max(finite) > 10 * max(min(finite), 0.0):
        logarithmic_losses(ax, losses)
    elif finite:
        ax.set_ylim(0, 1.15 * max(finite) or 1.0)
    say_if_empty(ax, losses)
    for t in (0, 1):
        ax.axvline(t, color="0.8", linewidth=0.8, zorder=0)
    ax.set(xlabel=f"t   (0: {label(names[0])},  1: {label(names[1])})", ylabel="half-MSE, ½·mean ‖ŷ − y‖²")
    ax.set_title(_title(interpolation) if title is None else title, fontsize="medium")
    ax.legend(frameon=False, fontsize="small")
    return ax


def _title(interpolation: Interpolation) -> str:
    deviation = interpolation.deviation()
    flat = "undefined in [0, 1]" if deviation is None else f"flat in [0, 1] within {100 * deviation:.2g} %"
    return f"gauge removed: {flat}  ({interpolation.num_tasks:,} tasks)"
