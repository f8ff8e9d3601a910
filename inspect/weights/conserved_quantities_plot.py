"""The differences that gradient flow conserves, over a training."""

import numpy as np
from matplotlib.axes import Axes

from ..pictures.curves import colours, say_if_empty
from ..pictures.style import Figure, styled
from .conserved_quantities import ConservedPath

MOST_LABELS = 12


@styled
def conserved_curves(
    path: ConservedPath, *, logarithmic: bool = True, xlabel: str = "training step", ax: Axes | None = None
) -> Axes:
    """The conserved differences against the training step (axes-level: draws on `ax`, or on a figure of its own, and returns the Axes).

    One colour a law, a line for each layer and head; the size left + right of each pair is drawn thin, for comparison, and the legend
    gives the drift, the largest change relative to the largest size. `logarithmic` steps are on a logarithmic axis that holds 0.
    """
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    laws = list(dict.fromkeys(one.law for one in path.differences))
    styles = ("-", "--", "-.", ":")
    places = list(dict.fromkeys((one.layer, one.head) for one in path.differences))
    colour_of = dict(zip(laws, colours(len(laws)), strict=True))
    for index, one in enumerate(path.differences):
        style = styles[places.index((one.layer, one.head)) % len(styles)]
        where = f", {one.layer} head {one.head}" if len(places) > 1 else ""
        drift = "drift undefined" if one.drift is None else f"drift {one.drift:.2g}"
        look = {"color": colour_of[one.law], "linestyle": style}
        label = f"{one.law}{where}: {drift}" if index < MOST_LABELS else None
        ax.plot(path.steps, one.difference, **look, label=label, marker="o", markersize=3)
        ax.plot(path.steps, one.left + one.right, **look, linewidth=0.8, alpha=0.5)
    ax.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    say_if_empty(ax, np.concatenate([one.difference for one in path.differences]))
    if logarithmic:
        ax.set_xscale("symlog", linthresh=1)
    ax.set_xlim(-0.1 if logarithmic else None, 1.1 * max(path.steps[-1], 1))
    ax.set(xlabel=xlabel, ylabel="difference of squared norms\n(thin: their sum)")
    ax.set_title("what gradient flow would conserve", fontsize="medium")
    handles, _ = ax.get_legend_handles_labels()
    more = len(path.differences) - len(handles)
    title = f"and {more} more" if more else None
    ax.legend(title=title, frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax
