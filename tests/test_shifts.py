"""Losses on shifted tasks: laws that hold exactly, and what refuses a shift."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from matplotlib.figure import Figure

from iclzoo.inspect.behaviour.shifts import shift, shifts
from iclzoo.inspect.behaviour.shifts_plot import shift_curves, shifts_figure
from iclzoo.inspect.estimates.estimate import Estimate
from iclzoo.train.losses import over_tasks, squared_error
from iclzoo.train.tasks.inputs import Gaussian
from iclzoo.train.tasks.regression import LinearRegression, PromptPool, SineRegression
from iclzoo.train.tasks.sweeps import DistractedTask
from iclzoo.train.tasks.teachers import GaussianTeacher, PooledTeacher
from iclzoo.zoo.algorithms.gradient_descent import GradientDescent
from iclzoo.zoo.algorithms.least_squares import LeastSquares, Ridge, ZeroPredictor
from iclzoo.zoo.algorithms.smoothing import KNearestNeighbours
from iclzoo.zoo.constructions.gradient_descent_step import gradient_descent_lsa
from iclzoo.zoo.errors import UnknownNameError, ZooError
from iclzoo.zoo.factory import create
from iclzoo.zoo.storage.checkpoint import load

TASK = LinearRegression(input_dim=3, num_examples=5)
BUILT = gradient_descent_lsa([2.0], num_examples=5, input_dim=3)
PAIR = {"layer": BUILT, "step": GradientDescent(2.0)}


def losses(shifted, name):
    return np.array([mean.value for mean in shifted.half_mse[name]])


@pytest.mark.parametrize("kind", ["half_width", "teacher_scale", "distribution", "distractors"])
def test_a_layer_and_the_step_it_takes_coincide(kind):
    """And at the training point theirs is the loss of the task itself."""
    shifted = shift(kind, PAIR, TASK, num_tasks=101, key=jr.key(0))
    assert losses(shifted, "step") == pytest.approx(losses(shifted, "layer"), rel=1e-5)
    assert max(abs(mean.value) for mean in shifted.excess["step"]) < 1e-4 * max(losses(shifted, "layer"))
    trained = losses(shifted, "layer")[shifted.values.index(shifted.training)]
    assert trained == pytest.approx(over_tasks(squared_error, BUILT, TASK, num_tasks=101, key=jr.key(0)).mean() / 2)


def test_a_layer_keeps_its_step_over_n():
    shifted = shift("num_examples", {"layer": BUILT}, TASK, values=[2, 5, 11], num_tasks=101, key=jr.key(0))
    steps = {f"{n}": GradientDescent(2.0 * n / 5) for n in (2, 5, 11)}
    others = shift("num_examples", steps, TASK, values=[2, 5, 11], num_tasks=101, key=jr.key(0))
    expected = [losses(others, name)[i] for i, name in enumerate(steps)]
    assert losses(shifted, "layer") == pytest.approx(expected, rel=1e-5)
    assert shifted.training == 5


def test_the_trained_layer_lies_on_one_step_of_descent():
    """Within a few per cent wherever inputs are no larger than twice those of training: its stray entries grow with them."""
    step = gradient_descent_lsa([6.060606], num_examples=10, input_dim=10)
    learners = {"lsa": load("lsa"), "step": step}
    for kind in ("half_width", "teacher_scale"):
        shifted = shift(kind, learners, LinearRegression(), num_tasks=4096, key=jr.key(7))
        assert losses(shifted, "step") == pytest.approx(losses(shifted, "lsa"), rel=0.02)


def test_the_teacher_scale_multiplies_the_loss_by_its_square(x64):
    scales = (0.0, 0.5, 1.0, 3.0)
    learners = {"step": GradientDescent(2.0), "zero": ZeroPredictor()}
    shifted = shift("teacher_scale", learners, TASK, values=scales, num_tasks=53, key=jr.key(0))
    for name in learners:
        values = losses(shifted, name)
        assert values == pytest.approx(np.square(scales) * values[2], rel=1e-10, abs=1e-300)


def test_all_distributions_have_the_same_size():
    class Size(eqx.Module):
        """½‖ŷ − 0‖² is half the mean square of the query, on tasks whose labels are 0."""

        def __call__(self, prompt):
            return jnp.sqrt((prompt.query**2).mean(keepdims=True))

    task = LinearRegression(input_dim=3, num_examples=1, teacher=GaussianTeacher(scale=0.0))
    shifted = shift("distribution", {"size": Size()}, task, num_tasks=20_000, key=jr.key(0))
    for mean in shifted.half_mse["size"]:
        assert abs(mean.value - 0.25 / 3 / 2) < 4 * mean.standard_error


def test_distractors_are_those_of_the_task():
    """The same distribution as `LinearRegression(num_distractors=…)`, and none of its labels is left where all are replaced."""
    learner = GradientDescent(2.0)
    ours, theirs = (
        over_tasks(squared_error, learner, task, num_tasks=20_000, key=key)
        for task, key in (
            (DistractedTask(TASK, jnp.asarray(2)), jr.key(0)),
            (LinearRegression(input_dim=3, num_examples=5, num_distractors=2), jr.key(1)),
        )
    )
    error = np.hypot(ours.std(), theirs.std()) / 20_000**0.5
    assert abs(ours.mean() - theirs.mean()) < 4 * error
    sample = jax.jit(lambda n: DistractedTask(TASK, n).sample(jr.key(3))[0])
    clean, some, all_ = (sample(jnp.asarray(n)) for n in (0, 2, 5))
    assert (np.asarray(clean.ys != some.ys).sum(), np.asarray(clean.ys != all_.ys).sum()) == (2, 5)
    assert np.array_equal(clean.xs, all_.xs)


def test_a_sweep_is_traced_once(getkey):
    traces = []

    class Counting(eqx.Module):
        def __call__(self, prompt):
            traces.append(1)
            return ZeroPredictor()(prompt)

    for kind in ("half_width", "teacher_scale", "distractors"):
        traces.clear()
        shift(kind, {"counting": Counting()}, TASK, num_tasks=11, key=getkey())
        assert len(traces) == 1


def test_several_solvers_side_by_side_do_not_lock_up():
    learners = {"least squares": LeastSquares(), "layer": BUILT, "ridge": Ridge(0.1), "ridge, larger": Ridge(1.0)}
    shifted = shift("num_examples", learners, TASK, num_tasks=512, key=jr.key(0))
    assert losses(shifted, "least squares")[-1] < 1e-6


def test_a_learner_that_cannot_read_a_prompt_has_a_gap_and_a_reason():
    learners = {"layer": BUILT, "3 neighbours": KNearestNeighbours(3)}
    shifted = shift("num_examples", learners, TASK, values=[2, 3, 5], num_tasks=11, key=jr.key(0))
    assert shifted.half_mse["3 neighbours"][0] == Estimate(None, None)
    assert shifted.half_mse["3 neighbours"][1].value > 0
    assert "needs as many examples" in shifted.undefined["3 neighbours"]
    assert "layer" not in shifted.undefined
    shift_curves(shifted).figure.savefig("/dev/null", format="png")


def test_what_a_task_has_not_is_said():
    measured = shifts({"zero": ZeroPredictor()}, SineRegression(), num_tasks=11, key=jr.key(0))
    found, missing = measured.found, measured.missing
    assert set(found) == {"half_width", "distribution", "num_examples"}
    assert not missing
    with pytest.raises(UnknownNameError, match="unknown shift of SineRegression 'teacher_scale'"):
        shift("teacher_scale", {"zero": ZeroPredictor()}, SineRegression(), num_tasks=11, key=jr.key(0))
    pooled = LinearRegression(input_dim=3, num_examples=5, teacher=PooledTeacher())
    with pytest.raises(ZooError, match="the teacher is PooledTeacher"):
        shift("teacher_scale", {"zero": ZeroPredictor()}, pooled, num_tasks=11, key=jr.key(0))
    with pytest.raises(UnknownNameError, match="half_width"):
        shift("halfwidth", {"zero": ZeroPredictor()}, TASK, num_tasks=11, key=jr.key(0))
    with pytest.raises(ZooError, match="at least one learner"):
        shift("half_width", {}, TASK, num_tasks=11, key=jr.key(0))
    with pytest.raises(ZooError, match="from 0 to 5"):
        shift("distractors", {"zero": ZeroPredictor()}, TASK, values=[6], num_tasks=11, key=jr.key(0))


def test_the_task_behind_a_pool_is_shifted():
    fresh, pooled = (shift("half_width", PAIR, task, num_tasks=101, key=jr.key(0)) for task in (TASK, PromptPool(TASK)))
    assert fresh == pooled


def test_inputs_that_were_not_uniform_have_no_training_half_width():
    task = LinearRegression(input_dim=3, num_examples=5, inputs=Gaussian(4.0))
    shifted = shift("half_width", PAIR, task, num_tasks=101, key=jr.key(0))
    assert shifted.training is None
    assert shifted.values[3] == pytest.approx(2 * 3**0.5)  # as wide as the inputs of training


def test_everything_survives_in_numbers_and_pictures(getkey):
    task = LinearRegression(input_dim=1, output_dim=3, num_examples=1, teacher=GaussianTeacher(scale=0.0))
    fresh = create("lsa", input_dim=1, output_dim=3, key=getkey())
    broken = eqx.tree_at(lambda m: m.attention.W_V, fresh, jnp.full_like(fresh.attention.W_V, jnp.nan))
    measured = shifts({"fresh": fresh, "broken": broken, "zero": ZeroPredictor()}, task, num_tasks=1, key=getkey())
    found, missing = measured.found, measured.missing
    assert not missing
    assert list(found) == list(task.sweeps())
    for shifted in found.values():
        assert shifted.half_mse["broken"][0] == Estimate(None, None)
        assert "not finite on up to 1 of 1 tasks" in shifted.undefined["broken"]
        assert shifted.half_mse["zero"][0].standard_error is None
    shifts_figure(found).savefig("/dev/null", format="png")


def test_the_picture_says_what_it_shows():
    shifted = shift("half_width", PAIR, TASK, num_tasks=101, key=jr.key(0))
    figure = Figure()
    ax = figure.subplots()
    assert shift_curves(shifted, ax=ax) is ax
    assert "half-MSE" in ax.get_ylabel()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["layer", "step", "training"]
    assert list(ax.get_lines()[0].get_ydata()) == [mean.value for mean in shifted.half_mse["layer"]]
    assert list(ax.get_lines()[2].get_xdata()) == [0.5, 0.5]
    by_kind = shift("distribution", PAIR, TASK, num_tasks=101, key=jr.key(0))
    assert [tick.get_text() for tick in shift_curves(by_kind).get_xticklabels()] == list(by_kind.values)
    assert len(shifts_figure({"half_width": shifted, "distribution": by_kind}).axes) == 2
