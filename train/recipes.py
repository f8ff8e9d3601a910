"""The recipes that made the shipped checkpoints. One entry each; `iclzoo train NAME` re-derives it."""

from fnmatch import fnmatchcase

import equinox as eqx
import jax.random as jr

from ..zoo.errors import unknown_name
from ..zoo.registry import create, list_models
from .optimiser import Adam
from .recipe import Recipe
from .schedule import Every, Logarithmic
from .tasks import LinearRegression

# The optimiser of the paper's code: Adam with b2 = 0.98, the gradient clipped to a global norm of 10.
PAPER_ADAM = Adam(learning_rate=0.001, b2=0.98, eps=1e-8, clip_norm=10.0)
# At a constant rate the weights keep fluctuating about the optimum, by 1 % of η; a rate that decays lets them settle.
DECAYING_ADAM = Adam(learning_rate=0.01, schedule="cosine", warmup_steps=50)

_RECIPES = (
    Recipe(
        name="lsa",
        description="One linear self-attention layer, trained by the paper's protocol: it takes one step of gradient descent.",
        reference="von Oswald et al. 2023, Figure 2",
        model="lsa",
        optimiser=PAPER_ADAM,
        num_steps=5000,
        seed=1,
        log=Logarithmic(10),
        keep=Logarithmic(10),
    ),
    Recipe(
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
    ),
    Recipe(
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
    ),
    Recipe(
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
    ),
)

_BY_NAME = {recipe.name: recipe for recipe in _RECIPES}


def list_recipes(pattern: str = "*") -> list[str]:
    """The names of all recipes; `pattern` may hold wildcards."""
    return sorted(name for name in _BY_NAME if fnmatchcase(name, pattern))


def recipe(name: str) -> Recipe:
    """The recipe of that name; the name of a model stands for the default protocol on that model.

    **Raises** `UnknownNameError`, with the closest matches.
    """
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name not in list_models():
        raise unknown_name("recipe or model", name, {*_BY_NAME, *list_models()})
    model = eqx.filter_eval_shape(lambda: create(name, key=jr.key(0)))
    task = LinearRegression(input_dim=model.input_dim, output_dim=model.output_dim)
    return Recipe(name=name, model=name, task=task, description=f"The model {name!r}, trained by the default protocol.")
