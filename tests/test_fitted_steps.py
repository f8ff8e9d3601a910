"""Steps of GD++ fitted to layers whose steps are known, and what they do to the context."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import Still

from iclzoo.inspect.activations.layers_as_steps import SHOWN_TASKS, Reading, fitted_steps
from iclzoo.inspect.activations.layers_as_steps_plot import condition_numbers, eigenvalue_map, fitted_steps_figure
from iclzoo.inspect.estimates.estimate import Estimate
from iclzoo.train.tasks.regression import LinearRegression
from iclzoo.zoo.constructions.gd_plus_plus import gd_plus_plus_lsa
from iclzoo.zoo.errors import ZooError
from iclzoo.zoo.factory import create
from iclzoo.zoo.layers.attention import LinearSelfAttention
from iclzoo.zoo.storage.checkpoint import load, read_card
from iclzoo.zoo.storage.config import from_config

TASK = LinearRegression(5, 2, 7)
ETAS, GAMMAS = [4.0, 20.0, 9.0], [0.3, 0.05, 0.1]


@pytest.fixture(scope="module")
def model():
    return gd_plus_plus_lsa(ETAS, GAMMAS, num_examples=7, input_dim=5, output_dim=2)


@pytest.fixture(scope="module")
def fit(model):
    return fitted_steps(model, TASK, num_tasks=300, key=jr.key(0))


def test_what_was_put_in_comes_back(fit):
    assert [step.layer for step in fit.layers] == ["layers.0", "layers.1", "layers.2"]
    for step, eta, gamma in zip(fit.layers, ETAS, GAMMAS, strict=True):
        for read in (step.step_size_over_num_examples.value, step.weights.step_size_over_num_examples):
            assert read == pytest.approx(eta / 7, rel=1e-5)
        for read in (step.gamma.value, step.weights.gamma):
            assert read == pytest.approx(gamma, rel=1e-5)
        assert step.weights.distance < 1e-6
        assert max(step.unexplained_x, step.unexplained_y) < 1e-6
        assert step.gamma.standard_error < 1e-5
    assert [step.gamma_matters for step in fit.layers] == [True, True, False]
    assert fit.num_not_finite == 0


def test_eigenvalues_follow_the_map(fit):
    assert fit.eigenvalues.shape == fit.mapped.shape == (3, SHOWN_TASKS, 5)
    for gamma, before, after in zip(GAMMAS, fit.eigenvalues, fit.mapped, strict=True):
        assert np.allclose(after, before * (1 - gamma * before) ** 2, rtol=1e-4, atol=1e-5)
    assert np.allclose(np.sort(fit.mapped[0], axis=1)[:, ::-1], fit.eigenvalues[1], rtol=1e-4, atol=1e-5)


def test_condition_numbers_are_those_of_the_context(model, fit):
    few = fitted_steps(model, TASK, num_tasks=SHOWN_TASKS, key=jr.key(0))
    known = few.eigenvalues[0][:, 0] / few.eigenvalues[0][:, -1]
    assert few.condition_numbers[0].median == pytest.approx(np.quantile(known, 0.5, method="lower"), rel=1e-5)
    assert len(few.condition_numbers) == 4
    assert fit.condition_numbers[1].median < fit.condition_numbers[0].median  # γ = 0.3 flattens these spectra


def test_heads_and_gauge_do_not_matter(x64):
    """A step split over two heads, one of them in another gauge, reads as the whole."""
    whole = gd_plus_plus_lsa([4.0], [0.3], num_examples=7, input_dim=5, output_dim=2).attention
    split = LinearSelfAttention(embed_dim=7, num_heads=2, init_scale=1.0, key=jr.key(0))
    both = lambda w: jnp.concatenate([w, w])  # noqa: E731
    shares = jnp.array([0.25, 0.75])[:, None, None]
    gauge = jnp.array([-3.0, 1.0])[:, None, None]
    split = eqx.tree_at(
        lambda a: (a.W_K, a.W_Q, a.W_V, a.W_P),
        split,
        (both(whole.W_K) * gauge, both(whole.W_Q), both(whole.W_V), both(whole.W_P) * shares / gauge),
    )
    model = create("lsa", input_dim=5, output_dim=2, num_heads=2, key=jr.key(0))
    (step,) = fitted_steps(eqx.tree_at(lambda m: m.attention, model, split), TASK, num_tasks=11, key=jr.key(0)).layers
    assert step.weights.step_size_over_num_examples == pytest.approx(4 / 7)
    assert step.weights.gamma == pytest.approx(0.3)
    assert step.weights.distance < 1e-7
    assert step.step_size_over_num_examples.value == pytest.approx(4 / 7)


def test_damping_is_part_of_what_the_layer_does(model):
    recurrent = create("recurrent_lsa", input_dim=5, output_dim=2, num_loops=2, damping=0.5, key=jr.key(0))
    recurrent = eqx.tree_at(lambda m: m.attention, recurrent, model.layers[0])
    first, second = fitted_steps(recurrent, TASK, num_tasks=50, key=jr.key(0)).layers
    assert (first.layer, second.layer) == ("attention", "attention")
    for step in (first, second):
        assert step.step_size_over_num_examples.value == pytest.approx(2 / 7, rel=1e-5)
    assert first.weights.step_size_over_num_examples == pytest.approx(4 / 7)  # the weights alone


def test_the_shipped_models_take_steps_of_gd_plus_plus():
    name = "deep-lsa-2"
    task = from_config(dict(read_card(name).task))
    first, second = fitted_steps(load(name), task, num_tasks=1000, key=jr.key(0)).layers
    best = read_card(name).metrics["baselines"]["gd++-2-free"]["parameters"]
    for step, eta in zip((first, second), best["step_size"], strict=True):
        assert step.step_size_over_num_examples.value == pytest.approx(eta / 10, rel=0.06)  # a flat optimum
        assert step.unexplained_y < 0.01
    assert first.gamma.value == pytest.approx(best["gamma"][0], rel=0.01)


def test_other_attention_is_fitted_by_what_it_does():
    softmax = create("softmax_attention", input_dim=5, output_dim=2, init_scale=1.0, key=jr.key(0))
    (step,) = fitted_steps(softmax, TASK, num_tasks=50, key=jr.key(0)).layers
    assert step.weights is None
    assert step.unexplained_y > 0.5
    with pytest.raises(ZooError, match=r"models over \(x, y\) tokens"):
        fitted_steps(create("lstm", key=jr.key(0)), LinearRegression(), key=jr.key(0))


@pytest.mark.parametrize("kind", ["zero", "nan", "one example, one input", "no variation", "one task"])
def test_numbers_and_pictures_survive(kind, model):
    task, num_tasks = TASK, 1 if kind == "one task" else 11
    if kind == "zero":
        model = jax.tree.map(jnp.zeros_like, model)
    elif kind == "nan":
        model = jax.tree.map(lambda w: w * jnp.nan, model)
    elif kind == "one example, one input":
        task, model = LinearRegression(1, 1, 1), gd_plus_plus_lsa([1.0], [0.1], num_examples=1, input_dim=1)
    elif kind == "no variation":
        task = replace(TASK, inputs=Still())
    fit = fitted_steps(model, task, num_tasks=num_tasks, key=jr.key(0))
    first = fit.layers[0]
    if kind == "zero":
        assert (first.gamma.value, first.unexplained_x, first.weights) == (0.0, None, Reading(0.0, 0.0, None))
        assert fit.condition_numbers[0].median > 1
    elif kind == "nan":
        assert (first.gamma, first.weights, fit.num_not_finite) == (Estimate(None, None), Reading(None, None, None), 11)
        assert fit.condition_numbers[1].median is None
    elif kind == "one example, one input":
        assert [spread.median for spread in fit.condition_numbers] == [1.0, 1.0]
        assert first.gamma.value == pytest.approx(0.1)
    elif kind == "no variation":
        assert (first.gamma.value, fit.condition_numbers[0].median, fit.condition_numbers[0].num_undefined) == (
            None,
            None,
            11,
        )
    else:
        assert first.gamma.standard_error is None
    fitted_steps_figure(fit).savefig("/dev/null", format="png")


def test_the_pictures_show_the_numbers(fit):
    ax = eigenvalue_map(fit, 1)
    curve = ax.lines[-1]
    grid = curve.get_xdata()
    assert np.allclose(curve.get_ydata(), grid * (1 - fit.layers[1].gamma.value * grid) ** 2)
    assert "γ = 0.05" in ax.get_legend_handles_labels()[1][-1]
    assert "moves no prediction" in eigenvalue_map(fit, 2).get_title()
    ax = condition_numbers(fit)
    assert [label.get_text() for label in ax.get_xticklabels()][:2] == ["input", "after\nlayers.0"]
    assert ax.get_yscale() == "log"
    assert len(fitted_steps_figure(fit).axes) == 3 * 2 + 1
