"""Arrays that belong to a model but are not learned."""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, PyTree

from .errors import ConfigError


class Frozen(eqx.Module):
    """An array that is saved with its model and left alone by training."""

    value: Array

    def __check_init__(self):
        if not eqx.is_array(self.value):
            raise ConfigError(f"Frozen holds an array, got {type(self.value).__name__}")


def trainable(model: PyTree) -> PyTree[bool]:
    """The filter for `eqx.partition` that selects what training may change: every floating-point array not `Frozen`."""

    def select(node: Any) -> PyTree[bool]:
        frozen = isinstance(node, Frozen)
        return jax.tree.map(lambda leaf: eqx.is_inexact_array(leaf) and not frozen, node)

    return jax.tree.map(select, model, is_leaf=lambda node: isinstance(node, Frozen))
