"""Loss, alignment with an algorithm, and the implied steps over training."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ..estimates.means import as_arrays
from ..pictures.curves import colours, draw_curve, say_if_empty
from ..pictures.style import AnyFigure, Figure, on_figure, styled
from ..weights.weight_path import WeightPath
from .training_path import AlignmentPath

MOST_HEADS = 4  # named in a legend


@styled
def implied_step_curves(path: WeightPath, *, ax: Axes | None = None) -> Axes:
    """η/N, γ and the largest other entry of every head over training (axes-level: returns the Axes)."""
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    heads = path.implied[-1]
    many = any(step.head > 0 for step in heads)
    for index, (step, colour) in enumerate(zip(heads, colours(max(len(heads), 1)), strict=False)):
        name = "" if len(heads) == 1 else step.layer if not many else f"{step.layer}, head {step.head}"
        for quantity, label, style in (
            ("step_size_over_num_examples", "η/N", "-"),
            ("gamma", "γ", "--"),
            ("largest_other", "largest other entry", ":"),
        ):
            values = [getattr(at_step[index], quantity) for at_step in path.implied]
            ax.plot(path.steps, values, linestyle=style, color=colour, label=f"{label} {name}".strip())
    _step_axis(ax, path.steps)
    ax.set_ylabel("gauge-fixed weight")
    _legend_above(ax, ax.get_lines()[: 3 * MOST_HEADS], columns=min(len(heads), MOST_HEADS) if len(heads) > 1 else 3)
    return ax


@styled
def alignment_curves(path: AlignmentPath, *, ax: Axes | None = None) -> Axes:
    """The three measures of alignment over training (axes-level: returns the Axes of the distances; the cosine has its own, at right)."""
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    first, second, third = colours(3)
    draw_curve(
        ax, path.steps, [a.prediction_distance for a in path.alignments], color=first, label="prediction distance"
    )
    draw_curve(
        ax, path.steps, [a.sensitivity_distance for a in path.alignments], color=second, label="sensitivity distance"
    )
    _step_axis(ax, path.steps)
    ax.set_ylabel(f"distance to {path.baseline}")
    ax.set_ylim(bottom=0)
    right = ax.twinx()
    cosines = [a.sensitivity_cosine for a in path.alignments]
    draw_curve(right, path.steps, cosines, color=third, linestyle="--", label="sensitivity cosine (right)")
    right.set_ylabel("sensitivity cosine")
    right.set_ylim(-1.05, 1.05)
    _legend_above(ax, [*ax.get_lines(), *right.get_lines()])
    return ax


@styled
def loss_curve(path: AlignmentPath, *, ax: Axes | None = None) -> Axes:
    """The half-MSE over training, and the algorithm's as a line (axes-level: returns the Axes)."""
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    draw_curve(ax, path.steps, path.half_mse, color=colours(1)[0], label="model")
    if path.baseline_half_mse.value is not None:
        ax.axhline(path.baseline_half_mse.value, color="0.3", linestyle="--", label=f"{path.baseline}, the same tasks")
    if path.one_step_half_mse is not None:
        ax.axhline(path.one_step_half_mse, color=colours(2)[1], linestyle=":", label="one step of GD at η*, exact")
    say_if_empty(ax, as_arrays(path.half_mse)[0])
    _step_axis(ax, path.steps)
    ax.set_ylabel("half-MSE")
    ax.set_ylim(bottom=0)
    _legend_above(ax, ax.get_lines())
    return ax


@styled
def training_figure(weights: WeightPath, aligned: AlignmentPath, *, figure: AnyFigure | None = None) -> AnyFigure:
    """Loss, alignment and what the weights imply, over training (figure-level)."""
    figure = on_figure(figure, (15.5, 4.4))
    loss, alignment, implied = figure.subplots(1, 3)
    loss_curve(aligned, ax=loss)
    alignment_curves(aligned, ax=alignment)
    if weights.implied[-1]:
        implied_step_curves(weights, ax=implied)
    else:
        implied.set_axis_off()
    return figure


def _legend_above(ax: Axes, lines: Sequence[Line2D], *, columns: int = 2) -> None:
    """Where no curve runs."""
    place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}
    ax.legend(handles=lines, frameon=False, fontsize="small", ncols=columns, **place)


def _step_axis(ax: Axes, steps: Sequence[int]) -> None:
    """Training steps, logarithmic above the first stored step after 0."""
    positive = [step for step in steps if step > 0]
    ax.set_xscale("symlog", linthresh=positive[0] if positive else 1)
    ax.set(xlabel="training step", xlim=(0, max(steps[-1], 1)))
