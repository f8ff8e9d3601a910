"""The optimiser of a recipe, with every setting written down."""

from dataclasses import dataclass
from typing import Annotated, Literal

import optax

from ..zoo.checks.annotations import Clip, Positive
from ..zoo.checks.values import MAX_SIZE, Real, Whole, whole_number
from ..zoo.storage.config import setting

Decay = Annotated[float, Real(least=0, below=1)]


@setting("adam")
@dataclass(frozen=True)
class Adam:
    """Adam with global-norm clipping, linear warm-up and a constant or cosine schedule.

    `learning_rate` is the peak, reached after `warmup_steps` equal rises; a cosine schedule ends at zero.
    `clip_norm=None` does not clip. Kingma and Ba 2015.
    """

    learning_rate: Positive = 0.001
    schedule: Literal["constant", "cosine"] = "constant"
    warmup_steps: Annotated[int, Whole(0, MAX_SIZE)] = 0
    b1: Decay = 0.9
    b2: Decay = 0.999
    eps: Annotated[float, Real(above=0, most=1)] = 1e-8  # at 0, a gradient of 0 would be divided by 0
    clip_norm: Clip = None

    def build(self, num_steps: int) -> optax.GradientTransformation:
        """The optax transformation for a training of `num_steps` steps."""
        whole_number("num_steps", num_steps, self.warmup_steps + 1, MAX_SIZE)
        first = self.learning_rate / (self.warmup_steps + 1)  # the first step already moves
        if self.schedule == "cosine":
            rate = optax.warmup_cosine_decay_schedule(first, self.learning_rate, self.warmup_steps, num_steps)
        else:
            rate = optax.warmup_constant_schedule(first, self.learning_rate, self.warmup_steps)
        clip = optax.identity() if self.clip_norm is None else optax.clip_by_global_norm(self.clip_norm)
        return optax.chain(clip, optax.adam(rate, b1=self.b1, b2=self.b2, eps=self.eps))
