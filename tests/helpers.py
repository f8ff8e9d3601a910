"""What tests share: the one place for tolerances, and prompts of awkward sizes."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from iclzoo.inspect.instrument import Instrument
from iclzoo.inspect.measurement import OnAxes
from iclzoo.train.tasks.inputs import Inputs
from iclzoo.zoo.prompt import Prompt
from iclzoo.zoo.storage.config import setting

# How far two ways to the same number may be apart, relative to the largest entry: rounding, summed over a few hundred terms.
TOLERANCE = {np.dtype("float32"): 1e-5, np.dtype("float64"): 1e-10}


def assert_close(actual: Any, expected: Any, *, factor: float = 1.0, why: str = "") -> None:
    """Equal up to rounding, relative to the largest entry. A `factor` that loosens this needs a reason in `why`."""
    assert factor == 1.0 or why, "a loose tolerance must say why"
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    assert actual.dtype == expected.dtype, f"dtype {actual.dtype}, expected {expected.dtype}"
    scale = max(np.abs(expected).max(initial=0.0), np.finfo(expected.dtype).tiny)
    error = np.abs(actual - expected).max(initial=0.0) / scale
    assert error <= factor * TOLERANCE[expected.dtype], f"relative error {error:.2e}"


def random_prompt(key, *, num_examples: int = 7, input_dim: int = 3, output_dim: int = 1, scale: float = 0.5) -> Prompt:
    """A prompt without any structure."""
    key_x, key_y, key_query = jr.split(key, 3)
    return Prompt(
        xs=scale * jr.normal(key_x, (num_examples, input_dim)),
        ys=jr.normal(key_y, (num_examples, output_dim)),
        query=scale * jr.normal(key_query, (input_dim,)),
    )


@dataclass(frozen=True, repr=False)
class Numbers(OnAxes):
    """A measurement of nothing, with a picture of nothing."""

    values: Any = (1.0, 2.0)

    @property
    def summary(self):
        return "Some numbers."

    def rows(self):
        return [{"place": place, "value": value} for place, value in enumerate(self.values)]

    def draw(self, ax, **options):
        ax.set(title="nothing")


def asking(name: str, question: str, measured: Any) -> Instrument:
    """An instrument that gives the same whatever it is asked of, or raises it."""

    def measure(learner):
        if isinstance(measured, BaseException):
            raise measured
        return measured

    return Instrument(name, name.title(), question, measure)


@setting("still")
class Still(Inputs):
    """x = 0: somebody's inputs without any variation, which no shipped distribution gives."""

    def sample(self, key, num, input_dim):
        return jnp.zeros((num, input_dim))

    def covariance(self, input_dim):
        return jnp.zeros((input_dim, input_dim))

    def fourth_moment(self, A):
        return jnp.zeros_like(A)


def trees_equal(left: Any, right: Any) -> bool:
    """The same structure and the same bits."""
    same = jax.tree.structure(left) == jax.tree.structure(right)
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=False)
    return same and all(
        jnp.array_equal(a, b, equal_nan=False) and jnp.asarray(a).dtype == jnp.asarray(b).dtype for a, b in pairs
    )


def everything(folder: Path) -> dict[str, Any]:
    """Every entry below a folder: where links lead, what files hold, and when they were changed."""
    entries = {str(entry.relative_to(folder)): entry for entry in folder.rglob("*")}
    return {
        name: (
            os.readlink(entry) if entry.is_symlink() else entry.is_file() and entry.read_bytes(),
            entry.lstat().st_mtime_ns,
        )
        for name, entry in entries.items()
    }
