"""The demonstration of `make demo`: a trained attention layer takes a step of gradient descent."""

from matplotlib.figure import Figure

from ..train.recipes.catalogue import recipe
from ..train.run import fit
from ..train.tuning.step_size import optimal_step_size
from ..zoo.algorithms.gradient_descent import GradientDescent
from ..zoo.constructions.gradient_descent_step import gradient_descent_lsa
from ..zoo.determinism import key_of
from ..zoo.storage.checkpoint import load
from ..zoo.table import Table
from .behaviour.alignment import alignment
from .estimates.errors_on_tasks import half_squared_errors
from .estimates.estimate import Estimate
from .instrument import MEASURING_SEED
from .report.tables import demo_tables
from .weights.heatmap import heatmap

NUM_TASKS = 100_000


def run_demo() -> tuple[tuple[Table, ...], Figure]:
    """Train `lsa-fast`, put it and the shipped `lsa` beside one step of gradient descent, and draw their weights."""
    fresh = recipe("lsa-fast")
    task, key = fresh.task, key_of(MEASURING_SEED)
    optimum = optimal_step_size(task)
    descent = GradientDescent(optimum.step_size)
    learners = {
        "lsa (shipped)": load("lsa"),
        "lsa-fast (trained just now)": fit(fresh).model,
        "one step of GD, η*": descent,
    }
    errors = half_squared_errors(learners, task, num_tasks=NUM_TASKS, key=key)
    losses = {name: Estimate.of(values) for name, values in errors.items()}
    alignments = {
        name: alignment(learner, descent, task, num_tasks=10_000, key=key)
        for name, learner in learners.items()
        if learner is not descent
    }
    construction = gradient_descent_lsa(
        [optimum.step_size], num_examples=task.num_examples, input_dim=task.input_dim, output_dim=task.output_dim
    )
    figure = heatmap(learners["lsa-fast (trained just now)"], beside=construction, names=("trained", "constructed"))
    return demo_tables(losses, optimum, alignments, NUM_TASKS), figure
