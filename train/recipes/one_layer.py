"""One layer of linear self-attention: it takes one step of gradient descent."""

from dataclasses import replace

from ..optimiser import Adam
from ..schedule import Ends, Every, Logarithmic
from ..tasks.inputs import Uniform
from ..tasks.regression import LinearRegression
from .optimisers import PAPER_ADAM
from .recipe import Recipe

LSA = Recipe(
    name="lsa",
    description="One linear self-attention layer, trained by the paper's protocol: it takes one step of gradient descent.",
    reference="von Oswald et al. 2023, Figure 2",
    model="lsa",
    optimiser=PAPER_ADAM,
    num_steps=5000,
    seed=1,
    log=Logarithmic(10),
    keep=Logarithmic(10),
)
FAST = Recipe(
    name="lsa-fast",
    description="The same layer trained in seconds: a larger learning rate with warm-up and decay, a larger start, half the batch.",
    reference="von Oswald et al. 2023, Figure 2",
    model="lsa",
    hyperparameters={"init_scale": 0.005},
    optimiser=Adam(learning_rate=0.02, schedule="cosine", warmup_steps=20),
    batch_size=1024,
    num_steps=600,
    log=Every(50),
    keep=Logarithmic(5),
)
# What settles within a thousandth of the optimum, whatever the size of the prompt.
SETTLING = replace(
    FAST,
    optimiser=Adam(learning_rate=0.01, schedule="cosine", warmup_steps=50),
    num_steps=2000,
    keep=Ends(),
    log=Every(200),
)

RECIPES = (
    LSA,
    *(
        replace(LSA, name=f"lsa-seed-{seed}", description=f"The recipe `lsa` from seed {seed}.", seed=seed, keep=Ends())
        for seed in (2, 3)
    ),
    FAST,
    replace(
        SETTLING,
        name="lsa-half-width-1",
        description="One layer for inputs from U(−1, 1), as the text of the paper has them.",
        task=LinearRegression(inputs=Uniform(1.0)),
    ),
    replace(
        SETTLING,
        name="lsa-100-examples",
        description="One layer for a hundred examples; its η of about 11 is the one of the blog post.",
        reference="Rossi et al. 2024",
        task=LinearRegression(num_examples=100),
        keep=Logarithmic(5),
    ),
    replace(
        SETTLING,
        name="lsa-100-examples-half-width-1",
        description="One layer for a hundred examples with inputs from U(−1, 1).",
        reference="Rossi et al. 2024",
        task=LinearRegression(num_examples=100, inputs=Uniform(1.0)),
    ),
    replace(
        SETTLING,
        name="lsa-3-outputs",
        description="One layer for labels of three coordinates: one step of gradient descent for all of them.",
        reference="von Oswald et al. 2023, Proposition 1",
        hyperparameters={"init_scale": 0.005, "output_dim": 3},
        task=LinearRegression(output_dim=3),
    ),
)
