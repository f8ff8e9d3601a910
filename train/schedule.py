"""At which steps of a training something happens. Step 0 and the last step always belong."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..zoo.config import setting
from ..zoo.errors import ConfigError


@setting("every")
@dataclass(frozen=True)
class Every:
    """Every `interval` steps, up to `until` where that is given: 0, 300, 600, 900, 1000 for 1000 steps and an interval of 300."""

    interval: int
    until: int | None = None

    def __post_init__(self):
        for name, value in (("interval", self.interval), ("until", self.until)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}")

    def steps(self, num_steps: int) -> tuple[int, ...]:
        end = num_steps if self.until is None else min(num_steps, self.until + 1)
        return tuple(sorted({*range(0, end, self.interval), num_steps}))


@setting("logarithmic")
@dataclass(frozen=True)
class Logarithmic:
    """`per_decade` steps in every factor of ten: 0, 1, 2, 5, 10, 20, 50, 100 for 100 steps and 3 per decade."""

    per_decade: int = 5

    def __post_init__(self):
        if self.per_decade < 1:
            raise ConfigError(f"per_decade must be at least 1, got {self.per_decade}")

    def steps(self, num_steps: int) -> tuple[int, ...]:
        decades = np.log10(max(num_steps, 1))
        grid = 10 ** np.arange(0, decades, 1 / self.per_decade)
        return tuple(sorted({0, *(round(float(step)) for step in grid if step < num_steps), num_steps}))


@setting("ends")
@dataclass(frozen=True)
class Ends:
    """Step 0 and the last step only."""

    def steps(self, num_steps: int) -> tuple[int, ...]:
        return tuple(sorted({0, num_steps}))


Schedule: TypeAlias = Every | Logarithmic | Ends
