"""Attention patterns, and softmax heads taken apart: on constructions whose patterns and parts are known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_close, random_prompt
from matplotlib.figure import Figure

from iclzoo.inspect.activations.attention_patterns import patterns, prompt_patterns, token_names
from iclzoo.inspect.activations.attention_patterns_plot import attention_map, patterns_figure
from iclzoo.inspect.activations.softmax_heads import softmax_heads, softmax_parts
from iclzoo.inspect.activations.softmax_heads_plot import head_difference, head_parts, softmax_heads_figure
from iclzoo.train.tasks.regression import LinearRegression
from iclzoo.zoo.algorithms.least_squares import LeastSquares
from iclzoo.zoo.constructions.gradient_descent_step import gradient_descent_lsa
from iclzoo.zoo.constructions.label_copying_head import copying_transformer
from iclzoo.zoo.constructions.two_softmax_heads import one_softmax_head, two_softmax_heads
from iclzoo.zoo.errors import HeadError, ZooError
from iclzoo.zoo.factory import create

TASK = LinearRegression(input_dim=3, num_examples=5)


def test_a_copying_layer_attends_to_the_next_token(getkey):
    model = copying_transformer(num_examples=5, input_dim=3, softmax_scale=30.0)
    read = prompt_patterns(model, random_prompt(getkey(), num_examples=5))
    assert read.tokens == ("x1", "y1", "x2", "y2", "x3", "y3", "x4", "y4", "x5", "y5", "query")
    assert read.context == read.tokens[:-1]
    (layer,) = read.layers
    assert layer.pattern.shape == (1, 11, 10)
    for i in range(5):
        row = layer.pattern[0, read.tokens.index(f"x{i + 1}")]
        assert row[read.context.index(f"y{i + 1}")] == pytest.approx(1.0, abs=1e-6)


def test_the_scores_of_the_construction_are_inner_products(getkey):
    prompt = random_prompt(getkey(), num_examples=5)
    read = prompt_patterns(gradient_descent_lsa([1.0, 2.0], num_examples=5, input_dim=3), prompt)
    assert [layer.name for layer in read.layers] == ["layer 1", "layer 2"]
    inputs = np.concatenate([prompt.xs, prompt.query[None]])
    assert_close(np.float32(read.layers[0].scores[0]), inputs @ np.asarray(prompt.xs).T)
    assert np.array_equal(read.layers[1].scores, read.layers[1].pattern)
    assert (read.num_tasks, read.tokens) == (1, ("1", "2", "3", "4", "5", "query"))


def test_the_mean_is_over_tasks_whatever_the_batches():
    """1,031 tasks take three batches, the last one not full. E[xᵢᵀxⱼ] is d/12 for i = j, else 0; E[(xᵢᵀxⱼ)²] is d/144 for i ≠ j."""
    read = patterns(gradient_descent_lsa([1.0], num_examples=5, input_dim=3), TASK, num_tasks=1031, key=jr.key(0))
    (layer,) = read.layers
    expected = 0.25 * np.eye(6, 5)[None]
    error = (3 * 0.25**2 / 5 + 3 / 144) ** 0.5 / 1031**0.5  # generous: E[(xᵢᵀxⱼ)²]^½ / √n
    assert np.abs(layer.pattern - expected).max() < 4 * error
    assert layer.pattern_size[0, 5] == pytest.approx((3 / 144) ** 0.5, rel=0.2)
    assert (read.num_tasks, read.num_not_finite) == (1031, 0)


def test_rows_of_softmax_patterns_are_weights(getkey):
    model = create(
        "transformer", input_dim=3, num_layers=2, attention_type="softmax", query_in_context=True, key=getkey()
    )
    read = patterns(model, TASK, num_tasks=31, key=getkey())
    assert read.context == read.tokens == token_names(model, 5)
    for layer in read.layers:
        assert layer.pattern.shape == (4, 6, 6)
        assert layer.pattern.sum(axis=-1) == pytest.approx(np.ones((4, 6)), rel=1e-5)


def test_learners_without_attention_are_named():
    for instrument in (patterns, softmax_heads):
        with pytest.raises(ZooError, match="LeastSquares has no layer"):
            instrument(LeastSquares(), TASK, num_tasks=3, key=jr.key(0))


@pytest.mark.parametrize("factor", [0.0, jnp.nan])
def test_zero_and_broken_models_are_drawn_and_say_so(factor, getkey):
    task = LinearRegression(input_dim=1, output_dim=3, num_examples=1)
    model = jax.tree.map(lambda w: w * factor, create("lsa", input_dim=1, output_dim=3, num_heads=2, key=getkey()))
    read = patterns(model, task, num_tasks=3, key=getkey())
    assert read.num_not_finite == (0 if factor == 0 else 3)
    figure = patterns_figure(read)
    figure.savefig("/dev/null", format="png")
    assert figure.axes[1].get_title() == "head 1, " + ("all zero" if factor == 0 else "2 of 2 not finite")
    patterns_figure(prompt_patterns(model, task.sample(jr.key(0))[0])).savefig("/dev/null", format="png")


def test_the_maps_say_what_they_show(getkey):
    model = create("deep_lsa", input_dim=3, num_heads=2, init_scale=1.0, key=getkey())
    read = prompt_patterns(model, random_prompt(getkey(), num_examples=5))
    ax = Figure().subplots()
    assert attention_map(read, layer=1, head=1, quantity="scores", ax=ax) is ax
    assert ax.get_title() == "layer 2, head 1"
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["1", "2", "3", "4", "5", "query"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "2", "3", "4", "5"]
    assert np.array_equal(ax.collections[0].get_array().reshape(6, 5), read.layers[1].scores[1])
    limits = {ax.collections[0].get_clim() for ax in patterns_figure(read).axes[:4]}
    ((low, high),) = limits
    assert low == -high
    with pytest.raises(HeadError, match=r"heads 0 … 1, got head 2"):
        attention_map(read, head=2)
    with pytest.raises(ZooError, match=r"layers 0 … 1, got layer 2"):
        attention_map(read, layer=2)


def test_the_parts_of_a_softmax_layer_add_up(getkey):
    model = create("softmax_attention", input_dim=3, num_heads=2, head_dim=5, init_scale=1.0, key=getkey())
    tokens = model.embed(random_prompt(getkey()))
    parts = softmax_parts(model.layers[0], tokens, tokens[:-1])
    whole = sum(part.sum(axis=0) for part in parts)
    assert_close(whole, model.layers[0](tokens, tokens[:-1]), factor=10, why="three parts that nearly cancel")
    for head in range(2):
        mean = np.asarray(tokens[:-1]).mean(axis=0)
        assert_close(parts.offset[head, 0], np.asarray(model.layers[0].W_PV[head] @ mean))


def test_two_heads_are_one_step_of_descent_on_examples_without_their_mean(x64):
    """The known answer: ŷ = (η/N) Σᵢ yᵢ (sᵢ − s̄) + O(κ²), offsets ±(η/2κ) ȳ."""
    eta, kappa = 2.3, 0.01
    prompt = random_prompt(jr.key(1), num_examples=5)
    model = two_softmax_heads(eta, kappa, input_dim=3)
    tokens = model.embed(prompt)
    parts = softmax_parts(model.layers[0], tokens[-1:], tokens[:-1])
    scores = prompt.xs @ prompt.query
    expected = eta / 5 * prompt.ys[:, 0] @ (scores - scores.mean())
    assert_close(-parts.linear.sum(axis=0)[0, -1], expected)
    offset = eta / (2 * kappa) * prompt.ys.mean()
    assert_close(-parts.offset[:, 0, -1], jnp.stack([offset, -offset]))
    assert abs(parts.remainder.sum(axis=0)[0, -1]) < kappa * abs(expected)


def test_the_numbers_of_two_heads_are_those_put_in():
    (read,) = softmax_heads(two_softmax_heads(2.3, 0.1, input_dim=3), TASK, num_tasks=101, key=jr.key(0)).layers
    assert_close(np.float32(read.difference), np.diag(np.float32([0.2, 0.2, 0.2, 0])))
    assert (read.diagonal_share, read.identity_share) == pytest.approx((1.0, 1.0))
    assert read.step_size == pytest.approx(2.3, rel=1e-5)
    assert read.head_offset[0].value == pytest.approx(read.head_offset[1].value)
    assert read.offset.value < 1e-5 * read.head_offset[0].value
    assert read.remainder.value < 0.01 * read.linear.value
    (one,) = softmax_heads(one_softmax_head(2.3, 0.1, input_dim=3), TASK, num_tasks=101, key=jr.key(0)).layers
    assert one.difference is None
    assert one.diagonal_share is None
    assert one.step_size == pytest.approx(2.3, rel=1e-5)
    assert one.linear.value == pytest.approx(read.linear.value, rel=1e-4)
    assert one.offset.value == pytest.approx(2 * read.head_offset[0].value, rel=1e-4)


def test_the_remainder_falls_with_the_square_of_the_scale(x64):
    coarse, fine = (
        softmax_heads(two_softmax_heads(2.3, kappa, input_dim=3), TASK, num_tasks=53, key=jr.key(0)).layers[0]
        for kappa in (0.02, 0.01)
    )
    assert coarse.remainder.value / fine.remainder.value == pytest.approx(4.0, rel=0.01)


def test_every_softmax_layer_is_read_on_the_tokens_that_reach_it(getkey):
    deep = create("softmax_attention", input_dim=3, num_layers=2, num_heads=2, init_scale=1.0, key=getkey())
    first, second = softmax_heads(deep, TASK, num_tasks=31, key=jr.key(0)).layers
    assert (first.layer, second.layer) == ("layer 1", "layer 2")
    assert 0 < first.diagonal_share < 1
    copying = create("copying_transformer", input_dim=3, num_heads=2, key=getkey())
    (read,) = softmax_heads(copying, TASK, num_tasks=11, key=jr.key(0)).layers
    assert read.identity_share is None
    assert read.step_size is None
    with pytest.raises(ZooError, match="no layer of softmax attention"):
        softmax_heads(create("lsa", input_dim=3, key=getkey()), TASK, num_tasks=3, key=jr.key(0))


@pytest.mark.parametrize("factor", [0.0, jnp.nan])
def test_softmax_heads_of_zeros_and_of_nan_survive(factor, getkey):
    task = LinearRegression(input_dim=1, output_dim=3, num_examples=1)
    model = create("softmax_attention", input_dim=1, output_dim=3, num_heads=2, key=getkey())
    layers = jax.tree.map(lambda w: w * factor, model.layers)
    model = eqx.tree_at(lambda m: m.layers, model, layers)
    (read,) = softmax_heads(model, task, num_tasks=1, key=getkey()).layers
    assert read.diagonal_share is None
    assert read.linear.value == (0.0 if factor == 0 else None)
    assert read.num_not_finite == (0 if factor == 0 else 1)
    with pytest.warns(UserWarning, match="all zero" if factor == 0 else "not finite"):
        figure = softmax_heads_figure((read,))
    figure.savefig("/dev/null", format="png")


def test_the_pictures_of_softmax_heads_say_what_they_show():
    (two,) = softmax_heads(two_softmax_heads(2.3, 0.1, input_dim=3), TASK, num_tasks=101, key=jr.key(0)).layers
    (one,) = softmax_heads(one_softmax_head(2.3, 0.1, input_dim=3), TASK, num_tasks=101, key=jr.key(0)).layers
    left, right = Figure().subplots(1, 2)
    assert head_difference(two, ax=left) is left
    assert "100 % diagonal" in left.get_title()
    assert head_parts(two, ax=right) is right
    assert [bar.get_height() for bar in right.patches][-2:] == [two.linear.value, two.remainder.value]
    assert "η = 2.3" in right.get_title()
    with pytest.raises(ZooError, match="1 heads, and a difference needs two"):
        head_difference(one)
    softmax_heads_figure((two, one)).savefig("/dev/null", format="png")
