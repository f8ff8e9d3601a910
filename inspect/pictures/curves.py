"""What the pictures of curves share: colours, lines with bands, and axes that survive any data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes

from ..estimates.estimate import Estimate
from ..estimates.means import as_arrays


def colours(number: int) -> list[Any]:
    """As many colours, told apart by colour-blind readers as long as there are at most ten."""
    return list(sns.color_palette("colorblind" if number <= 10 else "husl", number))


def shades(number: int) -> list[Any]:
    """As many colours in an order, dark to light."""
    return list(sns.color_palette("viridis", number))


def draw_curve(ax: Axes, xs: Sequence[float] | np.ndarray, means: Sequence[Estimate], **style: Any) -> None:
    """A line through the means and a band of ± 1 standard error, with gaps where they are undefined."""
    values, errors = as_arrays(means)
    (line,) = ax.plot(np.asarray(xs, np.float64), values, **style)
    errors = np.nan_to_num(errors)
    ax.fill_between(
        np.asarray(xs, np.float64), values - errors, values + errors, color=line.get_color(), alpha=0.2, linewidth=0
    )


def logarithmic_losses(
    ax: Axes,
    values: Sequence[float | None] | np.ndarray,
    *,
    around: float | None = None,
    decades: tuple[float, float] = (4, 4),
) -> None:
    """A logarithmic y axis that shows these values, but no more `decades` below and above `around` than these.

    `around` is the largest value unless given: losses that vanish, or explode, would stretch the axis without end. Linear where no
    value is positive.
    """
    values = np.array(values, np.float64)
    positive = values[np.isfinite(values) & (values > 0)]
    if len(positive):
        centre = around if around else positive.max()
        low, high = max(positive.min(), centre * 10.0 ** -decades[0]), min(positive.max(), centre * 10.0 ** decades[1])
        ax.set_yscale("log")
        ax.set_ylim(low / 1.3, max(high, low) * 1.3)


def say_if_empty(ax: Axes, values: Sequence[float | None] | np.ndarray) -> None:
    """A word in the middle of the axes where there is nothing to draw."""
    if not np.isfinite(np.array(values, np.float64)).any():
        ax.text(0.5, 0.5, "undefined: not finite", ha="center", va="center", transform=ax.transAxes, color="0.4")
