"""Weights as plain dictionaries of NumPy arrays, by tensor name: as they are, and packed as PyTorch's modules hold them."""

from collections.abc import Mapping
from typing import Any, TypeVar

import equinox as eqx
import numpy as np

from ..checks.gate import gated
from ..errors import ArgumentError
from .tensors import fill, named_arrays

Model = TypeVar("Model", bound=eqx.Module)

_INWARD = ("W_K", "W_Q", "W_V")  # of each head, [num_heads, head_dim, embed_dim]
_OUTWARD = "W_P"  # [num_heads, embed_dim, head_dim]


@gated
def to_arrays(model: Any) -> dict[str, np.ndarray]:
    """Every array of a model by its tensor name, as on its card.

    Example:
        >>> [*iclzoo.to_arrays(iclzoo.load("lsa"))]
        ['attention.W_K', 'attention.W_Q', 'attention.W_V', 'attention.W_P']
    """
    return {name: np.asarray(array) for name, array in named_arrays(model).items()}


@gated
def from_arrays(model: Any, arrays: Mapping[str, Any]) -> Any:
    """`model` with these arrays, by tensor name; nothing is reshaped or positional.

    Args:
        model: a model of the sizes of the arrays, as `iclzoo.create` makes one.
        arrays: arrays of NumPy or JAX, or tensors of PyTorch.

    Raises:
        MismatchError: something is missing, left over or of another shape; all of it is listed.

    Example:
        >>> lsa = iclzoo.load("lsa")
        >>> again = iclzoo.from_arrays(iclzoo.create("lsa", key=jax.random.key(0)), iclzoo.to_arrays(lsa))
    """
    return fill(model, {name: _as_array(name, array) for name, array in _checked(arrays).items()}, "the dictionary")


@gated
def to_torch_state(model: Any) -> dict[str, np.ndarray]:
    """The weights as the state of PyTorch modules, as plain arrays: `module.load_state_dict` wants `torch.from_numpy` of each.

    The projections of all heads of a layer are one `nn.Linear` without bias, as PyTorch packs them: `attention.W_K.weight` is
    [num_heads · head_dim, embed_dim], and `attention.W_P.weight` [embed_dim, num_heads · head_dim]. All else keeps its name and shape.

    Example:
        >>> iclzoo.to_torch_state(iclzoo.load("lsa"))["attention.W_K.weight"].shape
        (11, 11)
    """
    return {_torch_name(name, array): _packed(name, array) for name, array in to_arrays(model).items()}


@gated
def from_torch_state(model: Any, state: Mapping[str, Any]) -> Any:
    """`model` with the weights of a state in the form of `to_torch_state`: tensors of PyTorch, or arrays.

    Raises:
        MismatchError: something is missing, left over or of another shape; all of it is listed.

    Example:
        >>> lsa = iclzoo.load("lsa")
        >>> again = iclzoo.from_torch_state(lsa, iclzoo.to_torch_state(lsa))
    """
    given = {name: _as_array(name, array) for name, array in _checked(state).items()}
    arrays = {}
    for name, own in named_arrays(model).items():
        torch_name = _torch_name(name, own)
        if torch_name in given:
            arrays[name] = _unpacked(name, given.pop(torch_name), own.shape)
    return fill(model, arrays | given, "the state")


def _torch_name(name: str, array: Any) -> str:
    return f"{name}.weight" if _is_projection(name, array) else name


def _is_projection(name: str, array: Any) -> bool:
    return array.ndim == 3 and name.rpartition(".")[2] in (*_INWARD, _OUTWARD)


def _packed(name: str, array: np.ndarray) -> np.ndarray:
    if not _is_projection(name, array):
        return array
    num_heads, out, into = array.shape
    if name.endswith(_OUTWARD):
        return array.transpose(1, 0, 2).reshape(out, num_heads * into)
    return array.reshape(num_heads * out, into)


def _unpacked(name: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array of a state in our form; as it is where its shape is another, for the error to name."""
    if len(shape) != 3 or not any(name.endswith(projection) for projection in (*_INWARD, _OUTWARD)):
        return array
    num_heads, out, into = shape
    if name.endswith(_OUTWARD):
        fits = array.shape == (out, num_heads * into)
        return array.reshape(out, num_heads, into).transpose(1, 0, 2) if fits else array
    return array.reshape(shape) if array.shape == (num_heads * out, into) else array


def _checked(arrays: Any) -> Mapping[str, Any]:
    if not isinstance(arrays, Mapping) or not all(isinstance(name, str) for name in arrays):
        raise ArgumentError(f"the weights must be a mapping from names to arrays, got {type(arrays).__name__}")
    return arrays


def _as_array(name: str, array: Any) -> np.ndarray:
    """An array of NumPy from one of any library. **Raises** `ArgumentError` for what is none."""
    if hasattr(array, "detach"):  # a tensor of PyTorch
        array = array.detach().cpu().float() if "bfloat16" in str(array.dtype) else array.detach().cpu()
    found = np.asarray(array)
    if found.dtype.kind not in "fiubV":
        raise ArgumentError(f"{name} must be an array of numbers, got {type(array).__name__}")
    return found
