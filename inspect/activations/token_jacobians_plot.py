"""The copying phase, and the token map of the first layer, as pictures."""

import seaborn as sns
from matplotlib.axes import Axes

from ..pictures.curves import colours, draw_curve
from ..pictures.style import AnyFigure, Figure, on_figure, styled
from .token_jacobians import CopyingPath, TokenMap


@styled
def copying_curves(path: CopyingPath, *, ax: Axes | None = None) -> Axes:
    """Derivative norms over training steps, with the half-MSE on an axis of its own (axes-level: returns the Axes of the norms)."""
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    own, following, other, loss = colours(4)
    for colour, name, label in (
        (own, "own", "own token"),
        (following, "next", "next token, its label"),
        (other, "other", "any other token"),
    ):
        draw_curve(ax, path.steps, [getattr(norms, name) for norms in path.norms], color=colour, label=label)
    ax.set(xlabel="training step", ylabel=r"$\Vert\partial t(e_j)\,/\,\partial e_i\Vert_F$, mean over tasks")
    ax.set_ylim(bottom=0)
    after = [step for step in path.steps if step > 0]
    ax.set_xscale("symlog", linthresh=after[0] if after else 1)  # the change of phase is early
    ax.set_xlim(0, max(path.steps[-1], 1))
    right = ax.twinx()
    draw_curve(right, path.steps, path.half_mse, color=loss, linestyle="--", label="half-MSE")
    right.set_ylabel("half-MSE")
    right.set_ylim(bottom=0)
    handles = [*ax.get_lines(), *right.get_lines()]
    ax.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    return ax


@styled
def token_heatmap(tokens: TokenMap, *, ax: Axes | None = None) -> Axes:
    """The map of derivative norms, output tokens down and input tokens across (axes-level: returns the Axes)."""
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    sns.heatmap(tokens.norms, vmin=0.0, cmap="Blues", square=True, xticklabels=False, yticklabels=False, ax=ax)
    every = 1 + len(tokens.labels) // 24
    places = [place + 0.5 for place in range(0, len(tokens.labels), every)]
    ax.set_xticks(places, tokens.labels[::every], rotation=90)
    ax.set_yticks(places, tokens.labels[::every])
    ax.set(xlabel="input token $e_i$", ylabel="output token $t(e_j)$")
    ax.set_title(
        rf"$\Vert\partial t(e_j)/\partial e_i\Vert_F$, mean over {tokens.num_tasks:,} tasks", fontsize="medium"
    )
    return ax


@styled
def copying_figure(path: CopyingPath, tokens: TokenMap, *, figure: AnyFigure | None = None) -> AnyFigure:
    """The copying phase beside the token map at its end (figure-level)."""
    figure = on_figure(figure, (12.5, 5.0))
    left, right = figure.subplots(1, 2)
    copying_curves(path, ax=left)
    token_heatmap(tokens, ax=right)
    return figure
