"""Sizes are held against the memory of the machine before any is taken."""

import os
import warnings
from collections.abc import Callable
from math import prod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..errors import ConfigError
from .values import is_traced

UNKNOWN = 2**40  # bytes, where the system does not say


def physical_memory() -> int:
    """The bytes of memory that this machine has."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return UNKNOWN


def check_memory(what: str, num_numbers: int) -> None:
    """`ConfigError` unless `num_numbers` floating-point numbers fit into this machine; `what` says what they are, with its sizes."""
    needed, memory = num_numbers * jnp.dtype(jnp.result_type(float)).itemsize, physical_memory()
    if needed > memory:
        raise ConfigError(
            f"{what} would take {needed / 1e9:.3g} GB, but this machine has {memory / 1e9:.3g} GB; choose smaller sizes"
        )


def check_draw(what: str, *shapes: tuple[int, ...], key: Any) -> None:
    """`check_memory` for weights of these shapes, unless `key` is traced: then shapes alone are asked for."""
    if not is_traced(key):
        check_memory(what, sum(map(prod, shapes)))


def check_result(what: str, make: Callable[[], Any]) -> None:
    """`ConfigError` unless the arrays of what `make` makes fit into this machine; nothing is made."""
    with (
        warnings.catch_warnings(),
        jax.threefry_partitionable(True),
    ):  # the other form lists its counters, perhaps too many
        warnings.simplefilter("ignore")  # of indices that 32 bits cannot hold
        arrays = jax.tree.leaves(eqx.filter(eqx.filter_eval_shape(make), _is_shape))
    check_memory(what, sum(array.size for array in arrays))


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)
