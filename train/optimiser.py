"""The optimiser of a recipe, with every setting written down."""

from dataclasses import dataclass
from typing import Literal

import optax

from ..zoo.config import setting
from ..zoo.errors import ConfigError


@setting("adam")
@dataclass(frozen=True)
class Adam:
    """Adam with global-norm clipping, linear warm-up and a constant or cosine schedule.

    `learning_rate` is the peak, reached after `warmup_steps` equal rises; a cosine schedule ends at zero.
    `clip_norm=None` does not clip. Kingma and Ba 2015.
    """

    learning_rate: float = 0.001
    schedule: Literal["constant", "cosine"] = "constant"
    warmup_steps: int = 0
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8
    clip_norm: float | None = None

    def __post_init__(self):
        if self.schedule not in ("constant", "cosine"):
            raise ConfigError(f'schedule must be "constant" or "cosine", got {self.schedule!r}')
        if not self.learning_rate > 0:
            raise ConfigError(f"learning_rate must be positive, got {self.learning_rate}")

    def build(self, num_steps: int) -> optax.GradientTransformation:
        """The optax transformation for a training of `num_steps` steps."""
        first = self.learning_rate / (self.warmup_steps + 1)  # the first step already moves
        if self.schedule == "cosine":
            rate = optax.warmup_cosine_decay_schedule(first, self.learning_rate, self.warmup_steps, num_steps)
        else:
            rate = optax.warmup_constant_schedule(first, self.learning_rate, self.warmup_steps)
        clip = optax.identity() if self.clip_norm is None else optax.clip_by_global_norm(self.clip_norm)
        return optax.chain(clip, optax.adam(rate, b1=self.b1, b2=self.b2, eps=self.eps))
