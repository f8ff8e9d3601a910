"""Recipes of somebody else's, in a file of no package."""

import iclzoo

SQUARES = iclzoo.Recipe(
    name="squares",
    model="softsign_attention",
    hyperparameters={"input_dim": 3},
    task=iclzoo.zoo.storage.config.from_config({"kind": "quadratic_regression", "num_examples": 6}),
    batch_size=16,
    num_steps=6,
    log=iclzoo.train.schedule.Every(3),
    baselines=("newton-2", "gd-1"),
)
