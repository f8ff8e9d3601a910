"""Separate tokens for x and y: a first layer that copies, a second that takes a step of gradient descent."""

from dataclasses import replace

from ..schedule import Every
from .optimisers import PAPER_ADAM
from .recipe import Recipe

# Weights start larger than in the paper, and learn faster: every seed leaves the plateau early.
COPYING = Recipe(
    name="copying",
    description="A softmax layer and a linear one over separate tokens for x and y; every 100 steps are kept through the change of phase.",
    reference="von Oswald et al. 2023, Figure 5",
    model="copying_transformer",
    hyperparameters={"head_dim": 20, "init_scale": 0.3},
    optimiser=replace(PAPER_ADAM, learning_rate=0.003, schedule="cosine"),
    batch_size=1024,
    num_steps=30_000,
    log=Every(1000),
    keep=Every(100, until=5_000),
)
# Variance, rate and batch of the paper: the first layer copies before the loss falls.
SMALL_START = replace(
    COPYING,
    name="copying-small-start",
    description="The recipe `copying` from weights as small, and at a rate as low, as the paper's.",
    hyperparameters={"head_dim": 20, "init_scale": 0.02},
    optimiser=replace(PAPER_ADAM, schedule="cosine"),
    batch_size=2048,
    num_steps=40_000,
    keep=Every(100, since=3_000, until=8_000),
)

RECIPES = tuple(
    replace(
        one,
        name=one.name if seed == 0 else f"{one.name}-seed-{seed}",
        description=one.description if seed == 0 else f"The recipe `{one.name}` from seed {seed}.",
        seed=seed,
    )
    for one in (COPYING, SMALL_START)
    for seed in range(3)
)
