"""What each layer does to the eigenvalues of the context, and the condition numbers it leaves."""

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes

from ..estimates.estimate import Estimate
from ..pictures.curves import colours, say_if_empty
from ..pictures.style import AnyFigure, Figure, on_figure, styled
from .layers_as_steps import FittedSteps


@styled
def eigenvalue_map(fit: FittedSteps, layer: int = 0, *, ax: Axes | None = None) -> Axes:
    """λ ↦ λ(1 − γλ)² with the fitted γ, over what the layer does (axes-level: draws on `ax`, or on a figure of its own, returns the Axes).

    Points are pairs (λ, vᵀH'v) of real prompts, v an eigenvector of H = Σᵢ xᵢ xᵢᵀ before the layer and H' that after it. The histogram
    of the λ has the scale of its own at the right.
    """
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    step, before, after = fit.layers[layer], fit.eigenvalues[layer].ravel(), fit.mapped[layer].ravel()
    finite = np.isfinite(before) & np.isfinite(after)
    before, after = before[finite], after[finite]
    reach = float(before.max(initial=0.0)) or 1.0
    points, curve, bars = colours(3)
    counts = ax.twinx()
    if len(before):
        sns.histplot(x=before, bins=30, binrange=(0, reach), color=bars, alpha=0.25, linewidth=0, ax=counts)
    counts.set(ylabel="eigenvalues (bars)", xlabel="")
    ax.set_zorder(counts.get_zorder() + 1)  # the curve over the bars
    ax.patch.set_visible(False)
    grid = np.linspace(0, reach, 200)
    ax.plot(grid, grid, color="0.7", linewidth=0.8, label="λ, unchanged")
    if len(before):
        ax.plot(before, after, ".", color=points, markersize=3, alpha=0.5, label="prompts")
    heights = [grid, after]
    if (gamma := step.gamma.value) is not None:
        mapped = grid * (1 - gamma * grid) ** 2
        ax.plot(grid, mapped, color=curve, label=rf"$\lambda(1-\gamma\lambda)^2$, γ = {_number(step.gamma)}")
        heights.append(mapped)
    say_if_empty(ax, after if len(after) else [None])
    top = max(float(np.quantile(h, 0.99)) for h in heights if len(h))
    ax.set(
        xlabel=r"λ, eigenvalue of $\Sigma_i x_i x_i^\top$ before",
        ylabel="after the layer",
        xlim=(0, reach),
        ylim=(0, 1.1 * top),
    )
    title = f"{_place(fit, layer)}: η/N = {_number(step.step_size_over_num_examples)}"
    ax.set_title(title if step.gamma_matters else f"{title}\nlast layer: its γ moves no prediction", fontsize="medium")
    ax.legend(frameon=False, fontsize="small", loc="upper left")
    return ax


@styled
def condition_numbers(fit: FittedSteps, *, ax: Axes | None = None) -> Axes:
    """The condition number of Σᵢ xᵢ xᵢᵀ before the first and after each layer, median and quartiles over tasks.

    Axes-level: draws on `ax`, or on a figure of its own, and returns the Axes.
    """
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    spreads = fit.condition_numbers
    medians, low, high = (
        np.array(values, np.float64)
        for values in (
            [s.median for s in spreads],
            [s.quartiles[0] for s in spreads],
            [s.quartiles[1] for s in spreads],
        )
    )
    stages = np.arange(len(spreads))
    (colour,) = colours(1)
    ax.errorbar(stages, medians, yerr=[medians - low, high - medians], fmt="o-", color=colour, capsize=4)
    for stage, median in zip(stages, medians, strict=True):
        if np.isfinite(median):
            ax.annotate(f"{median:.3g}", (stage, median), xytext=(6, 6), textcoords="offset points", fontsize="small")
    say_if_empty(ax, medians)
    if np.isfinite(medians).any():
        ax.set_yscale("log")
    ax.set_xticks(stages, ["input", *(f"after\n{_place(fit, k)}".replace(", ", ",\n") for k in range(len(fit.layers)))])
    ax.set_xlim(-0.5, len(spreads) - 0.5)
    ax.set(ylabel=r"$\lambda_{\max}/\lambda_{\min}$ of $\Sigma_i x_i x_i^\top$")
    ax.set_title("condition number: median, quartiles", fontsize="medium")
    return ax


@styled
def fitted_steps_figure(fit: FittedSteps, *, figure: AnyFigure | None = None) -> AnyFigure:
    """The eigenvalue map of every layer, and the condition numbers (figure-level)."""
    panels = len(fit.layers) + 1
    columns = min(panels, 3)
    rows = -(-panels // columns)
    figure = on_figure(figure, (4.6 * columns, 3.8 * rows))
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for layer in range(len(fit.layers)):
        eigenvalue_map(fit, layer, ax=axes[layer])
    condition_numbers(fit, ax=axes[panels - 1])
    for spare in axes[panels:]:
        spare.remove()
    return figure


def _place(fit: FittedSteps, layer: int) -> str:
    """The layer's name; which application of it, where there are several."""
    name = fit.layers[layer].layer
    same = [k for k, step in enumerate(fit.layers) if step.layer == name]
    return name if len(same) == 1 else f"{name}, pass {same.index(layer) + 1}"


def _number(mean: Estimate) -> str:
    if mean.value is None:
        return "undefined"
    return f"{mean.value:.4g}" if mean.standard_error is None else f"{mean.value:.4g} ± {mean.standard_error:.1g}"
