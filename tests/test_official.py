"""Given its weights, our models compute what the official implementation computes.

The pairs in tests/official were made by tests/official/make_pairs.py, which runs the official code, in 64 bits.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_close

from iclzoo.zoo.errors import MismatchError, ZooError
from iclzoo.zoo.factory import create
from iclzoo.zoo.prompt import Prompt
from iclzoo.zoo.storage.official import from_official
from iclzoo.zoo.storage.tensors import from_bytes, named_arrays
from iclzoo.zoo.trace import trace

PAIRS = {
    "one_layer": ("lsa", {}),
    "two_recurrent_layers": ("recurrent_lsa", {"num_loops": 2, "damping": 0.7}),
    "five_layers": ("deep_lsa", {"num_layers": 5, "clip": 2.0}),
    "two_softmax_heads": ("softmax_attention", {"num_heads": 2, "head_dim": 5}),
    "interleaved": ("copying_transformer", {"num_layers": 2, "head_dim": 5, "position_dim": 4}),
    "mlp_lsa": ("mlp_lsa", {"embed_dim": 7, "hidden_dim": 14}),
    "mlp_lsa_with_biases": ("mlp_lsa", {"embed_dim": 7, "hidden_dim": 14}),
}


def read_pair(name: str):
    """The official parameters, the prompts, and what the official network made of them."""
    arrays = from_bytes((Path(__file__).parent / "official" / f"{name}.safetensors").read_bytes())
    params = {}
    for key, array in arrays.items():
        module, colon, parameter = key.partition(":")
        if colon:
            params.setdefault(module, {})[parameter] = array
    batch = (jnp.asarray(arrays[key]) for key in ("xs", "ys", "query"))
    return params, jax.vmap(lambda xs, ys, query: Prompt(xs=xs, ys=ys, query=query))(*batch), arrays


def build(name: str, key=None):
    model, hyperparameters = PAIRS[name]
    return create(model, input_dim=3, **hyperparameters, key=jr.key(0) if key is None else key)


@pytest.mark.parametrize("name", PAIRS)
def test_same_weights_give_the_same_outputs(name, x64):
    params, prompts, official = read_pair(name)
    model = from_official(params, build(name))
    assert_close(jax.vmap(model)(prompts), official["prediction"])
    assert_close(jax.vmap(trace, (None, 0))(model, prompts).residual[:, -1], official["tokens"])


def test_32_bit_parameters_stay_32_bit():
    params, _, _ = read_pair("mlp_lsa")
    model = from_official(jax.tree.map(np.float32, params), build("mlp_lsa"))
    assert {array.dtype for array in named_arrays(model).values()} == {np.dtype("float32")}


@pytest.mark.parametrize("name", PAIRS)
def test_every_weight_comes_from_the_official_parameters(name, getkey, x64):
    params, _, _ = read_pair(name)
    one, other = (named_arrays(from_official(params, build(name, getkey()))) for _ in range(2))
    for path, array in one.items():
        assert jnp.array_equal(array, other[path]), path


def test_pairs_tell_a_damped_from_an_undamped_and_a_clipped_from_a_free_model(x64):
    for name, other in (("two_recurrent_layers", {"num_loops": 2}), ("five_layers", {"num_layers": 5})):
        params, prompts, official = read_pair(name)
        model = from_official(params, create(PAIRS[name][0], input_dim=3, **other, key=jr.key(0)))
        assert not np.allclose(jax.vmap(model)(prompts), official["prediction"], rtol=1e-2)


def test_the_network_may_have_any_name_and_layer_0_may_be_the_only_one(x64):
    params, prompts, official = read_pair("one_layer")
    renamed = {
        key.replace("transformer/multi_head_attention", "GD/~trans_block/layer_0"): v for key, v in params.items()
    }
    assert renamed.keys().isdisjoint(params)
    assert_close(jax.vmap(from_official(renamed, build("one_layer")))(prompts), official["prediction"])


def test_missing_misshapen_and_left_over_parameters_are_named(x64):
    params, _, _ = read_pair("five_layers")
    params["transformer/~trans_block/layer_7/key"] = params.pop("transformer/~trans_block/layer_3/key")
    params["transformer/~trans_block/layer_1/linear"] = {"w": np.zeros((4, 5))}
    with pytest.raises(MismatchError) as error:
        from_official(params, build("five_layers"))
    message = str(error.value)
    assert "missing ~trans_block/layer_3/key:w (for layers.3.W_K)" in message
    assert "left over ~trans_block/layer_7/key:w" in message
    assert "~trans_block/layer_1/linear:w is [4, 5], expected [4, 4]" in message


def test_a_missing_weight_of_the_only_layer_is_named_as_it_is_there(x64):
    params, _, _ = read_pair("one_layer")
    del params["transformer/multi_head_attention/query"]
    with pytest.raises(MismatchError, match=r"missing multi_head_attention/query:w \(for attention\.W_Q\)"):
        from_official(params, build("one_layer"))


def test_shared_weights_do_not_fill_separate_layers(x64):
    params, _, _ = read_pair("two_recurrent_layers")
    with pytest.raises(MismatchError, match=r"missing ~trans_block/layer_1/key:w \(for layers\.1\.W_K\)"):
        from_official(params, create("deep_lsa", input_dim=3, num_layers=2, key=jr.key(0)))


def test_attention_biases_are_ignored_only_where_they_are_zero(x64):
    params, _, _ = read_pair("mlp_lsa_with_biases")
    assert all("b" in arrays for arrays in params.values())
    params["transformer/multi_head_attention/value"]["b"] = np.eye(7)[0]
    with pytest.raises(MismatchError, match=r"left over multi_head_attention/value:b"):
        from_official(params, build("mlp_lsa_with_biases"))


@pytest.mark.parametrize("module", ["layer_norm", "linear", "multi_head_attention/non_lin_mix"])
def test_parts_that_our_model_lacks_are_errors(module, x64):
    params, _, _ = read_pair("one_layer")
    params[f"transformer/{module}"] = {"b": np.zeros(4)} if module == "linear" else {"w": np.zeros((1, 1))}
    with pytest.raises(ZooError, match=f"left over {module}:"):
        from_official(params, build("one_layer"))


def test_parameters_of_two_networks_are_an_error(x64):
    params, _, _ = read_pair("one_layer")
    params |= {"Transformer_gd/multi_head_attention/key": {"w": np.eye(4)}}
    with pytest.raises(ZooError, match=r"several networks: Transformer_gd, transformer"):
        from_official(params, build("one_layer"))


def test_a_model_with_weights_of_another_kind_is_an_error(x64):
    params, _, _ = read_pair("one_layer")
    with pytest.raises(ZooError, match=r"layers\.0\.W_KQ of MergedLSA has no counterpart"):
        from_official(params, create("merged_lsa", input_dim=3, key=jr.key(0)))
