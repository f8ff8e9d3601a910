"""Exact losses over training with the least losses as lines, and the risk of Γ⁻¹ at other lengths."""

import numpy as np
from matplotlib.axes import Axes

from ..pictures.curves import colours, logarithmic_losses, say_if_empty
from ..pictures.style import AnyFigure, Figure, on_figure, styled
from .exact_losses import LeastLosses, LossPath
from .risk import PreconditionedRisk

HALF_MSE = "half-MSE, ½·mean ‖ŷ − y‖²"


@styled
def least_loss_lines(least: LeastLosses, *, ax: Axes | None = None) -> Axes:
    """Horizontal lines at the least half-MSE of theory (axes-level: draws on `ax`, or on a figure of its own, and returns the Axes).

    The axis is left as it is, so that the lines go into any picture of half-MSE; the labels are for its legend. Where the two best
    steps have the same loss there is one line for both.
    """
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    zero, gradient, preconditioned = (
        "predicting 0",
        f"best GD step, η* = {least.step_size:.4g}",
        "best preconditioned step",
    )
    lines = [(least.predicting_zero, zero, ":"), (least.gradient_step, gradient, "--")]
    if least.gradient_step - least.preconditioned_step > 1e-3 * least.gradient_step:
        lines.append((least.preconditioned_step, preconditioned, "-."))
    else:
        lines[-1] = (least.gradient_step, f"best step, GD at η* = {least.step_size:.4g}", "--")
    for loss, label, style in lines:
        ax.axhline(loss, color="0.35", linewidth=1, linestyle=style, label=f"{label}: {loss:.6g}", zorder=1)
    return ax


@styled
def loss_path_curve(path: LossPath, *, excess: bool = False, ax: Axes | None = None) -> Axes:
    """The exact half-MSE against the training step (axes-level: draws on `ax`, or on a figure of its own, and returns the Axes).

    With `excess`, what is above the best preconditioned step, on a logarithmic axis. Steps are on a logarithmic axis that holds 0.
    """
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    losses = np.array(path.half_mse, np.float64)
    shown = losses - path.least.preconditioned_step if excess else losses
    ax.plot(path.steps, shown, "o-", color=colours(1)[0], markersize=4, label="exact loss of the weights", zorder=3)
    if excess:
        logarithmic_losses(ax, shown)
        ax.set(ylabel=f"half-MSE above {path.least.preconditioned_step:.6g}")
        title = "above the best preconditioned step"
    else:
        least_loss_lines(path.least, ax=ax)
        top = np.nanmax(np.append(losses, path.least.predicting_zero))
        ax.set_ylim(0, 1.45 * top or 1.0)  # the legend has the room above
        ax.set(ylabel=HALF_MSE)
        ax.legend(frameon=False, fontsize="small", loc="upper right")
        title = "exact population loss"
    say_if_empty(ax, shown)
    ax.set_xscale("symlog", linthresh=1)
    ax.set_xlim(-0.1, 1.1 * max(path.steps[-1], 1))
    ax.set(xlabel="training step")
    ax.set_title(title if np.isnan(losses[-1]) else f"{title}, last {shown[-1]:.6g}", fontsize="medium")
    return ax


@styled
def loss_path_figure(path: LossPath, *, figure: AnyFigure | None = None) -> AnyFigure:
    """The exact loss over training, and what is left of it above the best (figure-level)."""
    figure = on_figure(figure, (10, 3.8))
    left, right = figure.subplots(1, 2)
    loss_path_curve(path, ax=left)
    loss_path_curve(path, excess=True, ax=right)
    return figure


@styled
def risk_curve(risk: PreconditionedRisk, *, ax: Axes | None = None) -> Axes:
    """The half-MSE, its bias and its variance against M (axes-level: draws on `ax`, or on a figure of its own, and returns the Axes).

    The length N for which the preconditioner was made is marked.
    """
    ax = Figure(layout="constrained").subplots() if ax is None else ax
    total, bias, variance = colours(3)
    parts = [risk.half_mse, np.full(len(risk.num_examples), risk.squared_bias / 2), risk.variance / 2]
    order = np.argsort(risk.num_examples)
    lengths = np.asarray(risk.num_examples)[order]
    names = ("half-MSE", "½·squared bias, for every M", "½·variance ∝ 1/M")
    for part, name, colour, style in zip(parts, names, (total, bias, variance), ("o-", "--", ":"), strict=True):
        ax.plot(lengths, part[order], style, color=colour, markersize=4, label=name)
    N = risk.num_training_examples
    ax.axvline(N, color="0.6", linewidth=1, zorder=0, label=f"M = N = {N}, as in training")
    ax.set_xscale("log")
    logarithmic_losses(ax, np.concatenate([part for part in parts if part.any()] or [np.zeros(1)]))
    say_if_empty(ax, risk.half_mse)
    ax.set(xlabel="M, examples in the prompt", ylabel=HALF_MSE)
    ax.set_title(f"one step with the preconditioner for N = {N}", fontsize="medium")
    ax.legend(frameon=False, fontsize="small")
    return ax
