"""Weights, loss and alignment over the stored steps of a training."""

import io
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Array
from PIL import Image

from iclzoo.inspect.behaviour.training_path import alignment_path
from iclzoo.inspect.behaviour.training_path_plot import loss_curve, training_figure
from iclzoo.inspect.weights.block_shares import block_shares
from iclzoo.inspect.weights.spectrum import spectra
from iclzoo.inspect.weights.spectrum_plot import spectrum_curves
from iclzoo.inspect.weights.weight_path import weight_path
from iclzoo.inspect.weights.weight_path_plot import spread, weight_path_figure
from iclzoo.train.tasks.regression import LinearRegression, SineRegression
from iclzoo.train.tuning.step_size import optimal_step_size
from iclzoo.zoo.algorithms.gradient_descent import GradientDescent
from iclzoo.zoo.constructions.gd_plus_plus import gd_plus_plus_lsa
from iclzoo.zoo.constructions.gradient_descent_step import gradient_descent_lsa
from iclzoo.zoo.errors import ZooError
from iclzoo.zoo.factory import create

N, D = 5, 3
TASK = LinearRegression(input_dim=D, num_examples=N)
DESCENT = GradientDescent(2.0)


def constructed(eta: float):
    return gradient_descent_lsa([eta], num_examples=N, input_dim=D)


def test_a_path_towards_a_construction():
    path = {step: constructed(eta) for step, eta in ((0, 0.5), (7, 1.0), (20, 2.0))}
    weights = weight_path(path)
    assert weights.steps == (0, 7, 20)
    assert [r[0].step_size_over_num_examples for r in weights.implied] == [pytest.approx(x / N) for x in (0.5, 1, 2)]
    aligned = alignment_path(path, "gd", DESCENT, TASK, num_tasks=101, key=jr.key(0))
    distances = [a.prediction_distance.value for a in aligned.alignments]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] == pytest.approx(0, abs=1e-6)
    assert aligned.half_mse[-1].value == pytest.approx(aligned.baseline_half_mse.value, rel=1e-5)
    training_figure(weights, aligned).savefig("/dev/null", format="png")
    weight_path_figure(weights, columns=2).savefig("/dev/null", format="png")


class Counted(eqx.Module):
    """c times one step of gradient descent, which counts how often it is traced."""

    c: Array
    traces: ClassVar[list[int]] = []

    def __call__(self, prompt):
        self.traces.append(1)
        return self.c * DESCENT(prompt)


def test_more_steps_compile_nothing_more():
    models = {step: Counted(jnp.asarray(step / 10)) for step in range(10)}
    alignment_path({0: models[0]}, "gd", DESCENT, TASK, num_tasks=11, key=jr.key(0))
    before = len(Counted.traces)
    path = alignment_path(models, "gd", DESCENT, TASK, num_tasks=11, key=jr.key(0))
    assert len(Counted.traces) == before > 0
    assert path.alignments[0].num_undefined == 11  # the first one predicts 0


def test_the_exact_minimum_of_one_step_is_a_line():
    path = alignment_path({0: constructed(1.0)}, "gd", DESCENT, TASK, num_tasks=11, key=jr.key(0))
    assert path.one_step_half_mse == optimal_step_size(TASK).half_mse
    labels = [text.get_text() for text in loss_curve(path).get_legend().get_texts()]
    assert labels == ["model", "gd, the same tasks", "one step of GD at η*, exact"]
    sines = SineRegression(num_examples=N)
    learner = gradient_descent_lsa([1.0], num_examples=N, input_dim=1)
    unknown = alignment_path({0: learner}, "gd", DESCENT, sines, num_tasks=11, key=jr.key(0))
    assert unknown.one_step_half_mse is None
    assert len(loss_curve(unknown).get_legend().get_texts()) == 2


def test_a_path_of_broken_weights_is_undefined():
    broken = jax.tree.map(lambda w: w * jnp.nan, create("lsa", input_dim=D, key=jr.key(0)))
    path = alignment_path({0: broken}, "gd", DESCENT, TASK, num_tasks=11, key=jr.key(0))
    assert path.half_mse[0].value is None
    assert path.alignments[0].num_not_finite == 11
    training_figure(weight_path({0: broken}), path).savefig("/dev/null", format="png")


def test_the_shipped_path_starts_at_nothing_and_ends_at_one_step():
    weights = weight_path("lsa-fast")
    assert weights.steps[0] == 0
    assert weights.implied[0][0].step_size_over_num_examples == pytest.approx(0, abs=0.01)
    assert weights.implied[-1][0].step_size_over_num_examples == pytest.approx(0.606, rel=0.015)


def test_blocks_of_a_construction():
    (shares,) = block_shares(constructed(1.0))
    assert np.allclose(shares.W_KQ, [[1, 0], [0, 0]])
    assert np.allclose(shares.W_PV, [[0, 0], [0, 1]])
    (mixed,) = block_shares(gd_plus_plus_lsa([N * 1.0], [1.0], num_examples=N, input_dim=D))
    assert np.allclose(mixed.W_PV, [[D / (D + 1), 0], [0, 1 / (D + 1)]])


def test_zero_broken_and_other_models():
    zero = jax.tree.map(jnp.zeros_like, create("lsa", input_dim=D, key=jr.key(0)))
    assert block_shares(zero)[0].W_KQ is None
    broken = jax.tree.map(lambda w: w * jnp.nan, create("lsa", input_dim=D, key=jr.key(0)))
    with pytest.warns(UserWarning, match="not finite"):
        weight_path_figure(weight_path({0: broken, 1: broken}))
    with pytest.raises(ZooError, match="no attention layer"):
        block_shares(create("lstm", key=jr.key(0)))
    with pytest.raises(ZooError, match="none is stored"):
        weight_path({})


def test_spectra_have_a_picture():
    figure = spectrum_curves(spectra(create("deep_lsa", input_dim=D, num_heads=2, key=jr.key(0)))).figure
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert len(labels) == 8
    assert all("effective rank" in label for label in labels)


def test_steps_are_spread_over_the_path():
    assert spread(range(10), 4) == [0, 3, 6, 9]
    assert spread(range(2), 6) == [0, 1]


def test_a_film_keeps_its_colours_from_frame_to_frame():
    """Zero is white in the first frame and in the last, and the largest weight is blue in the last."""
    built = gradient_descent_lsa([1.0], num_examples=5, input_dim=D)
    models = {0: jax.tree.map(jnp.zeros_like, built), 9: built}
    with pytest.warns(UserWarning, match="all zero"):
        film = Image.open(io.BytesIO(weight_path(models).film("gif")))
    assert film.n_frames == 2
    film.seek(1)
    weights = np.asarray(film.convert("RGB"), np.int64)[
        : film.height // 2
    ]  # the curves below have colours of their own
    red, green, blue = weights.reshape(-1, 3).T
    assert ((blue > red + 60) & (blue > green + 30)).sum() > 200  # W_KQ on its diagonal
    assert not ((green > red + 60) & (green > blue + 60)).any()  # which no colour of ours is
