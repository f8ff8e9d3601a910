"""A layer applied again and again: against gradient descent, whose fate is known."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from matplotlib.figure import Figure

from iclzoo.inspect.behaviour.rollouts import read_outs, rollouts
from iclzoo.inspect.behaviour.rollouts_plot import (
    diverging_shares,
    read_out_curve,
    rollout_curves,
    rollouts_figure,
)
from iclzoo.train.losses import over_tasks, squared_error
from iclzoo.train.tasks.regression import LinearRegression
from iclzoo.zoo.algorithms.gradient_descent import GradientDescent
from iclzoo.zoo.algorithms.least_squares import LeastSquares
from iclzoo.zoo.constructions.gradient_descent_step import gradient_descent_lsa
from iclzoo.zoo.errors import ZooError
from iclzoo.zoo.factory import create
from iclzoo.zoo.models.lsa import LSA
from iclzoo.zoo.storage.checkpoint import load

TASK = LinearRegression(input_dim=3, num_examples=5)


def construction(step_size):
    return gradient_descent_lsa([step_size], num_examples=5, input_dim=3)


def squared_errors(learners):
    """‖ŷ − y‖² of each learner on the tasks of these tests, [num_learners, num_tasks]."""

    def errors(learners, prompt, target):
        return jnp.stack([squared_error(learner, prompt, target) for learner in learners])

    return over_tasks(errors, learners, TASK, num_tasks=101, key=jr.key(0)).T


def test_repeating_the_construction_is_repeating_gradient_descent(x64):
    measured = rollouts(
        construction(3.1), TASK, step_size=2.0, dampings=(1.0, 0.7), num_applications=5, num_tasks=101, key=jr.key(0)
    )
    for rolled, eta in ((measured.model, 3.1), (measured.descent, 2.0)):
        for rollout in rolled:
            errors = squared_errors([GradientDescent(eta * rollout.damping, num_steps=k) for k in range(6)])
            assert [mean.value for mean in rollout.mean] == pytest.approx(errors.mean(axis=1) / 2, rel=1e-9)
            assert rollout.median == pytest.approx(np.median(errors, axis=1) / 2, rel=1e-9)


def test_gradient_descent_diverges_where_theory_says():
    """About 3.5 % of 8,192 tasks at λ = 1, with a standard error of 0.2 %; nearly none at 0.75, where the loss nears 0.05."""
    task = LinearRegression()
    learner = gradient_descent_lsa([6.060606], num_examples=10, input_dim=10)
    measured = rollouts(learner, task, dampings=(1.0, 0.75), num_tasks=8192, key=jr.key(7))
    for rolled in (measured.model, measured.descent):
        assert tuple(rollout.num_diverging for rollout in rolled) == measured.num_beyond_bound
    one, damped = measured.model
    assert 0.028 < one.diverging.value < 0.042
    assert damped.num_diverging < 10
    assert one.mean[-1].value > 1e3
    assert one.median[-1] < 0.02
    assert damped.mean[-1].value == pytest.approx(0.05, abs=0.01)


def test_the_damping_of_a_recurrent_model_is_its_own():
    layer: Any = construction(3.1)
    recurrent = create("recurrent_lsa", input_dim=3, num_loops=2, damping=0.5, key=jr.key(0))
    recurrent = eqx.tree_at(lambda m: m.attention, recurrent, layer.attention)
    settings = {"step_size": 1.0, "num_applications": 3, "num_tasks": 101, "key": jr.key(0)}
    own = rollouts(recurrent, TASK, dampings=(1.0,), **settings).model[0]
    halved = rollouts(layer, TASK, dampings=(0.5,), **settings).model[0]
    assert [m.value for m in own.mean] == pytest.approx([m.value for m in halved.mean], rel=1e-5)
    assert own.mean[2].value == pytest.approx(squared_errors([recurrent]).mean() / 2, rel=1e-4)


def test_the_trained_layer_damped_follows_gradient_descent():
    """For ten applications; later its small stray entries, which a single application cannot see, take over."""
    measured = rollouts(
        load("lsa"), LinearRegression(), dampings=(0.75,), num_applications=10, num_tasks=4096, key=jr.key(7)
    )
    (own,), (descent,) = measured.model, measured.descent
    for a, b in zip(own.mean, descent.mean, strict=True):
        assert a.value == pytest.approx(b.value, rel=0.02)
    assert own.num_diverging < 10


def test_read_outs_are_those_of_shorter_models():
    etas = [1.0, 2.0, 3.0]
    deep = gradient_descent_lsa(etas, num_examples=5, input_dim=3)
    measured = read_outs(deep, TASK, num_tasks=101, key=jr.key(0))
    shorter = [GradientDescent(jnp.array(etas[:k]), num_steps=k) for k in range(4)]
    assert [mean.value for mean in measured.mean] == pytest.approx(squared_errors(shorter).mean(axis=1) / 2, rel=1e-4)


def test_a_sweep_over_the_damping_is_traced_once(getkey):
    traces = []

    class Counting(LSA):
        def readout(self, token):
            traces.append(1)
            return super().readout(token)

    model = Counting(input_dim=3, key=getkey())
    for dampings in ((1.0, 0.9, 0.8), (0.7, 0.6, 0.5)):
        rollouts(model, TASK, dampings=dampings, num_applications=7, step_size=1.0, num_tasks=11, key=getkey())
    assert len(traces) <= 3  # before the first application, and in the loop


def test_what_does_not_apply_is_said(getkey):
    deep = create("deep_lsa", input_dim=3, key=getkey())
    with pytest.raises(ZooError, match="DeepLSA has 2 layers"):
        rollouts(deep, TASK, num_tasks=3, key=getkey())
    with pytest.raises(ZooError, match="num_applications must be a whole number from 1 to"):
        rollouts(construction(1.0), TASK, num_applications=0, num_tasks=3, key=getkey())
    for instrument in (rollouts, read_outs):
        with pytest.raises(ZooError, match="LeastSquares has no layer"):
            instrument(LeastSquares(), TASK, num_tasks=3, key=getkey())


@pytest.mark.parametrize("factor", [0.0, jnp.nan, 1e6])
def test_layers_of_zeros_of_nan_and_that_explode_survive(factor, getkey):
    task = LinearRegression(input_dim=1, output_dim=3, num_examples=1)
    model = create("lsa", input_dim=1, output_dim=3, init_scale=1.0, key=getkey())
    model = jax.tree.map(lambda w: w * factor, model)
    measured = rollouts(model, task, num_applications=5, num_tasks=7, key=getkey())
    for rollout in measured.model:
        assert rollout.num_diverging == (0 if factor == 0 else 7)
        assert (rollout.mean[-1].value is None) == (factor != 0)
        assert rollout.median[0] is not None
    rollouts_figure(measured).savefig("/dev/null", format="png")
    read_outs(model, task, num_tasks=7, key=getkey()).plot().figure.savefig("/dev/null", format="png")


def test_the_pictures_say_what_they_show():
    measured = rollouts(construction(2.0), TASK, num_applications=3, num_tasks=53, key=jr.key(0))
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert rollout_curves(measured, statistic="median", name="built", ax=left) is left
    assert list(left.get_lines()[0].get_ydata()) == list(measured.model[0].median)
    assert left.get_lines()[0].get_label() == "built, λ = 1"
    assert "median" in left.get_ylabel()
    assert diverging_shares(measured, ax=right) is right
    assert "53 tasks" in right.get_ylabel()
    ax = read_out_curve(read_outs(construction(2.0), TASK, num_tasks=53, key=jr.key(0)))
    assert "half-MSE" in ax.get_ylabel()
    assert list(ax.get_xticks()) == [0, 1]
