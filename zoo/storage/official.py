"""Weights of the official implementation, as the weights of our models.

The official code (google-research/self-organising-systems, transformers_learn_icl_by_gd) keeps its weights in Haiku's nested
dictionary. Under the name of the network, which may be any, stand:

| official                                          | ours                                   | shape there → here                 |
|---------------------------------------------------|----------------------------------------|------------------------------------|
| `multi_head_attention/{key, query, value}`: `w`   | `W_K`, `W_Q`, `W_V` of the only layer  | [in, heads · out] → [head, out, in]|
| `multi_head_attention/linear`: `w`                | `W_P` of the only layer                | [heads · in, out] → [head, out, in]|
| `~trans_block/layer_<k>/…`                        | the same of layer k                    | the same                           |
| `emb`: `w`, `b`                                   | `embedding.affine`                     | [in, out] → [out, in]              |
| `input_mlp/linear`, `input_mlp/linear_1`: `w`, `b`| `embedding.mlp.inner`, `.outer`        | [in, out] → [out, in]              |

Where `emb` has no `b`, it is zero. Biases of an attention layer that are all zero are ignored, for they do nothing. Any other
parameter is an error. What is no parameter there is none here: loops, damping, clipping and positions are the model's.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import equinox as eqx
import numpy as np

from ..errors import MismatchError
from .tensors import fill, named_arrays

Model = TypeVar("Model", bound=eqx.Module)

ATTENTION = {"W_K": "key", "W_Q": "query", "W_V": "value", "W_P": "linear"}
AFFINE = {
    "embedding.affine": "emb",
    "embedding.mlp.inner": "input_mlp/linear",
    "embedding.mlp.outer": "input_mlp/linear_1",
}


def from_official(params: Mapping[str, Mapping[str, Any]], model: Model) -> Model:
    """`model` with the weights in a parameter dictionary of the official implementation.

    `model` is an `LSA`, `RecurrentLSA`, `DeepLSA`, `SoftmaxAttention`, `CopyingTransformer` or `MLPLSA` of the same sizes.

    **Raises** `MismatchError`, naming every parameter that is missing, of another shape, or left over.
    """
    given = _without_network_name(params)
    left_over = dict(given)
    arrays, problems = {}, []
    for name, ours in named_arrays(model).items():
        official = _official_name(name, given)
        if official == "emb:b" and official not in given:
            arrays[name] = np.zeros(ours.shape, ours.dtype)
        elif official is None:
            problems.append(f"{name} of {type(model).__name__} has no counterpart there")
        elif official not in given:
            problems.append(f"missing {official} (for {name})")
        else:
            array = left_over.pop(official)
            if array.shape == _official_shape(name, ours.shape):
                arrays[name] = _ours(name, array, ours.shape)
            else:
                problems.append(
                    f"{official} is {list(array.shape)}, expected {list(_official_shape(name, ours.shape))}"
                )
    problems += [f"left over {official}" for official, array in left_over.items() if not _does_nothing(official, array)]
    if problems:
        raise MismatchError(f"the official parameters do not fit the model: {'; '.join(sorted(problems))}")
    return fill(model, arrays, "the official parameters")


def _without_network_name(params: Mapping[str, Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Every parameter as `module:name`, the network's own name left out."""
    networks = sorted({module.partition("/")[0] for module in params})
    if len(networks) > 1:
        raise MismatchError(
            f"the official parameters belong to several networks: {', '.join(networks)}; pass those of one"
        )
    return {
        f"{module.partition('/')[2]}:{name}": np.asarray(array)
        for module, arrays in params.items()
        for name, array in arrays.items()
    }


def _official_name(name: str, given: Mapping[str, Any]) -> str | None:
    """What the official implementation calls our tensor `name`."""
    owner, _, tensor = name.rpartition(".")
    if owner in AFFINE:
        return f"{AFFINE[owner]}:{'w' if tensor == 'weight' else 'b'}"
    layer = re.fullmatch(r"attention|layers\.(\d+)", owner)
    if layer is None or tensor not in ATTENTION:
        return None
    index = int(layer[1] or 0)
    shared = index == 0 and any(official.startswith("multi_head_attention/") for official in given)
    module = "multi_head_attention" if shared else f"~trans_block/layer_{index}"
    return f"{module}/{ATTENTION[tensor]}:w"


def _official_shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that our tensor `name` has there."""
    if len(shape) == 3:
        num_heads, out, into = shape
        return (num_heads * into, out) if name.endswith("W_P") else (into, num_heads * out)
    return shape[::-1]


def _ours(name: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An official array, whose shape is right, as our tensor `name`."""
    if len(shape) != 3:
        return array.T
    num_heads, out, into = shape
    if name.endswith("W_P"):
        return array.reshape(num_heads, into, out).transpose(0, 2, 1)
    return array.reshape(into, num_heads, out).transpose(1, 2, 0)


def _does_nothing(official: str, array: np.ndarray) -> bool:
    """Whether it is a bias of attention, and zero."""
    bias = re.fullmatch(r"(multi_head_attention|~trans_block/layer_\d+)/(key|query|value|linear):b", official)
    return bias is not None and not array.any()
