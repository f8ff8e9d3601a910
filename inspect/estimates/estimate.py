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

    def text(self) -> str:
        """The value with its error, to two digits of the error; "undefined" where there is none."""
        if self.value is None:
            return "undefined"
        if not self.standard_error or not np.isfinite(self.standard_error):
            return f"{self.value:.5g}"
        digits = max(0, 1 - int(np.floor(np.log10(self.standard_error))))
        return f"{self.value:.{digits}f} ± {self.standard_error:.{digits}f}" if digits < 12 else f"{self.value:.5g}"
