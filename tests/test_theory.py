"""Least losses, the risk of a fixed preconditioner, and what gradient flow conserves, each against its law."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
import pytest
from helpers import Still, assert_close

from iclzoo.inspect.theory.exact_losses import exact_loss, least_losses
from iclzoo.inspect.theory.exact_losses_plot import (
    least_loss_lines,
    loss_path_curve,
    loss_path_figure,
    risk_curve,
)
from iclzoo.inspect.theory.gradient_flow import balanced_start, gradient_flow
from iclzoo.inspect.theory.population_loss import population_loss
from iclzoo.inspect.theory.risk import risk
from iclzoo.inspect.weights.conserved_quantities import conserved_quantities
from iclzoo.inspect.weights.conserved_quantities_plot import conserved_curves
from iclzoo.train.losses import over_tasks, squared_error
from iclzoo.train.tasks.inputs import Gaussian, RandomCovariance, Uniform
from iclzoo.train.tasks.regression import GaussianTeacher, LinearRegression
from iclzoo.zoo.algorithms.preconditioned import PreconditionedGradientDescent
from iclzoo.zoo.constructions.preconditioned import preconditioned_gd_lsa
from iclzoo.zoo.errors import ZooError
from iclzoo.zoo.factory import create
from iclzoo.zoo.storage.checkpoint import read_card
from iclzoo.zoo.storage.config import from_config

VARIANCES = (2.0, 1.0, 0.3)
GAUSSIAN = LinearRegression(3, 1, 7, Gaussian(VARIANCES))


def broken(model):
    return jax.tree.map(lambda w: w * jnp.nan, model)


# --- least losses -------------------------------------------------------------------------------------------------------------------


def test_least_losses():
    least = least_losses(LinearRegression())
    assert least.predicting_zero == pytest.approx(10 / 12 / 2)
    assert (least.gradient_step, least.step_size) == (pytest.approx(0.206229, abs=5e-7), pytest.approx(6.060606))
    assert least.preconditioned_step == pytest.approx(least.gradient_step)
    trace = sum(VARIANCES)
    known = sum(v * (v + trace) / (8 * v + trace) for v in VARIANCES) / 2
    assert least_losses(GAUSSIAN).preconditioned_step == pytest.approx(known, rel=1e-12)
    with pytest.raises(ZooError, match="mean 0"):
        least_losses(replace(GAUSSIAN, teacher=GaussianTeacher(mean=1.0)))


def test_the_exact_loss_of_a_shipped_training():
    """The last point is the loss on the card, and above the optimum by the paired excess on it, within three standard errors."""
    card = read_card("lsa")
    path = exact_loss("lsa", from_config(dict(card.task)))
    assert path.steps == card.steps
    measured, excess = card.metrics["half_mse"], card.metrics["baselines"]["gd-1"]["excess"]
    assert abs(path.half_mse[-1] - measured["value"]) < 3 * measured["standard_error"]
    assert abs(path.half_mse[-1] - path.least.gradient_step - excess["value"]) < 3 * excess["standard_error"]
    assert min(path.half_mse) > path.least.preconditioned_step


# --- the risk of a fixed preconditioner ---------------------------------------------------------------------------------------------


def test_the_risk_at_the_training_length_is_the_closed_form():
    found = risk(GAUSSIAN, num_examples=[7])
    trace = sum(VARIANCES)
    assert found.risk[0] == pytest.approx(sum(v * (v + trace) / (8 * v + trace) for v in VARIANCES), rel=1e-12)
    gamma = np.diag([(1 + 1 / 7) * v + trace / 7 for v in VARIANCES])
    assert_close(found.preconditioner, np.linalg.inv(gamma))
    missed = np.linalg.inv(gamma) @ (np.diag(VARIANCES) + trace * np.eye(3)) / 7  # I − Γ⁻¹Λ
    assert found.squared_bias == pytest.approx(np.trace(missed @ np.diag(VARIANCES) @ missed), rel=1e-12)


@pytest.mark.parametrize("shift", ["none", "inputs", "noise and teacher"])
def test_the_risk_at_any_length_is_the_loss_of_the_construction(shift, x64):
    """Its half is the exact loss of the layer constructed for that length, whatever has shifted."""
    training = LinearRegression(
        3, 2, 7, Gaussian(jnp.array([[1.0, 0.3, 0.0], [0.3, 2.0, 0.1], [0.0, 0.1, 0.5]])), noise_std=0.4
    )
    test = {
        "none": training,
        "inputs": replace(training, inputs=Uniform(1.7)),
        "noise and teacher": replace(training, noise_std=1.1, teacher=GaussianTeacher(0.5, mean=0.3)),
    }[shift]
    found = risk(training, test=test, num_examples=[2, 31])
    for M, half_mse in zip(found.num_examples, found.half_mse, strict=True):
        model = preconditioned_gd_lsa(jnp.asarray(found.preconditioner)[None], num_examples=M, output_dim=2)
        assert_close(np.float64(half_mse), np.float64(population_loss(model, replace(test, num_examples=M))))


def test_the_risk_is_that_of_sampled_tasks():
    """At M ≠ N, within three standard errors on 200,000 tasks."""
    found = risk(GAUSSIAN, num_examples=[13])
    algorithm = PreconditionedGradientDescent(found.preconditioner)
    errors = over_tasks(squared_error, algorithm, replace(GAUSSIAN, num_examples=13), num_tasks=200_000, key=jr.key(0))
    assert abs(errors.mean() - found.risk[0]) < 3 * errors.std() / len(errors) ** 0.5
    assert errors.std() / len(errors) ** 0.5 < 0.01 * errors.mean()


def test_bias_stays_and_variance_falls_with_length():
    found = risk(GAUSSIAN)
    assert 7 in found.num_examples
    assert_close(found.variance * np.array(found.num_examples), np.full(len(found.variance), found.variance[0]))
    assert_close(found.risk - found.variance, np.full(len(found.variance), found.squared_bias))


def test_the_risk_says_where_it_does_not_apply():
    with pytest.raises(ZooError, match="depend on each other"):
        risk(replace(GAUSSIAN, inputs=RandomCovariance()))
    with pytest.raises(ZooError, match="without distractors"):
        risk(replace(GAUSSIAN, num_distractors=2))
    with pytest.raises(ZooError, match="from 1 to"):
        risk(GAUSSIAN, num_examples=[0])
    with pytest.raises(ZooError, match="input_dim and output_dim"):
        risk(GAUSSIAN, test=LinearRegression(5))


# --- gradient flow and what it conserves --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flow():
    """From the balanced start of Zhang et al. 2024, integrated on the exact loss until it stands still."""
    return gradient_flow(balanced_start(GAUSSIAN, scale=0.2, key=jr.key(1)), GAUSSIAN, duration=400.0, num_points=20)


def test_gradient_flow_conserves_the_balance(flow):
    path = conserved_quantities(flow)
    assert [balance.law for balance in path.differences] == ["‖W_PV‖² − ‖W_KQ‖²", "u² − ‖U‖²"]
    assert path.steps == tuple(range(21))
    for balance in path.differences:
        assert np.abs(balance.difference).max() < 1e-8  # it starts at zero, up to float32
        assert balance.drift < 1e-8
        assert balance.left[-1] > 10 * balance.left[0]


def test_gradient_flow_reaches_the_limit_that_balance_picks(flow):
    """u = ‖Γ⁻¹‖_F^½ and U = Γ⁻¹/‖Γ⁻¹‖_F^½, our weights being −u/√N and U/√N."""
    layer, N = flow[20].layers[0], 7
    inverse = np.linalg.inv(np.diag([(1 + 1 / N) * v + sum(VARIANCES) / N for v in VARIANCES]))
    size = np.linalg.norm(inverse) ** 0.5
    assert float(-layer.W_PV[0, 3, 3]) * N**0.5 == pytest.approx(size, rel=1e-6)
    assert np.allclose(np.asarray(layer.W_KQ[0, :3, :3]) * N**0.5, inverse / size, atol=1e-6)
    assert population_loss(flow[20], GAUSSIAN) == pytest.approx(least_losses(GAUSSIAN).preconditioned_step, rel=1e-10)
    others = np.asarray(layer.W_PV[0]).copy()
    others[3, 3] = 0
    assert not others.any()  # what starts at zero stays there
    assert not np.asarray(layer.W_KQ[0])[3].any()


def test_factors_conserve_three_balances_and_adam_none():
    model = create("lsa", input_dim=2, head_dim=2, query_init="known", init_scale=0.5, key=jr.key(0))
    task = LinearRegression(2, 1, 3, Uniform(1.0), GaussianTeacher(mean=0.5))
    models = gradient_flow(model, task, duration=10.0, num_points=3)
    assert not np.asarray(models[3].W_0.value).any()  # known, so not trained
    path = conserved_quantities(models)
    assert [balance.law for balance in path.differences] == ["‖W_K‖² − ‖W_Q‖²", "‖W_P‖² − ‖W_V‖²", "‖W_P‖² − ‖W_K‖²"]
    assert all(balance.drift < 1e-8 for balance in path.differences)
    assert np.abs(np.diff(path.differences[0].left)).max() > 1e-3
    trained = conserved_quantities("lsa-fast")
    assert trained.steps == read_card("lsa-fast").steps
    assert max(balance.drift for balance in trained.differences) > 0.1


def test_softmax_has_one_law_less():
    model = create("softmax_attention", num_layers=2, num_heads=2, key=jr.key(0))
    differences = conserved_quantities({0: model}).differences
    assert {balance.law for balance in differences} == {"‖W_K‖² − ‖W_Q‖²", "‖W_P‖² − ‖W_V‖²"}
    assert {(balance.layer, balance.head) for balance in differences} == {
        (f"layers.{k}", h) for k in (0, 1) for h in (0, 1)
    }


def test_starts_and_flows_that_cannot_be_are_refused():
    with pytest.raises(ZooError, match="scale must be positive and less than"):
        balanced_start(GAUSSIAN, scale=10.0, key=jr.key(0))
    with pytest.raises(ZooError, match="one output"):
        balanced_start(LinearRegression(3, 2, 7), scale=0.1, key=jr.key(0))
    with pytest.raises(ZooError, match="applies 2 layers"):
        gradient_flow(create("recurrent_lsa", key=jr.key(0)), LinearRegression(), duration=1.0)
    with pytest.raises(ZooError, match="none is stored"):
        conserved_quantities({})
    with pytest.raises(ZooError, match="no attention layer"):
        conserved_quantities({0: create("lstm", key=jr.key(0))})
    with pytest.raises(ZooError, match="same layers and heads"):
        conserved_quantities({0: create("lsa", key=jr.key(0)), 1: create("deep_lsa", key=jr.key(0))})


# --- pictures -----------------------------------------------------------------------------------------------------------------------


def test_least_losses_are_lines_in_any_picture():
    ax = least_loss_lines(least_losses(GAUSSIAN))
    heights = [np.asarray(line.get_ydata())[0] for line in ax.lines]
    least = least_losses(GAUSSIAN)
    assert heights == [least.predicting_zero, least.gradient_step, least.preconditioned_step]
    assert len(least_loss_lines(least_losses(LinearRegression())).lines) == 2  # the two best steps are one


def test_the_pictures_show_the_numbers(flow):
    path, found, differences = exact_loss(flow, GAUSSIAN), risk(GAUSSIAN), conserved_quantities(flow)
    ax = loss_path_curve(path)
    assert "half-MSE" in ax.get_ylabel()
    assert np.array_equal(ax.lines[0].get_ydata(), path.half_mse)
    ax = risk_curve(found)
    assert np.array_equal(ax.lines[0].get_ydata(), found.half_mse)
    assert "half-MSE" in ax.get_ylabel()
    ax = conserved_curves(differences, logarithmic=False, xlabel="point")
    assert ax.get_xlabel() == "point"
    assert np.array_equal(ax.lines[0].get_ydata(), differences.differences[0].difference)


@pytest.mark.parametrize("kind", ["zero", "nan", "one step"])
def test_pictures_survive_any_weights(kind):
    model = create("lsa", input_dim=3, key=jr.key(0))
    models = {"zero": jax.tree.map(jnp.zeros_like, model), "nan": broken(model), "one step": model}
    training = {0: models[kind]} if kind == "one step" else {0: model, 5: models[kind]}
    path, differences = exact_loss(training, GAUSSIAN), conserved_quantities(training)
    assert (path.half_mse[-1] is None) == (kind == "nan")
    assert all((balance.drift is None) == (kind == "nan") for balance in differences.differences)
    for figure in (loss_path_figure(path), conserved_curves(differences).figure):
        figure.savefig("/dev/null", format="png")


def test_a_task_without_variation_has_a_picture():
    still = LinearRegression(1, 1, 1, Still())
    figure = risk_curve(risk(still, preconditioner=np.eye(1))).figure
    figure.savefig("/dev/null", format="png")


def test_nothing_is_left_open(flow):
    style = dict(plt.rcParams)
    for _ in range(5):
        conserved_curves(conserved_quantities(flow))
        risk_curve(risk(GAUSSIAN))
    assert plt.get_fignums() == []
    assert dict(plt.rcParams) == style


def test_many_balances_keep_a_short_legend():
    model = create("softmax_attention", num_layers=4, num_heads=3, key=jr.key(0))
    legend = conserved_curves(
        conserved_quantities({0: model, 3: eqx.tree_at(lambda m: m.layers[0].W_K, model, model.layers[0].W_K * 2)})
    ).get_legend()
    assert len(legend.get_texts()) == 12
    assert legend.get_title().get_text() == "and 12 more"
