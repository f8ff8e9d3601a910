"""Weights as dictionaries of arrays, in and out."""

import equinox as eqx
import jax.random as jr
import numpy as np
import pytest
from helpers import random_prompt, trees_equal

import iclzoo
from iclzoo.zoo.errors import ArgumentError, MismatchError
from iclzoo.zoo.factory import create, hyperparameters, list_models

SMALL = {"num_layers": 2, "hidden_dim": 7, "hidden_size": 5, "embed_dim": 5, "num_heads": 2, "head_dim": 3}


def small(name, seed):
    takes = hyperparameters(eqx.filter_eval_shape(lambda: create(name, key=jr.key(0))))
    return create(name, input_dim=3, **{k: v for k, v in SMALL.items() if k in takes}, key=jr.key(seed))


@pytest.mark.parametrize("name", list_models())
def test_weights_go_out_and_come_back(name):
    model, other = small(name, 0), small(name, 1)
    assert trees_equal(iclzoo.from_arrays(other, iclzoo.to_arrays(model)), model)
    assert trees_equal(iclzoo.from_torch_state(other, iclzoo.to_torch_state(model)), model)


def test_a_packed_projection_is_a_linear_map_as_pytorch_has_it():
    """q = W_Q e of all heads at once is one product with the packed weight, and W_P's takes all heads back."""
    model, token = small("lsa", 0), np.arange(4.0, dtype=np.float32)
    state, layer = iclzoo.to_torch_state(model), model.attention
    queries = np.einsum("hke,e->hk", layer.W_Q, token)
    np.testing.assert_allclose(state["attention.W_Q.weight"] @ token, queries.ravel(), rtol=1e-5)
    np.testing.assert_allclose(
        state["attention.W_P.weight"] @ queries.ravel(), np.einsum("hak,hk->a", layer.W_P, queries), rtol=1e-5
    )


class Tensor:
    """What a tensor of PyTorch answers to."""

    def __init__(self, array):
        self.array, self.dtype = array, f"torch.{array.dtype}"

    def detach(self):
        return self

    def cpu(self):
        return self

    def __array__(self, dtype=None, copy=None):
        return self.array


def test_tensors_of_pytorch_are_taken():
    model = small("lsa", 0)
    state = {name: Tensor(array) for name, array in iclzoo.to_torch_state(model).items()}
    again = iclzoo.from_torch_state(small("lsa", 1), state)
    assert np.array_equal(again(random_prompt(jr.key(0))), model(random_prompt(jr.key(0))))


def test_everything_that_does_not_fit_is_listed():
    model = small("lsa", 0)
    arrays = iclzoo.to_arrays(model)
    arrays["attention.W_X"] = arrays.pop("attention.W_K")
    arrays["attention.W_Q"] = arrays["attention.W_Q"][:1]
    with pytest.raises(MismatchError, match=r"missing attention\.W_K.*unexpected attention\.W_X") as error:
        iclzoo.from_arrays(model, arrays)
    assert "attention.W_Q is [1, 3, 4], expected [2, 3, 4]" in str(error.value)
    state = iclzoo.to_torch_state(model)
    state["attention.W_Q.weight"] = state["attention.W_Q.weight"].T
    with pytest.raises(MismatchError, match=r"attention\.W_Q is \[4, 6\], expected \[2, 3, 4\]"):
        iclzoo.from_torch_state(model, state)
    with pytest.raises(ArgumentError, match="a mapping from names to arrays"):
        iclzoo.from_arrays(model, [1, 2])
    with pytest.raises(ArgumentError, match=r"attention\.W_K must be an array of numbers"):
        iclzoo.from_arrays(model, iclzoo.to_arrays(model) | {"attention.W_K": "x"})
