"""Singular values of the products."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from ..pictures.curves import colours
from ..pictures.style import Figure, styled
from .spectrum import Spectrum


@styled
def spectrum_curves(spectra: Sequence[Spectrum], *, ax: Axes | None = None) -> Axes:
    """The singular values of the products of every head (axes-level: returns the Axes)."""
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    for spectrum, colour in zip(spectra, colours(len(spectra)), strict=True):
        name = f" {spectrum.layer}, head {spectrum.head}" if len(spectra) > 1 else ""
        for product, rank, style in (
            ("W_KQ", spectrum.effective_rank_KQ, "o-"),
            ("W_PV", spectrum.effective_rank_PV, "s--"),
        ):
            values = getattr(spectrum, product)
            rank_text = "undefined" if rank is None else f"{rank:.1f}"
            label = f"${product[0]}_{{{product[2:]}}}${name}, effective rank {rank_text}"
            ax.plot(np.arange(1, len(values) + 1), values, style, color=colour, markersize=4, label=label)
    ax.set(xlabel="singular value, by size", ylabel="singular value, gauge fixed")
    ax.legend(frameon=False, fontsize="small")
    return ax
