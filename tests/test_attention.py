"""The laws of the attention layers: what each pattern is, and that all ways to an update agree."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_close

from iclzoo.zoo.layers.attention import (
    LinearSelfAttention,
    MergedLinearSelfAttention,
    ReLUSelfAttention,
    SoftmaxSelfAttention,
    linear_update,
)

EMBED_DIM = 5
LAYERS = {
    "linear": lambda key: LinearSelfAttention(embed_dim=EMBED_DIM, num_heads=3, head_dim=2, init_scale=1.0, key=key),
    "merged": lambda key: MergedLinearSelfAttention(embed_dim=EMBED_DIM, num_heads=3, init_scale=1.0, key=key),
    "softmax": lambda key: SoftmaxSelfAttention(embed_dim=EMBED_DIM, num_heads=3, head_dim=2, init_scale=1.0, key=key),
    "relu": lambda key: ReLUSelfAttention(embed_dim=EMBED_DIM, num_heads=3, head_dim=2, init_scale=1.0, key=key),
    "relu_mean": lambda key: ReLUSelfAttention(
        embed_dim=EMBED_DIM, num_heads=3, mean_over_context=True, init_scale=1.0, key=key
    ),
}


@pytest.fixture(params=LAYERS)
def layer(request, getkey, x64):
    return LAYERS[request.param](getkey())


def tokens(key, num_queries: int = 7, num_context: int = 11):
    key_queries, key_context = jr.split(key)
    return jr.normal(key_queries, (num_queries, EMBED_DIM)), jr.normal(key_context, (num_context, EMBED_DIM))


def draw(layer_class, key, **more):
    return layer_class(embed_dim=EMBED_DIM, init_scale=1.0, key=key, **more)


def with_factors_of(layer, other):
    """`layer` with the weights of `other`."""

    def factors(layer):
        return layer.W_K, layer.W_Q, layer.W_V, layer.W_P

    return eqx.tree_at(factors, layer, factors(other))


def test_scores_and_update_are_the_double_sum(layer, getkey):
    """Token by token and head by head, with the products written out."""
    queries, context = tokens(getkey(), 2, 3)
    scores, pattern = layer.attend(queries, context)
    W_KQ, W_PV, pattern, queries, context = map(np.asarray, (layer.W_KQ, layer.W_PV, pattern, queries, context))
    expected_scores, expected_update = np.zeros((3, 2, 3)), np.zeros((2, EMBED_DIM))
    for head, j, i in np.ndindex(3, 2, 3):
        expected_scores[head, j, i] = context[i] @ W_KQ[head] @ queries[j]
        expected_update[j] += W_PV[head] @ context[i] * pattern[head, j, i]
    assert_close(scores, expected_scores)
    assert_close(layer(jnp.asarray(queries), jnp.asarray(context)), expected_update)


def test_the_order_of_the_context_does_not_matter(layer, getkey):
    queries, context = tokens(getkey())
    assert_close(layer(queries, jr.permutation(getkey(), context)), layer(queries, context))


def test_each_query_is_updated_alone(layer, getkey):
    queries, context = tokens(getkey())
    assert_close(layer(queries[2:3], context), layer(queries, context)[2:3])


def test_an_empty_context_updates_nothing(layer, getkey):
    queries, context = tokens(getkey())
    assert_close(layer(queries, context[:0]), jnp.zeros_like(queries))


def test_heads_add_up(layer, getkey):
    queries, context = tokens(getkey())
    heads = [jax.tree.map(lambda array, h=h: array[h : h + 1], layer) for h in range(3)]
    assert_close(sum(head(queries, context) for head in heads), layer(queries, context))


@pytest.mark.parametrize("num_queries", [1, 7])
def test_linear_update_is_the_plain_double_sum(num_queries, getkey, x64):
    layer = draw(LinearSelfAttention, getkey(), num_heads=3, head_dim=2)
    queries, context = tokens(getkey(), num_queries)
    second_moment = sum(jnp.outer(e, e) for e in context)
    expected = sum(queries @ (layer.W_PV[h] @ second_moment @ layer.W_KQ[h]).T for h in range(3))
    assert_close(linear_update(layer.W_PV, layer.W_KQ, queries, context), expected)


def test_softmax_rows_sum_to_one(getkey, x64):
    layer = draw(SoftmaxSelfAttention, getkey(), num_heads=3, head_dim=2)
    _, pattern = layer.attend(*tokens(getkey()))
    assert (pattern > 0).all()
    assert_close(pattern.sum(axis=-1), jnp.ones((3, 7)))


def test_inverse_temperature_multiplies_the_scores(getkey, x64):
    key = getkey()
    layer, sharp = draw(SoftmaxSelfAttention, key, head_dim=2), draw(SoftmaxSelfAttention, key, inverse_temperature=3.7)
    assert layer.inverse_temperature == 2**-0.5
    scores = jr.normal(getkey(), (1, 7, 11))
    for each in (layer, sharp):
        weights = jnp.exp(each.inverse_temperature * scores)
        assert_close(each.pattern(scores), weights / weights.sum(axis=-1, keepdims=True))


def test_softmax_of_no_sharpness_is_the_mean(getkey, x64):
    layer = draw(SoftmaxSelfAttention, getkey(), inverse_temperature=0.0)
    queries, context = tokens(getkey())
    mean_update = layer.W_PV[0] @ context.mean(axis=0)
    assert_close(layer(queries, context), jnp.tile(mean_update, (7, 1)))


@pytest.mark.parametrize("inverse_temperature", [1e6, 1e38])
def test_the_limit_of_softmax_picks_the_largest_score(inverse_temperature, getkey):
    """In float32, where c times a score would overflow, or lose the digits that tell two scores apart."""
    layer = draw(SoftmaxSelfAttention, getkey(), num_heads=3, inverse_temperature=inverse_temperature)
    queries, context = tokens(getkey())
    scores, pattern = layer.attend(100 * queries, context)
    assert_close(pattern, jax.nn.one_hot(scores.argmax(axis=-1), 11))
    gradient = jax.grad(lambda q: (layer(q, context) ** 2).sum())(100 * queries)
    assert jnp.isfinite(gradient).all()


def test_equal_largest_scores_share_the_weight(getkey):
    layer = draw(SoftmaxSelfAttention, getkey(), inverse_temperature=1e6)
    pattern = layer.pattern(jnp.array([[[0.3, 7.0, -1.0, 7.0]]]))
    assert_close(pattern, jnp.array([[[0.0, 0.5, 0.0, 0.5]]]))


def test_relu_of_positive_scores_is_linear(getkey, x64):
    relu, linear = draw(ReLUSelfAttention, getkey()), draw(LinearSelfAttention, getkey())
    W_K = jnp.abs(linear.W_K)
    linear = eqx.tree_at(lambda layer: (layer.W_K, layer.W_Q), linear, (W_K, jnp.abs(linear.W_Q)))
    relu = with_factors_of(relu, linear)
    queries, context = map(jnp.abs, tokens(getkey()))
    assert_close(relu(queries, context), linear(queries, context))
    assert_close(relu(-queries, context), jnp.zeros_like(queries))


def test_the_mean_over_the_context_is_the_sum_over_its_length(getkey, x64):
    key = getkey()
    mean, total = draw(ReLUSelfAttention, key, mean_over_context=True), draw(ReLUSelfAttention, key)
    queries, context = tokens(getkey())
    assert_close(11 * mean(queries, context), total(queries, context))
    assert_close(mean(queries, jnp.concatenate([context, context])), mean(queries, context))
