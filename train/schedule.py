"""At which steps of a training something happens. Step 0 and the last step always belong."""

from dataclasses import dataclass
from typing import Annotated, TypeAlias

import numpy as np

from ..zoo.checks.annotations import Size
from ..zoo.checks.values import MAX_SIZE, Whole
from ..zoo.errors import ConfigError
from ..zoo.storage.config import setting

MAX_STOPS = 1_000_000  # of a training, each of which costs a measurement or a file


@setting("every")
@dataclass(frozen=True)
class Every:
    """Every `interval` steps, from `since` on and up to `until` where that is given: 0, 300, 600, 900, 1000 for 1000 steps of 300."""

    interval: Size
    until: Size | None = None
    since: Annotated[int, Whole(0, MAX_SIZE)] = 0

    def __post_init__(self):
        if self.until is not None and self.until < self.since:
            raise ConfigError(f"until must not lie before since, got {self.until} and {self.since}")

    def steps(self, num_steps: int) -> tuple[int, ...]:
        """**Raises** `ConfigError` for more than `MAX_STOPS` steps."""
        end = num_steps if self.until is None else min(num_steps, self.until + 1)
        first = -(-self.since // self.interval) * self.interval
        steps = range(first, end, self.interval)
        if len(steps) > MAX_STOPS:
            raise ConfigError(
                f"interval must be larger: every {self.interval} of {num_steps} steps are {len(steps)}, at most {MAX_STOPS} are allowed"
            )
        return tuple(sorted({0, *steps, num_steps}))


@setting("logarithmic")
@dataclass(frozen=True)
class Logarithmic:
    """`per_decade` steps in every factor of ten: 0, 1, 2, 5, 10, 20, 50, 100 for 100 steps and 3 per decade."""

    per_decade: Annotated[int, Whole(1, 10_000)] = 5

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
