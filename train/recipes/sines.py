"""Sine regression: a perceptron makes the features, an attention layer takes the step; and its meta-learned control."""

from dataclasses import replace

from ..optimiser import Adam
from ..schedule import Every
from ..tasks.regression import SineRegression
from .recipe import Recipe

MLP_LSA = Recipe(
    name="mlp-lsa-sine",
    description="An embedding, a perceptron and a linear self-attention layer, trained on sine waves.",
    reference="von Oswald et al. 2023, Figure 4",
    model="mlp_lsa",
    task=SineRegression(),  # pyright: ignore[reportCallIssue]
    optimiser=Adam(learning_rate=0.003, schedule="cosine", warmup_steps=50, b2=0.98, clip_norm=10.0),
    batch_size=1024,
    num_steps=20_000,
    log=Every(1000),
    baselines=("zero", "nadaraya-watson"),
)

RECIPES = (
    MLP_LSA,
    replace(
        MLP_LSA,
        name="mlp-gradient-descent-sine",
        description="The control: the same embedding and perceptron, meta-learned through one explicit gradient step.",
        model="mlp_gradient_descent",
    ),
)
