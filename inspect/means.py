"""Means over tasks that say when they are undefined, and their arrays for drawing."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from .alignment import Mean

UNDEFINED = Mean(None, None)


def finite_mean(values: Float[np.ndarray, " num_tasks"]) -> Mean:
    """The mean and its standard error; undefined where one of the values is not finite, for that one decides the mean."""
    return Mean.of(values) if np.isfinite(values).all() else UNDEFINED


def half_mse_of(squared_errors: Float[np.ndarray, "num_tasks num_points"]) -> tuple[Mean, ...]:
    """½ · mean over tasks of ‖ŷ − y‖² at each point of a curve."""
    return tuple(finite_mean(column / 2) for column in squared_errors.T)


def finite_median(values: Float[np.ndarray, " num_tasks"]) -> float | None:
    """The median, what is not finite counted as infinitely large; undefined where the median itself is infinite."""
    median = float(np.median(np.where(np.isfinite(values), values, np.inf))) if len(values) else np.inf
    return median if np.isfinite(median) else None


def as_arrays(means: Sequence[Mean]) -> tuple[np.ndarray, np.ndarray]:
    """Values and standard errors as arrays to draw; NaN, which leaves a gap, where they are undefined."""
    pairs = [(mean.value, mean.standard_error) for mean in means]
    values, errors = np.array(pairs, np.float64).reshape(-1, 2).T
    return values, errors
