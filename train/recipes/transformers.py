"""Twelve layers with perceptrons, with and without layer norms; clipped to ±10."""

from dataclasses import replace

from ..optimiser import Adam
from ..schedule import Every
from .recipe import Recipe

TRANSFORMER = Recipe(
    name="transformer-12",
    description="A Transformer of twelve layers, four heads and perceptrons, without layer norms; clipped to ±10.",
    reference="von Oswald et al. 2023, section 3 and appendix A.9",
    model="transformer",
    hyperparameters={"clip": 10.0},
    optimiser=Adam(learning_rate=0.001, schedule="cosine", warmup_steps=300, clip_norm=1.0),
    batch_size=128,
    num_steps=2500,
    log=Every(1000),
    baselines=("gd-10",),
)

RECIPES = (
    TRANSFORMER,
    replace(
        TRANSFORMER,
        name="transformer-12-layer-norm",
        description="The same Transformer with layer norms.",
        hyperparameters={"clip": 10.0, "layer_norm": True},
    ),
)
