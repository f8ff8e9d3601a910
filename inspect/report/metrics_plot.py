"""The loss of a learner beside those of its baselines."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from ..estimates.means import as_arrays
from ..pictures.curves import colours
from ..pictures.style import label, new_axes, styled

if TYPE_CHECKING:
    from .metrics import CardMetrics


@styled
def loss_bars(metrics: "CardMetrics", *, ax: Axes | None = None) -> Axes:
    """A bar for the learner and each baseline, with ± 1 standard error (axes-level)."""
    ax = new_axes() if ax is None else ax
    rows = metrics.rows()
    values, errors = as_arrays([row["half_mse"] for row in rows])
    own, other = colours(2)
    places = np.arange(len(rows))
    ax.barh(
        places, np.nan_to_num(values), xerr=np.nan_to_num(errors), color=[own] + [other] * (len(rows) - 1), capsize=2
    )
    ax.set_yticks(places, [label(row["learner"]) for row in rows])
    ax.invert_yaxis()
    for place, row in enumerate(rows):
        ax.annotate(
            row["half_mse"].text(),
            (np.nan_to_num(values[place]), place),
            (4, 0),
            textcoords="offset points",
            va="center",
        )
    ax.margins(x=0.6)
    ax.set(xlabel="half-MSE, ½·mean ‖ŷ − y‖²")
    ax.set_title(f"{metrics.metrics['num_tasks']:,} tasks", fontsize="medium")
    return ax
