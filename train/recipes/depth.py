"""Several steps: one layer applied again and again, and layers with weights of their own."""

from dataclasses import replace

from ..schedule import Ends, Every, Logarithmic
from ..tasks.regression import LinearRegression
from .optimisers import DECAYING_ADAM
from .recipe import Recipe

RECURRENT = Recipe(
    name="recurrent-lsa-2",
    description="One linear self-attention layer applied twice: it takes two steps of GD++ with one (η, γ).",
    reference="von Oswald et al. 2023, Figure 3 (left)",
    model="recurrent_lsa",
    hyperparameters={"num_loops": 2},
    optimiser=DECAYING_ADAM,
    batch_size=1024,
    num_steps=3000,
    log=Every(500),
    keep=Logarithmic(5),
    baselines=("gd-2", "gd++-2"),
)
DEEP_2 = Recipe(
    name="deep-lsa-2",
    description="Two linear self-attention layers with weights of their own: two steps of GD++, each with its own (η, γ).",
    reference="von Oswald et al. 2023, Figure 3 (right) and appendix A.10",
    model="deep_lsa",
    hyperparameters={"num_layers": 2},
    optimiser=DECAYING_ADAM,
    batch_size=1024,
    num_steps=3000,
    log=Every(500),
    keep=Logarithmic(5),
    baselines=("gd-2", "gd++-2", "gd++-2-free"),
)


def deep(num_layers: int) -> Recipe:
    """`num_layers` layers; more than two are clipped to ±10, as in the paper.

    From four steps on, free GD++ tuned on tens of thousands of tasks explodes on a few of others, and is no baseline.
    """
    return replace(
        DEEP_2,
        name=f"deep-lsa-{num_layers}",
        description=f"{num_layers} linear self-attention layers with weights of their own.",
        hyperparameters={"num_layers": num_layers, "clip": 10.0 if num_layers > 2 else None},
        optimiser=replace(DECAYING_ADAM, b2=0.98, clip_norm=10.0),
        num_steps=6000,
        log=Every(1000),
        keep=Ends(),
        baselines=(f"gd-{num_layers}", f"gd++-{num_layers}", *([f"gd++-{num_layers}-free"] if num_layers < 4 else [])),
    )


def deep_in_context(num_layers: int, num_examples: int) -> Recipe:
    """`num_layers` layers for prompts of `num_examples` examples: a point of the grid of depth and context size."""
    return replace(
        deep(num_layers),
        name=f"deep-lsa-{num_layers}-examples-{num_examples}",
        description=f"{num_layers} linear self-attention layers for prompts of {num_examples} examples.",
        reference="Rossi et al. 2024",
        task=LinearRegression(num_examples=num_examples),
        num_steps=4000,
        baselines=(f"gd-{num_layers}",),
    )


RECIPES = (
    RECURRENT,
    *(
        replace(
            RECURRENT,
            name=f"recurrent-lsa-2-seed-{seed}",
            description=f"The recipe `recurrent-lsa-2` from seed {seed}.",
            seed=seed,
            keep=Ends(),
        )
        for seed in (1, 2)
    ),
    replace(
        RECURRENT,
        name="recurrent-lsa-10",
        description="One linear self-attention layer applied ten times.",
        reference="von Oswald et al. 2023, section 3 and appendix A.9",
        hyperparameters={"num_loops": 10, "clip": 10.0},
        optimiser=replace(DECAYING_ADAM, learning_rate=0.002, clip_norm=0.1),
        num_steps=4000,
        keep=Ends(),
        baselines=("gd-10", "gd++-10"),
    ),
    replace(
        deep(1),
        description="One linear self-attention layer, the first of the models by depth.",
        baselines=("gd-1",),
    ),
    DEEP_2,
    *map(deep, (3, 4, 5)),
    *(deep_in_context(num_layers, n) for n in (2, 5, 20) for num_layers in (1, 2, 3, 4, 5)),
)
