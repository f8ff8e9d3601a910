"""The loss against the number of applications, and of layers."""

from typing import Literal

import numpy as np
from matplotlib.axes import Axes

from ...zoo.checks.values import one_of
from ..estimates.means import as_arrays
from ..pictures.curves import draw_curve, logarithmic_losses, say_if_empty, shades
from ..pictures.style import AnyFigure, Figure, label, on_figure, styled
from .rollouts import ReadOuts, Rollout, Rollouts

_YLABELS = {"mean": "half-MSE: mean of ½‖ŷ − y‖²", "median": "median of ½‖ŷ − y‖²"}


@styled
def rollout_curves(
    rollouts: Rollouts,
    *,
    statistic: Literal["mean", "median"] = "mean",
    name: str = "the layer",
    ax: Axes | None = None,
) -> Axes:
    """The loss against the number of applications, a colour for each λ (axes-level: draws on `ax`, or on a figure of its own).

    Solid lines are the model's layer, dashed ones steps of gradient descent; bands of means are ± 1 standard error. What grows to more
    than a hundred times the first loss leaves the panel.
    """
    one_of("statistic", statistic, _YLABELS)
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    drawn: list[float] = []
    for rolled, style, whose in ((rollouts.model, "-", label(name)), (rollouts.descent, "--", "GD, step λη")):
        for colour, rollout in zip(shades(len(rolled)), rolled, strict=True):
            drawn.extend(
                _draw(ax, rollout, statistic, color=colour, linestyle=style, label=f"{whose}, λ = {rollout.damping:g}")
            )
    logarithmic_losses(ax, drawn, around=drawn[0] if np.isfinite(drawn[0]) else None, decades=(4, 2))
    say_if_empty(ax, drawn)
    ax.set(xlabel="number of applications", ylabel=_YLABELS[statistic])
    return ax


@styled
def diverging_shares(rollouts: Rollouts, *, name: str = "the layer", ax: Axes | None = None) -> Axes:
    """The share of diverging tasks against λ (axes-level: draws on `ax`, or on a figure of its own, and returns the Axes).

    Crosses are the tasks on which theory says that gradient descent diverges.
    """
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    dampings = [rollout.damping for rollout in rollouts.model]
    for rolled, style, whose in ((rollouts.model, "o-", label(name)), (rollouts.descent, "s--", "GD, step λη")):
        shares, errors = as_arrays([rollout.diverging for rollout in rolled])
        ax.errorbar(
            dampings, 100 * shares, 100 * np.nan_to_num(errors), fmt=style, capsize=2, markersize=5, label=whose
        )
    bound = 100 * np.array(rollouts.num_beyond_bound) / rollouts.num_tasks
    ax.plot(dampings, bound, "kx", markersize=8, label=r"$(\lambda\eta/N)\,\lambda_{\max}(X^\top X) > 2$")
    ax.set(xlabel="damping λ", ylabel=f"diverging, % of {rollouts.num_tasks:,} tasks")
    ax.set_ylim(bottom=0, top=max(1.0, 1.1 * ax.get_ylim()[1]))
    ax.legend(frameon=False, fontsize="small")
    return ax


@styled
def rollouts_figure(rollouts: Rollouts, *, name: str = "the layer", figure: AnyFigure | None = None) -> AnyFigure:
    """Means, medians and diverging shares side by side (figure-level)."""
    figure = on_figure(figure, (11.5, 4.2))
    left, middle, right = figure.subplots(1, 3)
    rollout_curves(rollouts, statistic="mean", name=name, ax=left)
    rollout_curves(rollouts, statistic="median", name=name, ax=middle)
    diverging_shares(rollouts, name=name, ax=right)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize="small")
    figure.suptitle(
        f"the same layer applied again and again, η = {rollouts.step_size:.4g}, {rollouts.num_tasks:,} tasks",
        fontsize="medium",
    )
    return figure


@styled
def read_out_curve(read_outs: ReadOuts, *, name: str | None = None, ax: Axes | None = None) -> Axes:
    """The loss of the prediction after each layer (axes-level: draws on `ax`, or on a figure of its own, and returns the Axes)."""
    ax = Figure(figsize=(4.6, 3.4), layout="constrained").subplots() if ax is None else ax
    stages, whose = np.arange(len(read_outs.mean)), "" if name is None else f"{label(name)}, "
    draw_curve(ax, stages, read_outs.mean, marker="o", label=f"{whose}mean")
    medians = np.array(read_outs.median, np.float64)
    ax.plot(stages, medians, "s--", markersize=4, label=f"{whose}median")
    ax.set_xticks(stages)
    values, _ = as_arrays(read_outs.mean)
    logarithmic_losses(ax, [*values, *medians])
    say_if_empty(ax, [*values, *medians])
    ax.set(xlabel="number of layers read out after", ylabel="½‖ŷ − y‖² over tasks (mean: half-MSE)")
    ax.legend(frameon=False, fontsize="small")
    return ax


def _draw(ax: Axes, rollout: Rollout, statistic: str, **style) -> np.ndarray:
    applications = np.arange(len(rollout.mean))
    if statistic == "mean":
        draw_curve(ax, applications, rollout.mean, **style)
        return as_arrays(rollout.mean)[0]
    medians = np.array(rollout.median, np.float64)
    ax.plot(applications, medians, **style)
    return medians
