"""A mean over tasks, and how uncertain it is."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Estimate:
    """A mean over tasks and its standard error; `None` where there are too few tasks to have one."""

    value: float | None
    standard_error: float | None

    @classmethod
    def of(cls, values: np.ndarray) -> "Estimate":
        if len(values) == 0:
            return cls(None, None)
        error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
        return cls(float(values.mean()), error)
