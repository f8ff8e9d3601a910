"""One trained layer and one step of gradient descent: von Oswald et al. 2023, Figure 2 and appendices A.2 to A.4."""

import jax.random as jr

from ....train.tasks.regression import LinearRegression
from ....train.tuning.baselines import best_baseline
from ....train.tuning.step_size import optimal_step_size
from ...behaviour.alignment import alignment
from ...behaviour.training_path import alignment_path
from ...behaviour.training_path_plot import training_figure
from ...estimates.errors_on_tasks import half_squared_errors
from ...estimates.estimate import Mean
from ...weights.heatmap import heatmap
from ...weights.implied_step import read_step
from ...weights.interpolation import interpolation, read_construction
from ...weights.interpolation_plot import interpolation_figure
from ...weights.products import products
from ...weights.weight_path import weight_path
from ..result import RESULT_SEED, Bar, Finding, Outcome, Result, Shelf, exact, percent

SEEDS = ("lsa", "lsa-seed-2", "lsa-seed-3")
NUM_TASKS = 100_000
TASK = LinearRegression()
CONDITIONS = "half-MSE on {:,} tasks, N = d = 10, x ~ U(−½, ½)"
KEY = jr.key(RESULT_SEED)


def match(shelf: Shelf) -> Outcome:
    """The loss, predictions and sensitivities of three trained layers beside one step of gradient descent."""
    descent = best_baseline("gd-1", TASK)
    learners = {name: shelf.load(name) for name in SEEDS}
    errors = half_squared_errors({"gd": descent, **learners}, TASK, num_tasks=NUM_TASKS, key=KEY)
    loss = Mean.of(errors["gd"])
    findings = [Finding("half-MSE of one step of GD", "0.20", loss, Bar(0.2029, 0.2095))]
    for name, learner in learners.items():
        measured = alignment(learner, descent, TASK, num_tasks=NUM_TASKS, key=KEY)
        excess = percent(Mean.of(errors[name] - errors["gd"]), of=float(errors["gd"].mean()))
        findings += [
            Finding(f"{name}: excess over GD, %", "0", excess, Bar(high=0.3)),
            Finding(f"{name}: sensitivity cosine", "≈ 1", measured.sensitivity_cosine, Bar(low=0.999)),
            Finding(f"{name}: sensitivity distance", "≈ 0", measured.sensitivity_distance, Bar(high=0.15)),
            Finding(f"{name}: prediction distance", "≈ 0", measured.prediction_distance, Bar(high=0.03)),
        ]
    path = alignment_path(shelf.place("lsa"), "gd-1", descent, TASK, key=KEY)
    return Outcome(
        tuple(findings), CONDITIONS.format(NUM_TASKS), training_figure(weight_path(shelf.place("lsa")), path)
    )


def weights(shelf: Shelf) -> Outcome:
    """The gauge-fixed products of the trained layer: multiples of the identity over x, and of 1 for y."""
    model = shelf.load("lsa")
    (reading,) = read_step(products(model)[0])
    optimum = optimal_step_size(TASK).step_size / TASK.num_examples
    findings = (
        Finding(
            "η/N that the weights spell",
            "0.606 (closed form)",
            exact(reading.step_size_over_num_examples),
            Bar(0.597, 0.616),
        ),
        Finding(
            "relative to the optimum, %",
            "0",
            percent(exact(reading.step_size_over_num_examples / optimum - 1)),
            Bar(-1.5, 1.5),
        ),
        Finding(
            "largest other entry, beside a W_KQ,xx of the identity", "≈ 0", exact(reading.largest_other), Bar(high=0.1)
        ),
    )
    figure = heatmap(model, beside=read_construction(model), names=("lsa", "the step it spells"))
    return Outcome(findings, "read off the weights of `lsa`, gauge removed", figure)


def mixing(shelf: Shelf) -> Outcome:
    """The loss on the straight line between the trained layer and the construction it spells."""
    model = shelf.load("lsa")
    line = interpolation(model, read_construction(model), TASK, num_tasks=NUM_TASKS, key=KEY)
    naive = max(value for name in line.curves if name != "gauge removed" if (value := line.deviation(name)) is not None)
    findings = (
        Finding(
            "largest change of the loss for t in [0, 1], gauge removed, %",
            "0",
            percent(exact(line.deviation())),
            Bar(high=0.5),
        ),
        Finding("the same with the gauge left in, %", "large", percent(exact(naive)), Bar(low=5)),
    )
    return Outcome(findings, CONDITIONS.format(NUM_TASKS), interpolation_figure(line, names=("lsa", "construction")))


ORDER = 10  # in the document
RESULTS = (
    Result(
        id="one-layer",
        claim="One trained linear self-attention layer computes what one step of gradient descent with the best η computes.",
        source="von Oswald et al. 2023, Figure 2; Rossi et al. 2024",
        checkpoints=SEEDS,
        measure=match,
    ),
    Result(
        id="weights",
        claim="The weight products of the trained layer are those of the construction, up to the scale that attention leaves free.",
        source="von Oswald et al. 2023, appendix A.4",
        checkpoints=("lsa",),
        measure=weights,
    ),
    Result(
        id="interpolation",
        claim="Between the trained weights and the construction the loss does not change, once their scale is made alike.",
        source="von Oswald et al. 2023, Figure 2 and appendix A.3",
        checkpoints=("lsa",),
        measure=mixing,
    ),
)
