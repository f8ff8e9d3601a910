"""The loss without each head, as bars."""

import numpy as np
from matplotlib.axes import Axes

from ..estimates.means import as_arrays
from ..pictures.curves import colours, say_if_empty
from ..pictures.style import new_axes, styled
from .ablations import KINDS, Ablations


@styled
def ablation_bars(ablations: Ablations, *, ax: Axes | None = None) -> Axes:
    """A pair of bars for each head, and for each layer with several heads, logarithmic; the intact model as a line (axes-level)."""
    ax = new_axes() if ax is None else ax
    cases = list(dict.fromkeys((one.layer, one.heads) for one in ablations.ablations))
    places = np.arange(len(cases))
    for k, (kind, colour) in enumerate(zip(KINDS, colours(len(KINDS)), strict=True)):
        of_kind = {(one.layer, one.heads): one for one in ablations.ablations if one.kind == kind}
        values, errors = as_arrays([of_kind[case].half_mse for case in cases])
        ax.errorbar(
            places + (k - 0.5) * 0.3,
            values,
            np.nan_to_num(errors),
            fmt="os"[k],
            color=colour,
            capsize=2,
            markersize=4,
            label=f"its {kind} in its place" if kind == "mean" else "zero in its place",
        )
    if ablations.intact.value is not None:
        ax.axhline(ablations.intact.value, color="0.4", linestyle="--", label="intact")
    several = len({heads for _, heads in cases}) > 1
    names = (
        [f"{layer}.{heads[0]}" if len(heads) == 1 else f"{layer}" for layer, heads in cases]
        if several
        else [f"{layer}" for layer, _ in cases]
    )
    every = 1 + len(cases) // 32
    ax.set_xticks(places[::every], names[::every], rotation=90 if len(cases) > 8 else 0, fontsize="small")
    ax.set_yscale("log")
    say_if_empty(ax, [one.half_mse.value for one in ablations.ablations])
    ax.set(xlabel="layer.head, or all of a layer" if several else "layer", ylabel="half-MSE, ½·mean ‖ŷ − y‖²")
    ax.legend(frameon=False, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    return ax
