"""Every test runs with shapes and dtypes checked, promotion strict, and nothing of a picture left open."""

import os
import shutil
import tempfile
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "agg")

import jax
import jaxtyping
import pytest

# What a process that a test starts has compiled, the next one need not: the folder is made by the first process of the tests, and named
# to all by the environment. The limit on its size makes JAX lock it, so that no file is read half; the level silences its notes.
OWN_CACHE = "JAX_COMPILATION_CACHE_DIR" not in os.environ
if OWN_CACHE:
    os.environ |= {
        "JAX_COMPILATION_CACHE_DIR": tempfile.mkdtemp(prefix="iclzoo-tests-"),
        "JAX_COMPILATION_CACHE_MAX_SIZE": str(2**32),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
# This process compiles for itself: most of its programs are small, and met once.
jax.config.update("jax_compilation_cache_dir", None)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_num_cpu_devices", 2)  # for the tests that train on two

with jaxtyping.install_import_hook("iclzoo", "beartype.beartype"):
    import iclzoo  # noqa: F401


MAPPED = Path("/proc/self/maps")  # where there is such a file
MOST_MAPPED = 20_000  # regions of memory: a system allows a process some 65,000, and a compiled program takes several


def pytest_unconfigure(config):
    if OWN_CACHE:
        shutil.rmtree(os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)


@pytest.fixture(autouse=True)
def programs():
    """Compiled programs are let go before there are too many of them."""
    yield
    if MAPPED.exists() and MAPPED.read_bytes().count(b"\n") > MOST_MAPPED:
        jax.clear_caches()


@pytest.fixture(autouse=True, scope="module")
def compilation(request):
    """Most of the time of the tests is compilation, so it optimises little but where bits count, which is said by `pytest.mark.bits`."""
    exact = request.node.get_closest_marker("bits") is not None
    jax.config.update("jax_disable_most_optimizations", not exact)
    if exact:
        jax.clear_caches()
    yield
    jax.config.update("jax_disable_most_optimizations", False)
    if exact:
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
