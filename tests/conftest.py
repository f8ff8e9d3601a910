"""Every test runs with shapes and dtypes checked, promotion strict, and nothing of a picture left open."""

import atexit
import os
import shutil
import tempfile

os.environ.setdefault("MPLBACKEND", "agg")
CACHE, SHARED = "JAX_COMPILATION_CACHE_DIR", "ICLZOO_TESTS_COMPILED"
if SHARED not in os.environ:
    os.environ[SHARED] = tempfile.mkdtemp(prefix="iclzoo-compiled-")
    atexit.register(shutil.rmtree, os.environ[SHARED], ignore_errors=True)
# What is compiled once serves the commands that tests start one after the other: each worker keeps its own, for JAX writes in place.
os.environ[CACHE] = os.path.join(os.environ[SHARED], os.environ.get("PYTEST_XDIST_WORKER", "alone"))
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

# ruff: noqa: E402 — the environment first
import jax
import jaxtyping
import pytest

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_num_cpu_devices", 2)  # for the tests that train on two

with jaxtyping.install_import_hook("iclzoo", "beartype.beartype"):
    import iclzoo  # noqa: F401


@pytest.fixture
def getkey():
    """A function that gives a new random key at every call."""
    keys = iter(jax.random.split(jax.random.key(2027), 1000))
    return lambda: next(keys)


@pytest.fixture
def compiling_alone(monkeypatch):
    """Processes that run side by side, or are killed, share nothing compiled: one would read what another has half written."""
    monkeypatch.delenv(CACHE)


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
