"""Separate tokens for x and y: a first layer that copies, a second that takes a step of gradient descent."""

from dataclasses import replace

from ..recipe import Recipe
from ..schedule import Every
from .optimisers import PAPER_ADAM

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

RECIPES = (
    COPYING,
    *(
        replace(COPYING, name=f"copying-seed-{seed}", description=f"The recipe `copying` from seed {seed}.", seed=seed)
        for seed in (1, 2)
    ),
)
