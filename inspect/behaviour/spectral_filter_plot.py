"""Gains against eigenvalues, over the density of the eigenvalues."""

import seaborn as sns
from matplotlib.axes import Axes

from ..pictures.curves import colours, draw_curve, say_if_empty
from ..pictures.style import label, new_axes, styled
from .spectral_filter import SpectralFilter


@styled
def filter_curves(found: SpectralFilter, *, ax: Axes | None = None) -> Axes:
    """The gain of the learner, and of the other one dashed, with ± 1 standard error; bars are the eigenvalues (axes-level)."""
    ax = new_axes() if ax is None else ax
    own, other, bars = colours(3)
    counts = ax.twinx()
    sns.histplot(x=found.eigenvalues.ravel(), bins=40, color=bars, alpha=0.2, linewidth=0, ax=counts)
    counts.set(ylabel="", yticks=[])
    ax.set_zorder(counts.get_zorder() + 1)  # the curves over the bars
    ax.patch.set_visible(False)
    about = found.about
    draw_curve(ax, found.centres, found.own.gain, color=own, marker="o", markersize=3, label=label(about.learner))
    draw_curve(
        ax, found.centres, found.other.gain, color=other, linestyle="--", label=label(about.other or "the other")
    )
    ax.axhline(1, color="0.7", linewidth=0.8, zorder=0)
    ax.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    say_if_empty(ax, [gain.value for gain in found.own.gain])
    values = [gain.value for one in (found.own, found.other) for gain in one.gain if gain.value is not None]
    if values:
        ax.set_ylim(max(-1.0, min(0.0, *values) - 0.05), min(2.5, max(1.1, *values) + 0.05))
    ax.set(xlabel=r"λ, eigenvalue of $\Sigma_i x_i x_i^\top$ (bars: how often)", ylabel="gain, E[ŷ·t] / E[t²]")
    left = "" if found.own.unexplained is None else f": no filter explains {100 * found.own.unexplained:.2g} % of it"
    ax.set_title(f"{label(about.learner)}{left}", fontsize="medium")
    ax.legend(frameon=False, fontsize="small")
    return ax
