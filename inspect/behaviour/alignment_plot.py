"""The three measures of alignment, side by side."""

from typing import TYPE_CHECKING

import numpy as np

from ..pictures.curves import colours, say_if_empty
from ..pictures.style import AnyFigure, label, on_figure, styled

if TYPE_CHECKING:
    from .alignment import Alignment

_PANELS = {
    "prediction_distance": "mean $\\Vert\\hat y - \\hat y'\\Vert_2$",
    "sensitivity_distance": "mean $\\Vert s - s'\\Vert_F$",
    "sensitivity_cosine": "mean cosine of $s$ and $s'$",
}


@styled
def alignment_figure(alignment: "Alignment", *, figure: AnyFigure | None = None) -> AnyFigure:
    """A panel for each measure, with ± 1 standard error (figure-level)."""
    figure = on_figure(figure, (7.6, 2.6))
    for ax, (name, text), colour in zip(figure.subplots(1, 3), _PANELS.items(), colours(3), strict=True):
        estimate = getattr(alignment, name)
        value = np.nan if estimate.value is None else estimate.value
        ax.bar([0], [np.nan_to_num(value)], yerr=[estimate.standard_error or 0.0], color=colour, capsize=4, width=0.6)
        ax.set(xticks=[], xlim=(-1, 1), xlabel=text)
        ax.set_title(estimate.text(), fontsize="medium")
        ax.margins(y=0.1)
        say_if_empty(ax, [estimate.value])
        if name == "sensitivity_cosine":
            ax.set_ylim(min(0.0, 1.1 * np.nan_to_num(value)), 1.0)
    about = alignment.about
    figure.suptitle(
        f"{label(about.learner)} and {label(about.other)}, {alignment.num_tasks:,} tasks", fontsize="medium"
    )
    return figure
