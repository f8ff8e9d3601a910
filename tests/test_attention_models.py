"""The laws of the models built on attention: softmax and ReLU attention, copying on separate tokens, the full Transformer."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_close, random_prompt

from iclzoo.zoo.errors import ShapeError
from iclzoo.zoo.layers.attention import SoftmaxSelfAttention
from iclzoo.zoo.layers.positions import one_hot_positions, sinusoidal_positions
from iclzoo.zoo.models.copying_transformer import CopyingTransformer
from iclzoo.zoo.models.relu_attention import ReLUAttention
from iclzoo.zoo.models.softmax_attention import SoftmaxAttention
from iclzoo.zoo.models.transformer import Transformer
from iclzoo.zoo.prompt import Prompt
from iclzoo.zoo.trace import trace


def kernel_smoother(inverse_temperature, key, *, input_dim: int = 3) -> SoftmaxAttention:
    """W_KQ = diag(I, 0), so a score is xᵢᵀ x_query, and W_PV = diag(0, −1): the prediction is a weighted mean of labels."""
    model = SoftmaxAttention(input_dim=input_dim, inverse_temperature=inverse_temperature, key=key)
    select_x = jnp.diag(jnp.ones(input_dim + 1).at[-1].set(0.0))[None]
    minus_y = jnp.diag(jnp.zeros(input_dim + 1).at[-1].set(-1.0))[None]
    return eqx.tree_at(
        lambda m: (m.layers[0].W_K, m.layers[0].W_Q, m.layers[0].W_V, m.layers[0].W_P),
        model,
        (select_x, select_x, minus_y, jnp.eye(input_dim + 1)[None]),
    )


def test_one_softmax_layer_smooths_the_labels(getkey, x64):
    prompt = random_prompt(getkey())
    weights = jnp.exp(2.3 * prompt.xs @ prompt.query)
    expected = weights @ prompt.ys / weights.sum()
    assert_close(kernel_smoother(2.3, getkey())(prompt), expected)


def test_its_limit_is_the_nearest_neighbour(getkey):
    """Among inputs of equal length, where the largest score is the smallest distance."""
    prompt = random_prompt(getkey(), num_examples=11)
    xs = prompt.xs / jnp.linalg.norm(prompt.xs, axis=1, keepdims=True)
    prompt = Prompt(xs=xs, ys=prompt.ys, query=prompt.query)
    nearest = jnp.linalg.norm(xs - prompt.query[None], axis=1).argmin()
    assert_close(kernel_smoother(1e6, getkey())(prompt), prompt.ys[nearest])


@pytest.mark.parametrize("depth", [1, 5])
def test_softmax_attention_of_the_papers_sizes(depth, getkey):
    model = SoftmaxAttention(num_layers=depth, num_heads=2, key=getkey())
    prompt = random_prompt(getkey(), input_dim=10)
    seen = jax.jit(trace)(model, prompt)
    assert len(seen.pattern) == depth
    for pattern in seen.pattern:
        assert_close(pattern.sum(axis=-1), jnp.ones((2, 8)))


def test_a_repeated_context_changes_no_mean(getkey, x64):
    prompt = random_prompt(getkey())
    twice = Prompt(xs=jnp.tile(prompt.xs, (2, 1)), ys=jnp.tile(prompt.ys, (2, 1)), query=prompt.query)
    mean = ReLUAttention(input_dim=3, mean_over_context=True, init_scale=1.0, key=getkey())
    total = ReLUAttention(input_dim=3, init_scale=1.0, key=getkey())
    assert_close(mean(twice), mean(prompt))
    assert_close(total(twice), 2 * total(prompt))


def test_sinusoids_are_the_published_ones():
    table = sinusoidal_positions(23, 6)
    for k in (0, 1, 22):
        for i in range(3):
            angle = k / 10000 ** (2 * i / 6)
            assert_close(table[k, 2 * i], np.sin(angle))
            assert_close(table[k, 2 * i + 1], np.cos(angle))


def test_sinusoids_do_not_depend_on_the_length_of_the_sequence():
    assert_close(sinusoidal_positions(101, 7)[:5], sinusoidal_positions(5, 7))


@pytest.mark.parametrize("num_examples", [1, 3])
@pytest.mark.parametrize("output_dim", [1, 2, 5])
def test_interleaved_tokens_are_laid_out_as_documented(num_examples, output_dim, getkey):
    model = CopyingTransformer(input_dim=3, output_dim=output_dim, position_dim=7, key=getkey())
    prompt = random_prompt(getkey(), num_examples=num_examples, output_dim=output_dim)
    tokens = model.embed(prompt)
    width = max(3, output_dim)
    assert tokens.shape == (2 * num_examples + 1, width + 7) == (len(tokens), len(model.token_labels))
    inputs, labels = tokens[:-1:2], tokens[1::2]
    assert_close(inputs[:, :3], prompt.xs)
    assert_close(labels[:, width - output_dim : width], prompt.ys)
    assert_close(tokens[-1, :3], prompt.query)
    for padding in (inputs[:, 3:width], labels[:, : width - output_dim], tokens[-1, 3:width]):
        assert not padding.any()
    assert_close(tokens[:, width:], jnp.asarray(sinusoidal_positions(len(tokens), 7), tokens.dtype))
    assert_close(model.readout(tokens[-1]), -tokens[-1, -output_dim:])


def test_labels_name_every_entry_of_an_interleaved_token(getkey):
    model = CopyingTransformer(input_dim=3, output_dim=2, position_dim=2, key=getkey())
    assert model.token_labels == ("x1", "x2/y1", "x3/y2", "p1", "p2")
    wide = CopyingTransformer(input_dim=1, output_dim=2, position_dim=2, key=getkey())
    assert wide.token_labels == ("x1/y1", "y2", "p1", "p2")


def test_one_hot_positions_end(getkey):
    model = CopyingTransformer(input_dim=3, positions="one_hot", position_dim=7, key=getkey())
    assert_close(model.embed(random_prompt(getkey(), num_examples=3))[:, 3:], jnp.eye(7))
    assert one_hot_positions(3, 5).tolist() == np.eye(3, 5).tolist()
    with pytest.raises(ShapeError, match="position_dim 7 end after 7 tokens, but the prompt has 9"):
        model(random_prompt(getkey(), num_examples=4))


def test_copying_layers_are_softmax_first(getkey):
    model = CopyingTransformer(num_layers=3, num_softmax_layers=2, inverse_temperature=1.5, key=getkey())
    assert [type(layer).__name__ for layer in model.layers] == [
        "SoftmaxSelfAttention",
        "SoftmaxSelfAttention",
        "LinearSelfAttention",
    ]
    first = model.layers[0]
    assert isinstance(first, SoftmaxSelfAttention)
    assert first.inverse_temperature == model.inverse_temperature == 1.5
    assert first.head_dim == 20  # the paper's key size


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"positions": "onehot"}, "sinusoidal"),
        ({"output_dim": 3, "position_dim": 2}, "at least output_dim"),
        ({"num_softmax_layers": 3}, "from 0 to 2"),
    ],
    ids=str,
)
def test_wrong_settings_of_copying_are_named(wrong, message, getkey):
    with pytest.raises(ValueError, match=message):
        CopyingTransformer(**wrong, key=getkey())


def small_transformer(key, **more) -> Transformer:
    sizes = {
        "input_dim": 3,
        "output_dim": 2,
        "embed_dim": 11,
        "num_layers": 2,
        "num_heads": 3,
        "head_dim": 5,
        "init_scale": 1.0,
    }
    return Transformer(**(sizes | more), key=key)


def test_a_transformer_of_zero_blocks_reads_its_embedding(getkey, x64):
    model = small_transformer(getkey(), layer_norm=True)
    model = eqx.tree_at(lambda m: m.layers, model, jax.tree.map(jnp.zeros_like, model.layers))
    prompt = random_prompt(getkey(), output_dim=2)
    token = model.embedding(jnp.concatenate([prompt.query, jnp.zeros(2)]))
    assert_close(model(prompt), -token[-2:])


@pytest.mark.parametrize("layer_norm", [False, True])
def test_a_block_is_attention_and_then_a_perceptron(layer_norm, getkey, x64):
    """Written out token by token, the second block being the one that normalises what its attention reads."""
    block = small_transformer(getkey(), layer_norm=layer_norm).layers[1]
    tokens = 3 + jr.normal(getkey(), (7, 11))

    def normalise(h):
        return (h - h.mean()) / jnp.sqrt(h.var() + 1e-5) if layer_norm else h

    read = jnp.stack([normalise(h) for h in tokens])
    attention = block.attention(read, read[:-1])
    for h, update, a in zip(tokens, block(tokens, tokens[:-1]), attention, strict=True):
        inner, outer = block.mlp.inner, block.mlp.outer
        hidden = jax.nn.gelu(inner.weight @ normalise(h + a) + inner.bias)
        assert_close(update, a + outer.weight @ hidden + outer.bias)
    for seen, expected in zip(block.attend(tokens, tokens[:-1]), block.attention.attend(read, read[:-1]), strict=True):
        assert_close(seen, expected)


def test_layer_norm_changes_what_is_read_and_nothing_else(getkey, x64):
    key, prompt = getkey(), random_prompt(getkey(), output_dim=2)
    plain, normed = small_transformer(key), small_transformer(key, layer_norm=True)
    assert_close(normed.embed(prompt), plain.embed(prompt))
    assert_close(normed.layers[0].attention.W_K, plain.layers[0].attention.W_K)
    assert not np.allclose(normed(prompt), plain(prompt))
    # The first attention layer sees the tokens as embedded, the second only their directions.
    louder = eqx.tree_at(lambda m: m.embedding.weight, normed, 2 * normed.embedding.weight)
    assert_close(trace(louder, prompt).scores[0], 4 * trace(normed, prompt).scores[0])
    tokens = jr.normal(getkey(), (7, 11))
    shifted = (normed.layers[1].attend(1.0 + tokens, 1.0 + tokens)[0], normed.layers[1].attend(tokens, tokens)[0])
    assert_close(*shifted)


@pytest.mark.parametrize(("attention_type", "layer_norm"), [("linear", True), ("softmax", True), ("relu", False)])
def test_every_kind_of_transformer_trains(attention_type, layer_norm, getkey, x64):
    """Every parameter gets a finite gradient; several outputs and a query in the context included."""
    model = small_transformer(getkey(), attention_type=attention_type, layer_norm=layer_norm, query_in_context=True)
    gradient = eqx.filter_jit(eqx.filter_grad(lambda m, p: (m(p) ** 2).sum()))
    for array in jax.tree.leaves(gradient(model, random_prompt(getkey(), output_dim=2))):
        assert np.isfinite(array).all()
        assert np.any(array)


def test_the_papers_transformer_is_the_default():
    plain, normed = (
        eqx.filter_eval_shape(lambda norm=norm: Transformer(layer_norm=norm, key=jr.key(0))) for norm in (False, True)
    )
    assert (plain.num_layers, plain.num_heads, plain.widening_factor) == (12, 4, 4)
    assert plain.layers[0].mlp.inner.weight.shape == (160, 40)
    assert isinstance(plain.layers[1].attention_norm, eqx.nn.Identity)
    assert isinstance(normed.layers[0].attention_norm, eqx.nn.Identity)
    assert isinstance(normed.layers[1].attention_norm, eqx.nn.LayerNorm)
    assert isinstance(normed.layers[0].mlp_norm, eqx.nn.LayerNorm)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"attention_type": "sofmax"}, "'linear', 'softmax', 'relu'"),
        ({"embed_dim": 1, "output_dim": 2}, "at least output_dim"),
    ],
    ids=str,
)
def test_wrong_settings_of_a_transformer_are_named(wrong, message, getkey):
    with pytest.raises(ValueError, match=message):
        Transformer(**wrong, key=getkey())
