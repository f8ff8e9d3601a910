"""Softmax attention of one and of two heads, by depth."""

from dataclasses import replace

from ..schedule import Every
from .optimisers import DECAYING_ADAM
from .recipe import Recipe


def softmax(num_heads: int, num_layers: int) -> Recipe:
    """`num_layers` softmax layers of `num_heads` heads."""
    return Recipe(
        name=f"softmax-{num_heads}-head{'s' * (num_heads > 1)}-{num_layers}",
        description=f"Softmax attention: depth {num_layers}, {num_heads} {'heads' if num_heads > 1 else 'head'}.",
        reference="von Oswald et al. 2023, appendix A.9; Rossi et al. 2024",
        model="softmax_attention",
        hyperparameters={"num_layers": num_layers, "num_heads": num_heads, "init_scale": 0.1},
        optimiser=replace(DECAYING_ADAM, learning_rate=0.005, clip_norm=10.0),
        batch_size=1024,
        num_steps=4000,
        log=Every(1000),
        baselines=(f"gd-{num_layers}",),
    )


RECIPES = tuple(softmax(num_heads, num_layers) for num_heads in (1, 2) for num_layers in (1, 2, 3, 4, 5))
