"""At which steps of a training something happens. Step 0 and the last step always belong."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..zoo.config import setting
from ..zoo.errors import ConfigError


@setting("every")
@dataclass(frozen=True)
class Every:
    """Every `interval` steps, from `since` on and up to `until` where that is given: 0, 300, 600, 900, 1000 for 1000 steps of 300."""

    interval: int
    until: int | None = None
    since: int = 0

    def __post_init__(self):
        for name, value, least in (("interval", self.interval, 1), ("until", self.until, 1), ("since", self.since, 0)):
            if value is not None and value < least:
                raise ConfigError(f"{name} must be at least {least}, got {value}")
        if self.until is not None and self.until < self.since:
            raise ConfigError(f"until must not lie before since, got {self.until} and {self.since}")

    def steps(self, num_steps: int) -> tuple[int, ...]:
        end = num_steps if self.until is None else min(num_steps, self.until + 1)
        return tuple(sorted({0, *(step for step in range(0, end, self.interval) if step >= self.since), num_steps}))


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
