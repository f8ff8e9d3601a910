"""The loss of one prompt over two weights: minima, steps and solutions are where they should be."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from matplotlib.figure import Figure

from iclzoo.inspect.behaviour.landscapes import landscapes
from iclzoo.inspect.behaviour.landscapes_plot import landscape, landscapes_figure
from iclzoo.train.tasks.regression import LinearRegression
from iclzoo.train.tasks.teachers import GaussianTeacher
from iclzoo.zoo.algorithms.gradient_descent import GradientDescent
from iclzoo.zoo.algorithms.least_squares import LeastSquares, ZeroPredictor
from iclzoo.zoo.constructions.gradient_descent_step import gradient_descent_lsa
from iclzoo.zoo.errors import ZooError
from iclzoo.zoo.factory import create

TASK = LinearRegression(input_dim=2, num_examples=7)


def test_the_step_of_the_construction_is_the_gradient_step():
    learner = gradient_descent_lsa([3.0], num_examples=7, input_dim=2)
    for one in landscapes(learner, TASK, step_size=3.0, key=jr.key(0)).prompts:
        assert one.step == pytest.approx(one.descent, rel=1e-4, abs=1e-6)
        assert np.linalg.norm(one.step) > 0


def test_the_loss_is_that_of_the_examples_and_least_at_the_solution():
    prompts, _ = TASK.sample_batch(jr.key(0), 2)
    for i, one in enumerate(
        landscapes(LeastSquares(), TASK, num_prompts=2, step_size=3.0, resolution=41, key=jr.key(0)).prompts
    ):
        w1, w2 = one.ticks[11], one.ticks[29]
        expected = ((prompts.xs[i] @ np.array([w1, w2]) - prompts.ys[i, :, 0]) ** 2).mean() / 2
        assert one.loss[29, 11] == pytest.approx(float(expected), rel=1e-5)  # row: w2, column: w1
        row, column = np.unravel_index(one.loss.argmin(), one.loss.shape)
        spacing = one.ticks[1] - one.ticks[0]
        # of an elongated valley the lowest point of the grid may lie a few points from the minimum
        assert np.abs([one.ticks[column], one.ticks[row]] - one.least_squares).max() < 3 * spacing
        assert one.step == pytest.approx(one.least_squares, abs=1e-3)


def test_the_gradient_step_points_down_the_gradient():
    (one,) = landscapes(ZeroPredictor(), TASK, num_prompts=1, step_size=3.0, resolution=201, key=jr.key(5)).prompts
    middle = 100  # w = 0
    spacing = one.ticks[1] - one.ticks[0]
    by_w2, by_w1 = np.gradient(one.loss, spacing)
    assert -3.0 * np.array([by_w1[middle, middle], by_w2[middle, middle]]) == pytest.approx(one.descent, rel=1e-3)
    assert not one.step.any()


def test_the_default_step_is_the_best_single_one():
    (one,) = landscapes(
        ZeroPredictor(), LinearRegression(input_dim=2, num_examples=5), num_prompts=1, key=jr.key(0)
    ).prompts
    assert one.step_size == pytest.approx(2.205882 * 4, rel=1e-5)  # half_width ½ instead of 1


def test_tasks_without_a_plane_are_refused():
    with pytest.raises(ZooError, match="needs input_dim 2, but the task has 10"):
        landscapes(ZeroPredictor(), LinearRegression(), key=jr.key(0))
    with pytest.raises(ZooError, match="needs output_dim 1, but the task has 3"):
        landscapes(ZeroPredictor(), LinearRegression(input_dim=2, output_dim=3), key=jr.key(0))
    with pytest.raises(ZooError, match="reads prompts of input_dim 10, but task has 2"):
        landscapes(create("lsa", key=jr.key(0)), TASK, key=jr.key(0))


@pytest.mark.parametrize("factor", [0.0, jnp.nan])
def test_one_example_nothing_to_learn_and_broken_learners_survive(factor):
    task = LinearRegression(input_dim=2, num_examples=1, teacher=GaussianTeacher(scale=0.0))
    learner = jax.tree.map(lambda w: w * factor, create("lsa", input_dim=2, key=jr.key(0)))
    drawn = landscapes(learner, task, num_prompts=5, step_size=1.0, key=jr.key(0)).prompts
    assert (drawn[0].step is None) == bool(jnp.isnan(factor))
    assert np.isfinite(drawn[0].loss).all()
    figure = landscapes_figure(drawn)
    figure.savefig("/dev/null", format="png")
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert ("not finite on 5 of 5" in labels[0]) == bool(jnp.isnan(factor))


def test_the_picture_says_what_it_shows():
    drawn = landscapes(GradientDescent(2.0), TASK, step_size=3.0, key=jr.key(0)).prompts
    figure = Figure()
    ax = figure.subplots()
    assert landscape(drawn[0], name="GD", ax=ax) is ax
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("w1", "w2")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "GD: ∂ŷ/∂x",
        "gradient step, η = 3",
        "least squares",
    ]
    image = ax.get_images()[0]
    assert image.origin == "lower"
    assert np.array_equal(image.get_array(), drawn[0].loss)
    grid = landscapes_figure(drawn)
    panels = [ax for ax in grid.axes if ax.get_images()]
    assert len(panels) == 6
    assert len({ax.get_images()[0].get_clim() for ax in panels}) == 1


def test_learners_are_traced_once(getkey):
    traces = []

    class Counting(eqx.Module):
        def __call__(self, prompt):
            traces.append(1)
            return ZeroPredictor()(prompt)

    for _ in range(2):
        landscapes(Counting(), TASK, step_size=1.0, key=getkey())
    assert len(traces) == 1
