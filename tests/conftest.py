"""Every test runs with shapes and dtypes checked, promotion strict, and nothing of a picture left open."""

import os

os.environ.setdefault("MPLBACKEND", "agg")

import jax
import jaxtyping
import pytest

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_num_cpu_devices", 2)  # for the tests that train on two

with jaxtyping.install_import_hook("iclzoo", "beartype.beartype"):
    import iclzoo  # noqa: F401


@pytest.fixture(scope="module", autouse=True)
def programs():
    """Compiled programs are let go with the file that needed them: a process may map no more than some tens of thousands of them."""
    yield
    jax.clear_caches()


@pytest.fixture
def getkey():
    """A function that gives a new random key at every call."""
    keys = iter(jax.random.split(jax.random.key(2027), 1000))
    return lambda: next(keys)


@pytest.fixture
def forgetting(monkeypatch):
    """Whatever a test registers is forgotten after it."""
    from iclzoo.zoo.registry import Registry

    for registry in Registry.every:
        registry.discover()
        for table in ("_things", "failed"):
            monkeypatch.setattr(registry, table, dict(getattr(registry, table)))


@pytest.fixture(scope="module")
def standard_promotion():
    """Optax's schedules multiply integers with floats, which strict promotion forbids."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture
def x64():
    """64-bit JAX for the duration of a test."""
    with jax.enable_x64(True):
        yield
