"""LSTMs beside gradient descent: Rossi et al. 2024."""

import math

import jax.random as jr

from ....train.tasks.regression import LinearRegression
from ....train.tuning.baselines import best_baseline
from ...behaviour.alignment import Alignment, alignment
from ...estimates.errors_on_tasks import half_squared_errors
from ...estimates.estimate import Estimate
from ...pictures.curves import colours, draw_curve
from ...pictures.style import Figure
from ..catalogue import measures
from ..result import RESULT_SEED, CheckpointSource, Measurement, Outcome, exact

DEPTHS = (1, 2, 3, 4)
FORWARD = {depth: f"lstm-{depth}" for depth in DEPTHS}
BOTH = {depth: f"bidirectional-lstm-{depth}" for depth in DEPTHS}
ATTENTION = "lsa"
NUM_TASKS = 5_000
TASK = LinearRegression()
KEY = jr.key(RESULT_SEED)


@measures("lstm", checkpoints=(*FORWARD.values(), *BOTH.values(), ATTENTION))
def lstm(source: CheckpointSource) -> Outcome:
    """LSTMs of one and of both directions, by depth, beside one step of gradient descent and the layer of attention."""
    learners = {name: source.load(name) for name in (*FORWARD.values(), *BOTH.values(), ATTENTION)}
    descent = best_baseline("gd-1", TASK)
    errors = half_squared_errors({"gd": descent, **learners}, TASK, num_tasks=NUM_TASKS, key=KEY)
    losses = {name: Estimate.of(values) for name, values in errors.items()}
    aligned = {
        name: alignment(learner, descent, TASK, num_tasks=NUM_TASKS, key=KEY) for name, learner in learners.items()
    }
    measurements = []
    for depth in DEPTHS:
        forward, both = aligned[FORWARD[depth]], aligned[BOTH[depth]]
        distance = _over(both.prediction_distance, forward.prediction_distance)
        cosine = _less(both.sensitivity_cosine, forward.sensitivity_cosine)
        measurements += [
            Measurement(f"depth {depth}: prediction distance to GD, both directions over one", "< 1", distance, high=1),
            Measurement(f"depth {depth}: sensitivity cosine with GD, both less one", "> 0", cosine, low=0),
        ]
    deep, shallow = aligned[BOTH[DEPTHS[-1]]], aligned[BOTH[DEPTHS[0]]]
    deeper = _over(deep.prediction_distance, shallow.prediction_distance)
    rest = deep.prediction_distance
    best_forward = max(aligned[name].sensitivity_cosine.value or 0.0 for name in FORWARD.values())
    measurements += [
        Measurement(f"both directions: prediction distance, depth {DEPTHS[-1]} over depth 1", "< 1", deeper, high=1),
        Measurement(
            f"both directions, depth {DEPTHS[-1]}: prediction distance", "residual differences", rest, low=0.03
        ),
        Measurement("one direction: best sensitivity cosine with GD", "less aligned", exact(best_forward), high=0.999),
    ]
    conditions = f"half-MSE on {NUM_TASKS:,} tasks, N = d = 10, x ~ U(−½, ½)"
    return Outcome(tuple(measurements), conditions, _depth_figure(losses, aligned))


def _over(numerator: Estimate, denominator: Estimate) -> Estimate:
    """The quotient of two means, with the standard error it would have were they independent; on the same tasks it is smaller."""
    if not numerator.value or not denominator.value:
        return Estimate(None, None)
    ratio = numerator.value / denominator.value
    errors = (one.standard_error or 0.0 for one in (numerator, denominator))
    parts = (error / value for error, value in zip(errors, (numerator.value, denominator.value), strict=True))
    return Estimate(ratio, abs(ratio) * math.hypot(*parts))


def _less(one: Estimate, other: Estimate) -> Estimate:
    """The difference of two means, with the standard error it would have were they independent."""
    if one.value is None or other.value is None:
        return Estimate(None, None)
    return Estimate(one.value - other.value, math.hypot(one.standard_error or 0.0, other.standard_error or 0.0))


def _depth_figure(losses: dict[str, Estimate], aligned: dict[str, Alignment]) -> Figure:
    figure = Figure(figsize=(13.0, 4.2), layout="constrained")
    loss, distance, cosine = figure.subplots(1, 3)
    panels = (
        (loss, losses, "half-MSE"),
        (
            distance,
            {name: one.prediction_distance for name, one in aligned.items()},
            "prediction distance to one step of GD",
        ),
        (
            cosine,
            {name: one.sensitivity_cosine for name, one in aligned.items()},
            "sensitivity cosine with one step of GD",
        ),
    )
    for ax, means, label in panels:
        for names, direction, colour, marker in (
            (FORWARD, "one direction", colours(2)[0], "o"),
            (BOTH, "both directions", colours(2)[1], "s"),
        ):
            draw_curve(
                ax,
                DEPTHS,
                [means[names[depth]] for depth in DEPTHS],
                color=colour,
                marker=marker,
                label=f"LSTM, {direction}",
            )
        attention = means[ATTENTION].value
        if attention is not None:
            ax.axhline(attention, color="0.3", linestyle="--", label="one layer of linear attention, lsa")
        ax.set(xlabel="layers", ylabel=label)
        ax.set_xticks(DEPTHS)
        ax.set_ylim(bottom=0)
    cosine.set_ylim(0, 1.05)
    loss.legend(frameon=False, fontsize="small", loc="lower left")
    return figure
