"""The loss between two models: constant where the models are one, whatever their gauge, sign and order of heads."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_close, random_prompt
from matplotlib.figure import Figure

from iclzoo.inspect.weights.interpolation import implied_construction, interpolation, match_heads, with_products
from iclzoo.inspect.weights.interpolation_plot import interpolation_curves
from iclzoo.inspect.weights.weight_products import gauge_fixed, product_distance, products
from iclzoo.train.losses import over_tasks, squared_error
from iclzoo.train.tasks.regression import LinearRegression
from iclzoo.zoo.constructions.gd_plus_plus import gd_plus_plus_attention, gd_plus_plus_lsa
from iclzoo.zoo.constructions.gradient_descent_step import gradient_descent_lsa
from iclzoo.zoo.errors import ZooError
from iclzoo.zoo.factory import create
from iclzoo.zoo.storage.checkpoint import load

TASK = LinearRegression(input_dim=3, num_examples=5)


def regauged(attention, factors, order):
    """The same layer, its heads scaled by `factors` and put in another order."""
    c = jnp.asarray(factors, attention.W_K.dtype)[:, None, None]
    scaled = eqx.tree_at(lambda a: (a.W_K, a.W_P), attention, (attention.W_K * c, attention.W_P / c))
    return jax.tree.map(lambda w: w[jnp.asarray(order)], scaled)


def loss(learner):
    """The half-MSE on the tasks of these tests."""
    return over_tasks(squared_error, learner, TASK, num_tasks=101, key=jr.key(0)).mean() / 2


@pytest.fixture
def model(getkey):
    return create("lsa", input_dim=3, num_heads=3, head_dim=2, init_scale=1.0, key=getkey())


def test_between_a_model_and_its_regauged_copy_the_loss_is_constant(x64):
    model = create("lsa", input_dim=3, num_heads=3, head_dim=2, init_scale=1.0, key=jr.key(5))
    copy = eqx.tree_at(lambda m: m.attention, model, regauged(model.attention, [2.0, -0.5, 31.0], [2, 0, 1]))
    measured = interpolation(model, copy, TASK, num_tasks=101, key=jr.key(0))
    curves = {name: np.array([m.value for m in curve.half_mse]) for name, curve in measured.curves.items()}
    flat = curves["gauge removed"]
    assert_close(flat, np.full_like(flat, flat[0]), factor=100, why="small diagonals amplify rounding")
    assert measured.deviation() < 1e-8
    for naive in ("products", "factors"):
        assert_close(curves[naive][measured.t == 1], flat[measured.t == 1], factor=100, why="as above")
        assert measured.deviation(naive) > 0.01


def test_the_ends_are_the_models_themselves(getkey):
    start, end = (create("lsa", input_dim=3, init_scale=1.0, key=getkey()) for _ in range(2))
    measured = interpolation(start, end, TASK, t=[0.5], num_tasks=101, key=jr.key(0))
    assert list(measured.t) == [0, 0.5, 1]
    for curve in measured.curves.values():
        assert curve.half_mse[0].value == pytest.approx(loss(start), rel=1e-4)
        assert curve.half_mse[-1].value == pytest.approx(loss(end), rel=1e-4)
        assert curve.excess[0].value == 0


def test_the_line_is_that_of_the_products(getkey):
    """At t = ½ the model whose gauge-fixed products are the means."""
    start, end = (create("deep_lsa", input_dim=3, init_scale=1.0, key=getkey()) for _ in range(2))
    measured = interpolation(start, end, TASK, t=[0.5], num_tasks=101, key=jr.key(0))
    means = [
        replace(a, W_KQ=(a.W_KQ + b.W_KQ) / 2, W_PV=(a.W_PV + b.W_PV) / 2)
        for a, b in zip(gauge_fixed(start), gauge_fixed(end), strict=True)
    ]
    assert measured.curves["gauge removed"].half_mse[1].value == pytest.approx(
        loss(with_products(start, means)), rel=1e-4
    )


def test_written_products_are_read_back_and_compute_the_same(model, getkey):
    written = with_products(model, products(model))
    (before,), (after,) = products(model), products(written)
    assert product_distance(after, before) < 1e-6
    prompt = random_prompt(getkey())
    assert_close(written(prompt), model(prompt))
    merged = create("merged_lsa", input_dim=3, num_layers=2, key=getkey())
    assert_close(with_products(merged, products(merged))(prompt), merged(prompt))


def test_heads_are_matched_whatever_their_scale_and_sign(model):
    (here,), (there,) = products(model), products(regauged(model.attention, [-3.0, 0.1, 7.0], [1, 2, 0]))
    matched = match_heads(there, here)
    for h in range(3):
        ratio = matched.W_KQ[h] / here.W_KQ[h]
        assert_close(ratio, np.full_like(ratio, ratio[0, 0]), factor=1e8, why="float32 products, divided")


def test_the_construction_read_off_a_construction_is_itself():
    recurrent = create("recurrent_lsa", input_dim=3, num_loops=3, damping=0.7, key=jr.key(0))
    layer = gd_plus_plus_attention(1.3, 0.2, num_examples=5, input_dim=3, output_dim=1)
    for built in (
        eqx.tree_at(lambda m: m.attention, recurrent, layer),
        gd_plus_plus_lsa([1.3, 2.0], [0.2, 0.1], num_examples=5, input_dim=3),
    ):
        for read, given in zip(products(implied_construction(built)), products(built), strict=True):
            assert product_distance(read, given) < 1e-6
    with pytest.raises(ZooError, match="no linear attention over"):
        implied_construction(create("softmax_attention", input_dim=3, key=jr.key(0)))


def test_on_the_shipped_layer_the_curve_to_one_step_of_descent_is_flat():
    """Within 0.3 %: half the distance of the two losses, 0.1 %, and the standard error of the excess at 10,000 tasks, 0.1 %."""
    task = LinearRegression()
    construction = gradient_descent_lsa([6.060606], num_examples=10, input_dim=10)
    measured = interpolation(load("lsa"), construction, task, key=jr.key(7))
    assert measured.deviation() < 0.003
    assert measured.deviation("products") > 0.5


def test_a_line_of_any_length_is_traced_once(getkey):
    traces = []

    class Counting(type(create("lsa", key=jr.key(0)))):
        def readout(self, token):
            traces.append(1)
            return super().readout(token)

    start, end = (Counting(input_dim=3, init_scale=1.0, key=getkey()) for _ in range(2))
    interpolation(start, end, TASK, num_tasks=11, key=jr.key(0))
    first = len(traces)
    interpolation(end, start, TASK, num_tasks=11, key=jr.key(1))
    assert len(traces) == first <= 6  # a curve or two traces each, not one a point


def test_models_that_do_not_correspond_are_refused(getkey):
    lsa = create("lsa", input_dim=3, key=getkey())
    with pytest.raises(ZooError, match="two models of one class, got LSA and DeepLSA"):
        interpolation(lsa, create("deep_lsa", input_dim=3, num_layers=1, key=getkey()), TASK, num_tasks=3, key=getkey())
    with pytest.raises(ZooError, match="num_heads is 1 and 2"):
        interpolation(lsa, create("lsa", input_dim=3, num_heads=2, key=getkey()), TASK, num_tasks=3, key=getkey())
    lstm = create("lstm", input_dim=3, key=getkey())
    with pytest.raises(ZooError, match="no attention layer"):
        interpolation(lstm, lstm, TASK, num_tasks=3, key=getkey())
    other_size = create("lsa", input_dim=3, head_dim=2, key=getkey())
    assert "factors" not in interpolation(lsa, other_size, TASK, num_tasks=3, key=getkey()).curves


@pytest.mark.parametrize("broken", [0.0, jnp.nan])
def test_models_of_zeros_and_of_nan_survive(broken, getkey):
    model = create("lsa", input_dim=1, output_dim=3, init_scale=1.0, key=getkey())
    task = LinearRegression(input_dim=1, output_dim=3, num_examples=1)
    other = jax.tree.map(lambda w: w * broken, model)
    measured = interpolation(model, other, task, num_tasks=1, key=getkey())
    losses = measured.curves["gauge removed"].half_mse
    if broken == 0:
        assert losses[-1].value > 0
        assert losses[-1].standard_error is None
    else:
        assert losses[-1].value is None
        assert measured.deviation() is None
        assert measured.curves["products"].num_not_finite[-1] == 1
    measured.plot().figure.savefig("/dev/null", format="png")


def test_the_picture_says_what_it_shows(model):
    measured = interpolation(model, model, TASK, num_tasks=101, key=jr.key(0))
    figure = Figure()
    ax = figure.subplots()
    assert interpolation_curves(measured, names=("trained", "built"), ax=ax) is ax
    assert "half-MSE" in ax.get_ylabel()
    assert "0: trained" in ax.get_xlabel()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "products, gauge removed",
        "products as they are",
        "factors as they are",
    ]
    drawn = ax.get_lines()[0].get_ydata()
    assert list(drawn) == [mean.value for mean in measured.curves["gauge removed"].half_mse]
