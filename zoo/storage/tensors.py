"""The arrays of a PyTree by name, and as the bytes of a safetensors file."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from ..errors import MismatchError, PrecisionError, enumerated

Tree = TypeVar("Tree", bound=PyTree)

# The dtypes of a checkpoint: safetensors' code → NumPy's dtype (JAX brings bfloat16).
_DTYPES = {
    "BOOL": np.dtype(bool),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "U16": np.dtype(np.uint16),
    "I16": np.dtype(np.int16),
    "U32": np.dtype(np.uint32),
    "I32": np.dtype(np.int32),
    "U64": np.dtype(np.uint64),
    "I64": np.dtype(np.int64),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(jnp.bfloat16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
}


def named_arrays(tree: PyTree) -> dict[str, Any]:
    """Every array of `tree` (or the shape that stands for it) under its tree path, as in `layers.0.W_K`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {_name(path): leaf for path, leaf in leaves if _is_array(leaf)}


def differing_settings(tree: PyTree, other: PyTree, path: str = "") -> Iterator[str]:
    """Where two PyTrees of one structure hold other numbers, truth values or strings than arrays, whether static or leaves."""
    if is_dataclass(tree) and type(tree) is type(other):
        names = [entry.name for entry in fields(tree)]
        pairs = [(name, getattr(tree, name, None), getattr(other, name, None)) for name in names]
    elif isinstance(tree, dict) and isinstance(other, dict):
        pairs = [(name, tree.get(name), other.get(name)) for name in {**tree, **other}]
    elif isinstance(tree, tuple | list) and isinstance(other, tuple | list) and len(tree) == len(other):
        pairs = [(index, *pair) for index, pair in enumerate(zip(tree, other, strict=True))]
    else:
        pairs = []
        plain = [isinstance(value, bool | int | float | complex | str | np.generic) for value in (tree, other)]
        if any(plain) and (type(tree) is not type(other) or (tree != other and tree == tree)):
            yield f"{path} is {tree!r:.60}, and built anew {other!r:.60}"
    for name, mine, theirs in pairs:
        yield from differing_settings(mine, theirs, f"{path}.{name}".lstrip("."))


def described(arrays: Mapping[str, Any]) -> dict[str, str]:
    """The dtype and shape of each array, as in `float32[1,11,11]`."""
    return {name: f"{np.dtype(array.dtype)}[{','.join(map(str, array.shape))}]" for name, array in arrays.items()}


def to_bytes(arrays: Mapping[str, Any]) -> bytes:
    """A safetensors file. Arrays are made C-contiguous first: safetensors 0.8.0 scrambles any other order.

    **Raises** `ValueError` for a dtype that a checkpoint cannot hold.
    """
    contiguous = {name: np.array(array, order="C") for name, array in arrays.items()}
    for name, array in contiguous.items():
        if array.dtype not in _DTYPES.values():
            raise ValueError(f"{name}: a checkpoint cannot hold {array.dtype}; convert it first")
    return save(contiguous)


def from_bytes(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file. **Raises** `SafetensorError` where the bytes are none."""
    arrays = {}
    for name, tensor in deserialize(data):
        if tensor["dtype"] not in _DTYPES:
            raise SafetensorError(f"tensor {name!r} has dtype {tensor['dtype']}, which iclzoo does not read")
        flat = np.frombuffer(tensor["data"], _DTYPES[tensor["dtype"]])
        arrays[name] = flat.reshape(tensor["shape"])
    return arrays


def fill(skeleton: Tree, arrays: Mapping[str, Any], source: str) -> Tree:
    """`skeleton` with each of its arrays replaced by the one of the same name. Nothing is reshaped or positional.

    **Raises** `MismatchError`, listing what is missing, unexpected or of another shape; `PrecisionError` for 64-bit
    arrays while JAX is set to 32 bits.
    """
    expected = named_arrays(skeleton)
    problems = [f"missing {name}" for name in expected.keys() - arrays.keys()]
    problems += [f"unexpected {name}" for name in arrays.keys() - expected.keys()]
    for name in expected.keys() & arrays.keys():
        want, have = expected[name], arrays[name]
        if want.shape != have.shape:
            problems.append(f"{name} is {list(have.shape)}, expected {list(want.shape)}")
        elif np.dtype(want.dtype).kind != have.dtype.kind and "V" not in (np.dtype(want.dtype).kind, have.dtype.kind):
            problems.append(f"{name} holds {have.dtype}, expected {want.dtype}")
    if problems:
        raise MismatchError(f"{source} does not fit the architecture: {enumerated(problems)}")
    for name, array in arrays.items():
        if array.dtype.itemsize == 8 and not jax.config.read("jax_enable_x64"):
            raise PrecisionError(
                f'{source}: {name} is {array.dtype}, but JAX is set to 32 bits; call jax.config.update("jax_enable_x64", True) first'
            )
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: jnp.asarray(arrays[_name(path)]) if _is_array(leaf) else leaf, skeleton
    )


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, np.ndarray | jax.ShapeDtypeStruct)
