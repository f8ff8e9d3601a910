"""One trained layer and one step of gradient descent: von Oswald et al. 2023, Figure 2 and appendices A.2 to A.4."""

import jax.random as jr

from ....train.tasks.regression import LinearRegression
from ....train.tuning.baselines import best_baseline
from ....train.tuning.step_size import optimal_step_size
from ...behaviour.alignment import alignment
from ...behaviour.training_path import alignment_path
from ...behaviour.training_path_plot import training_figure
from ...estimates.errors_on_tasks import half_squared_errors
from ...estimates.estimate import Estimate
from ...pictures.style import figure_of
from ...weights.heatmap import heatmap
from ...weights.implied_step import implied_steps
from ...weights.interpolation import implied_construction, interpolation
from ...weights.weight_path import weight_path
from ...weights.weight_products import products
from ..catalogue import measures
from ..result import RESULT_SEED, CheckpointSource, Measurement, Outcome, exact, percent

SEEDS = ("lsa", "lsa-seed-2", "lsa-seed-3")
NUM_TASKS = 100_000
TASK = LinearRegression()
CONDITIONS = "half-MSE on {:,} tasks, N = d = 10, x ~ U(−½, ½)"
KEY = jr.key(RESULT_SEED)


@measures("one-layer", checkpoints=SEEDS)
def match(source: CheckpointSource) -> Outcome:
    """The loss, predictions and sensitivities of three trained layers beside one step of gradient descent."""
    descent = best_baseline("gd-1", TASK)
    learners = {name: source.load(name) for name in SEEDS}
    errors = half_squared_errors({"gd": descent, **learners}, TASK, num_tasks=NUM_TASKS, key=KEY)
    loss = Estimate.of(errors["gd"])
    measurements = [Measurement("half-MSE of one step of GD", "0.20", loss, 0.2029, 0.2095)]
    for name, learner in learners.items():
        measured = alignment(learner, descent, TASK, num_tasks=NUM_TASKS, key=KEY)
        excess = percent(Estimate.of(errors[name] - errors["gd"]), of=float(errors["gd"].mean()))
        measurements += [
            Measurement(f"{name}: excess over GD, %", "0", excess, high=0.3),
            Measurement(f"{name}: sensitivity cosine", "≈ 1", measured.sensitivity_cosine, low=0.999),
            Measurement(f"{name}: sensitivity distance", "≈ 0", measured.sensitivity_distance, high=0.15),
            Measurement(f"{name}: prediction distance", "≈ 0", measured.prediction_distance, high=0.03),
        ]
    path = alignment_path(source.place("lsa"), "gd-1", descent, TASK, key=KEY)
    return Outcome(
        tuple(measurements), CONDITIONS.format(NUM_TASKS), training_figure(weight_path(source.place("lsa")), path)
    )


@measures("weights", checkpoints=("lsa",))
def weights(source: CheckpointSource) -> Outcome:
    """The gauge-fixed products of the trained layer: multiples of the identity over x, and of 1 for y."""
    model = source.load("lsa")
    (step,) = implied_steps(products(model)[0])
    optimum = optimal_step_size(TASK).step_size / TASK.num_examples
    measurements = (
        Measurement(
            "η/N that the weights imply", "0.606 (closed form)", exact(step.step_size_over_num_examples), 0.597, 0.616
        ),
        Measurement(
            "relative to the optimum, %", "0", percent(exact(step.step_size_over_num_examples / optimum - 1)), -1.5, 1.5
        ),
        Measurement(
            "largest other entry, beside a W_KQ,xx of the identity", "≈ 0", exact(step.largest_other), high=0.1
        ),
    )
    figure = heatmap(model, beside=implied_construction(model), names=("lsa", "the implied step"))
    return Outcome(measurements, "read off the weights of `lsa`, gauge removed", figure)


@measures("interpolation", checkpoints=("lsa",))
def mixing(source: CheckpointSource) -> Outcome:
    """The loss on the straight line between the trained layer and the construction it implies."""
    model = source.load("lsa")
    line = interpolation(model, implied_construction(model), TASK, num_tasks=NUM_TASKS, key=KEY)
    naive = max(value for name in line.curves if name != "gauge removed" if (value := line.deviation(name)) is not None)
    measurements = (
        Measurement(
            "largest change of the loss for t in [0, 1], gauge removed, %",
            "0",
            percent(exact(line.deviation())),
            high=0.5,
        ),
        Measurement("the same with the gauge left in, %", "large", percent(exact(naive)), low=5),
    )
    return Outcome(measurements, CONDITIONS.format(NUM_TASKS), figure_of(line.plot(names=("lsa", "construction"))))
