"""How much of a learner each algorithm explains, inside and outside the training distribution."""

from typing import Literal

import numpy as np
from matplotlib.axes import Axes

from ...zoo.checks.values import one_of
from ..estimates.means import as_arrays
from ..pictures.curves import colours
from ..pictures.style import AnyFigure, Figure, label, on_figure, styled
from .verdict import ENOUGH, Identification

LOWEST = -0.1  # where the axis ends; less than 0 is worse than predicting 0, by whatever amount

_TITLES = {
    "prediction": "predictions: 1 − E‖ŷ − ŷ′‖² / E‖ŷ‖²",
    "sensitivity": "sensitivities s = ∂ŷ/∂x: 1 − E‖s − s′‖² / E‖s‖²",
}


@styled
def explained_variance_bars(
    identification: Identification,
    *,
    measure: Literal["prediction", "sensitivity"] = "prediction",
    ax: Axes | None = None,
) -> Axes:
    """A group of bars for each candidate, the first on top, and in it one for each distribution (axes-level: draws on `ax`, or on a
    figure of its own, and returns the Axes).

    Whiskers are ± 1 standard error; "<" marks a bar that ends beyond the axis, "–" an explained variance that is undefined.
    """
    one_of("measure", measure, _TITLES)
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    ranking = identification.ranking
    if not ranking:
        ax.text(
            0.5, 0.5, identification.reason, ha="center", va="center", transform=ax.transAxes, color="0.4", wrap=True
        )
        ax.set_axis_off()
        return ax
    distributions = [one.distribution for one in ranking[0].explained]
    height, rows = 0.8 / len(distributions), np.arange(len(ranking))
    for index, (name, colour) in enumerate(zip(distributions, colours(len(distributions)), strict=True)):
        values, errors = as_arrays([getattr(candidate.explained[index], measure) for candidate in ranking])
        places = rows + (index - (len(distributions) - 1) / 2) * height
        shown = np.clip(np.nan_to_num(values), LOWEST, 1.0)
        whiskers = np.where(values > LOWEST, np.nan_to_num(errors), 0.0)
        ax.barh(places, shown, height, xerr=whiskers, color=colour, label=name, error_kw={"elinewidth": 0.8})
        for place, value in zip(places, values, strict=True):
            if not value >= LOWEST:
                mark = "–" if np.isnan(value) else "<"
                ax.text(0.01, place, mark, ha="left", va="center", fontsize=7, color="0.3")
    ax.axvline(0, color="0.3", linewidth=0.8)
    ax.axvline(ENOUGH, color="0.5", linewidth=0.8, linestyle=":")
    ax.set_xlim(LOWEST, 1.02)
    ax.set_yticks(rows, [candidate.name for candidate in ranking])
    ax.set_ylim(len(ranking) - 0.5, -0.5)
    ax.set_xlabel("explained share (1: the same)")
    ax.set_title(_TITLES[measure], fontsize="medium")
    return ax


@styled
def identification_figure(
    identification: Identification, *, name: str = "the learner", figure: AnyFigure | None = None
) -> AnyFigure:
    """Explained variance of predictions and of sensitivities side by side, with the verdict (figure-level)."""
    figure = on_figure(figure, (10.0, 1.6 + 0.42 * max(len(identification.ranking), 3)))
    left, right = figure.subplots(1, 2, sharey=bool(identification.ranking))
    explained_variance_bars(identification, measure="prediction", ax=left)
    explained_variance_bars(identification, measure="sensitivity", ax=right)
    handles, labels = left.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, title="tasks")
    runs = {"zero": "predicts 0", None: "runs none of these algorithms"}
    verdict = runs.get(identification.verdict, f"runs {identification.verdict}")
    figure.suptitle(f"{label(name)} {verdict}", fontsize="large")
    return figure
