"""What a seed decides, whatever the process is set to: models, data, steps, evaluation.

The numbers that come of a seed depend on settings of JAX that may come from its environment variables, from another library or from
a notebook's first cell. Here they are fixed for as long as a seed is at work:

    generator    threefry2x32, and partitionable: so keys are split and weights drawn (the numbers within one task come from its
                 original form, see `Task.sample` in train/tasks/regression.py)
    precision    matrix products in float32, on accelerators too
    width        32 bits, as in every recipe; 64 where most of the numbers at hand have them, in the model, the algorithm and the task
                 of somebody who works in 64 bits
    compilation  on

What cannot be fixed is recorded instead: see train/recipes/provenance.py.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Key, PRNGKeyArray, PyTree

from .checks.process import check_process
from .checks.values import MAX_SEED
from .errors import ConfigError, said_by

GENERATOR = "threefry2x32"


@contextmanager
def fixed_settings(*at_hand: PyTree, finite: bool = True) -> Iterator[tuple[PyTree, ...]]:
    """A context in which a seed decides everything; 64 bits wide where most of the floating-point numbers in `at_hand` are.

    It gives `at_hand` back with no array wider than that.

    Numbers that are not finite are an outcome like any other unless `finite`: JAX is then not left to raise at the first of them, as
    JAX_DEBUG_NANS and JAX_DEBUG_INFS ask for.

    **Raises** `ZooError` where JAX cannot work: it does not start, or this process was forked after it had.
    """
    check_jax()
    with ExitStack() as settings:
        for setting in (
            jax.default_prng_impl(GENERATOR),
            jax.threefry_partitionable(True),
            jax.default_matmul_precision("highest"),
            jax.enable_x64(_is_wide(at_hand)),
            jax.disable_jit(False),
        ):
            settings.enter_context(setting)
        if not finite:
            settings.enter_context(jax.debug_nans(False))
            settings.enter_context(jax.debug_infs(False))
        yield tuple(_as_wide_as_jax(tree) for tree in at_hand)


def key_of(seed: int) -> PRNGKeyArray:
    """The key of a seed: `jax.random.key(seed)` under JAX's own settings. Seeds are counted modulo 2³²."""
    return jr.wrap_key_data(jnp.array([0, seed & MAX_SEED], jnp.uint32), impl=GENERATOR)


def split(key: PRNGKeyArray, number: int) -> Key[Array, " {number}"]:
    """`number` keys made of one: `jax.random.split(key, number)` under JAX's own settings."""
    key = typed(key)
    with jax.threefry_partitionable(True):
        return jr.split(key, number)


def typed(key: PRNGKeyArray) -> PRNGKeyArray:
    """A key that knows its generator: one of `jax.random.PRNGKey`, an array of numbers, belongs to that which JAX is set to."""
    check_process()
    return key if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else jr.wrap_key_data(key)


def check_jax() -> None:
    """**Raises** `ZooError` where JAX cannot work: it does not start, or this process was forked after it had."""
    check_process()
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:
        platforms = jax.config.jax_platforms  # pyright: ignore[reportAttributeAccessIssue]
        raise ConfigError(
            f"JAX does not start on {platforms or 'this machine'} ({said_by(error) or 'it has no such devices'}); "
            "unset JAX_PLATFORMS, or set it to cpu"
        ) from None


def _is_wide(tree: PyTree) -> bool:
    """Whether half or more of the floating-point numbers in JAX's arrays are of 64 bits; NumPy's become as wide as JAX makes them."""
    arrays = [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array)]
    wide, all_ = (
        sum(array.size for array in arrays if jnp.issubdtype(array.dtype, kind)) for kind in (jnp.float64, jnp.floating)
    )
    return 2 * wide >= all_ > 0


def _as_wide_as_jax(tree: PyTree) -> PyTree:
    """`tree` with arrays of 64 bits made 32 bits wide where JAX is."""

    def narrowed(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array) or jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
            return leaf
        dtype = jax.dtypes.canonicalize_dtype(leaf.dtype)
        return leaf if dtype == leaf.dtype else jax.lax.convert_element_type(leaf, dtype)

    return jax.tree.map(narrowed, tree)
