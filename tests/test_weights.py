"""Weight products, their gauge, and the distance between layers."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_close, random_prompt

from iclzoo.inspect.weights.implied_step import implied_steps
from iclzoo.inspect.weights.spectrum import spectra
from iclzoo.inspect.weights.weight_products import fix_gauge, gauge_fixed, product_distance, products
from iclzoo.zoo.constructions.gd_plus_plus import gd_plus_plus_lsa
from iclzoo.zoo.constructions.gradient_descent_step import gradient_descent_lsa
from iclzoo.zoo.errors import ZooError
from iclzoo.zoo.factory import create
from iclzoo.zoo.layers.attention import LinearSelfAttention


@pytest.fixture
def layer(getkey):
    """Prime sizes, all different, so that a transposition cannot pass."""
    return LinearSelfAttention(embed_dim=7, num_heads=3, head_dim=5, init_scale=1.0, key=getkey())


def rescaled(layer, factors):
    """The same layer in another gauge: W_KQ of head h times c_h, W_PV divided by it."""
    c = jnp.asarray(factors)[:, None, None]
    return eqx.tree_at(lambda a: (a.W_K, a.W_P), layer, (layer.W_K * c, layer.W_P / c))


def test_products_are_per_head_and_not_transposed(layer):
    (read,) = products(layer)
    assert read.W_KQ.shape == read.W_PV.shape == (3, 7, 7)
    for h in range(3):
        assert_close(np.float32(read.W_KQ[h]), np.asarray(layer.W_K[h]).T @ np.asarray(layer.W_Q[h]))
        assert_close(np.float32(read.W_PV[h]), np.asarray(layer.W_P[h]) @ np.asarray(layer.W_V[h]))


def test_products_are_what_the_layer_computes_with(layer, getkey):
    (read,) = products(layer)
    queries, context = jr.normal(getkey(), (2, 7)), jr.normal(getkey(), (11, 7))
    update = np.zeros((2, 7))
    for h in range(3):
        for j, query in enumerate(np.asarray(queries, np.float64)):
            for e in np.asarray(context, np.float64):
                update[j] += read.W_PV[h] @ e * (e @ read.W_KQ[h] @ query)
    assert_close(layer(queries, context), np.float32(update))


def test_the_gauge_changes_nothing_but_the_weights(layer, getkey):
    other = rescaled(layer, [2.0, -0.5, 1e3])
    queries, context = jr.normal(getkey(), (2, 7)), jr.normal(getkey(), (11, 7))
    assert_close(other(queries, context), layer(queries, context))
    (a,), (b,) = gauge_fixed(layer), gauge_fixed(other)
    assert_close(np.float32(a.W_KQ), np.float32(b.W_KQ), factor=10, why="small diagonals amplify rounding")
    assert_close(np.float32(a.W_PV), np.float32(b.W_PV), factor=10, why="small diagonals amplify rounding")
    (here,), (there,) = products(other), products(layer)
    assert product_distance(here, there) < 1e-5


def test_the_distance_sees_what_the_gauge_does_not(layer):
    (read,), (negated,) = products(layer), products(eqx.tree_at(lambda a: a.W_P, layer, -layer.W_P))
    assert product_distance(negated, read) == pytest.approx(2.0)
    permuted = jax.tree.map(lambda w: w[jnp.array([2, 0, 1])], layer)
    assert product_distance(*products(permuted), read) < 1e-6


def test_gauge_fixing_gives_the_construction(x64):
    model: Any = gradient_descent_lsa([3.0], num_examples=5, input_dim=4, output_dim=2)
    (fixed,) = gauge_fixed(eqx.tree_at(lambda m: m.attention, model, rescaled(model.attention, [-4.0])))
    assert_close(fixed.W_KQ[0], np.diag([1.0] * 4 + [0.0] * 2))
    assert_close(fixed.W_PV[0], np.diag([0.0] * 4 + [-0.6] * 2))
    assert fixed.scale is not None
    assert fixed.scale[0] == pytest.approx(-4.0)
    assert fixed.labels == ("x1", "x2", "x3", "x4", "y1", "y2")


def test_steps_are_read_off_the_weights(x64):
    model: Any = gd_plus_plus_lsa([3.0, 7.0], [0.2, 0.1], num_examples=5, input_dim=4)
    first, second = (implied_steps(layer)[0] for layer in products(model))
    assert (first.layer, first.step_size_over_num_examples, first.gamma) == (
        "layers.0",
        pytest.approx(0.6),
        pytest.approx(0.2),
    )
    assert (second.step_size_over_num_examples, second.gamma) == (pytest.approx(1.4), pytest.approx(0.1))
    assert first.largest_other < 1e-12
    spoiled = eqx.tree_at(lambda m: m.layers[0].W_K, model, model.layers[0].W_K.at[0, 1, 2].add(0.3))
    step = implied_steps(products(spoiled)[0])[0]
    assert (step.largest_other, step.largest_other_at) == (pytest.approx(0.3), "W_KQ[x3, x2]")


def test_products_of_a_trained_model_follow_its_update(getkey):
    """After any update of the weights, the products are those of the new weights."""
    model = create("lsa", input_dim=4, key=getkey())
    prompt = random_prompt(getkey(), input_dim=4)
    gradient = jax.grad(lambda m: m(prompt).sum())(model)
    updated = jax.tree.map(lambda w, g: w - 0.1 * g, model, gradient)
    (read,) = products(updated)
    assert_close(
        np.float32(read.W_KQ[0]), np.asarray(updated.attention.W_K[0]).T @ np.asarray(updated.attention.W_Q[0])
    )


def test_spectra_and_effective_rank(layer):
    three_heads = spectra(layer)
    assert len(three_heads) == 3
    assert np.all(np.diff(three_heads[0].W_KQ) <= 0)
    assert three_heads[0].W_KQ[5:].max() < 1e-5  # head_dim is 5
    assert spectra(gradient_descent_lsa([1.0], num_examples=5, input_dim=4))[0].effective_rank_KQ == pytest.approx(4.0)
    zero = jax.tree.map(jnp.zeros_like, layer)
    assert spectra(zero)[0].effective_rank_PV == 0.0


def test_a_layer_of_another_form_is_brought_to_equal_norms(layer):
    (fixed,) = gauge_fixed(layer)
    for h in range(3):
        assert np.linalg.norm(fixed.W_KQ[h]) == pytest.approx(np.linalg.norm(fixed.W_PV[h]))
        assert np.trace(fixed.W_KQ[h]) > 0


def test_zero_and_broken_layers_keep_their_weights(layer):
    (zero,) = products(jax.tree.map(jnp.zeros_like, layer))
    assert not fix_gauge(zero).W_KQ.any()
    with pytest.raises(ZooError, match="relative distance is undefined"):
        product_distance(zero, zero)
    broken = eqx.tree_at(lambda a: a.W_K, layer, layer.W_K.at[0, 0, 0].set(jnp.nan))
    assert np.isnan(gauge_fixed(broken)[0].W_KQ[0]).any()
    assert np.isfinite(gauge_fixed(broken)[0].W_KQ[1]).all()


def test_models_without_attention_are_named():
    with pytest.raises(ZooError, match="no attention layer"):
        products(eqx.nn.Linear(2, 3, key=jr.key(0)))
