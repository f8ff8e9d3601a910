"""MLP-plus-LSA and its meta-learned control."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_close, random_prompt

from iclzoo.zoo.layers.mlp import MLPEmbedding, draw_linear
from iclzoo.zoo.models.mlp_gradient_descent import MLPGradientDescent
from iclzoo.zoo.models.mlp_lsa import MLPLSA
from iclzoo.zoo.trace import trace

SIZES = {"embed_dim": 7, "hidden_dim": 13, "init_scale": 1.0}


def with_biases(tree, key):
    """`tree` with every bias drawn at random: they start at zero, and a zero hides a mistake."""

    def draw(path, leaf):
        return jr.normal(key, leaf.shape) if jax.tree_util.keystr(path).endswith(".bias") else leaf

    return jax.tree_util.tree_map_with_path(draw, tree)


def test_linear_maps_follow_haiku(getkey, x64):
    linear = draw_linear(29, 997, init_scale=0.3, key=getkey())
    assert_close(linear.bias, jnp.zeros(997))
    assert np.isclose(linear.weight.std(), np.sqrt(0.3 / 29), rtol=0.02)
    assert np.isclose(abs(linear.weight).max(), 2 * np.sqrt(0.3 / 29) / 0.8796, rtol=0.01)


def test_the_embedding_is_affine_then_a_residual_mlp(getkey, x64):
    embedding = with_biases(MLPEmbedding(in_dim=3, key=getkey(), **SIZES), getkey())
    token = jr.normal(getkey(), (3,))
    affine, inner, outer = embedding.affine, embedding.mlp.inner, embedding.mlp.outer
    h = affine.weight @ token + affine.bias
    z = inner.weight @ h + inner.bias
    gelu = z / 2 * (1 + jnp.tanh(jnp.sqrt(2 / jnp.pi) * (z + 0.044715 * z**3)))
    assert_close(embedding(token), h + outer.weight @ gelu + outer.bias)


def test_mlp_lsa_attends_to_embedded_tokens(getkey, x64):
    model = with_biases(MLPLSA(input_dim=3, output_dim=2, key=getkey(), **SIZES), getkey())
    prompt = random_prompt(getkey(), input_dim=3, output_dim=2)
    tokens = [model.embedding(jnp.concatenate(pair)) for pair in zip(prompt.xs, prompt.ys, strict=True)]
    query = model.embedding(jnp.concatenate([prompt.query, jnp.zeros(2)]))
    (W_KQ,), (W_PV,) = model.attention.W_KQ, model.attention.W_PV
    update = sum(W_PV @ token * (token @ W_KQ @ query) for token in tokens)
    assert_close(model(prompt), -(query + update)[-2:])


def test_mlp_lsa_shows_one_attention_layer(getkey, x64):
    model = MLPLSA(input_dim=3, output_dim=2, key=getkey(), **SIZES)
    seen = trace(model, random_prompt(getkey(), input_dim=3, output_dim=2))
    assert model.stack == (model.attention,)
    assert seen.residual.shape == (2, 8, 7)
    assert seen.scores[0].shape == (1, 8, 7)


def test_an_embedding_without_room_for_the_prediction_is_an_error(getkey, x64):
    with pytest.raises(ValueError, match=r"embed_dim must be at least output_dim, got 2 and 3"):
        MLPLSA(output_dim=3, embed_dim=2, key=getkey())


def test_control_takes_a_gradient_step_on_the_read_out(getkey, x64):
    model = with_biases(MLPGradientDescent(input_dim=3, output_dim=2, key=getkey(), **SIZES), getkey())
    model = eqx.tree_at(lambda m: (m.step_size, m.W_0), model, (jnp.asarray(0.3), jr.normal(getkey(), model.W_0.shape)))
    prompt = random_prompt(getkey(), input_dim=3, output_dim=2)
    features = jax.vmap(model.features)(prompt.xs)

    def loss(W):
        return ((features @ W.T - prompt.ys) ** 2).sum() / (2 * prompt.num_examples)

    W_1 = model.W_0 - model.step_size * jax.grad(loss)(model.W_0)
    assert_close(model(prompt), W_1 @ model.features(prompt.query))


def test_control_is_linear_in_the_labels(getkey, x64):
    """Its features see x alone."""
    model = MLPGradientDescent(input_dim=3, output_dim=2, key=getkey(), **SIZES)
    prompt = random_prompt(getkey(), input_dim=3, output_dim=2)
    assert_close(model(eqx.tree_at(lambda p: p.ys, prompt, 3 * prompt.ys)), 3 * model(prompt))
