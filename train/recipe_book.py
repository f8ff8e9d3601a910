"""Every recipe by its name: those of `train/recipes/`, and the default protocol for each model."""

from fnmatch import fnmatchcase

import equinox as eqx
import jax.random as jr

from ..zoo.errors import unknown_name
from ..zoo.factory import create, list_models
from ..zoo.gate import gated
from .recipe import Recipe
from .recipes import attention, conditions, copying, depth, lstm, one_layer, sines, theory, transformers
from .tasks import LinearRegression

FAMILIES = (one_layer, depth, conditions, theory, attention, copying, sines, transformers, lstm)
_BY_NAME = {recipe.name: recipe for family in FAMILIES for recipe in family.RECIPES}


@gated
def list_recipes(pattern: str = "*") -> list[str]:
    """The names of all recipes; `pattern` may hold wildcards."""
    return sorted(name for name in _BY_NAME if fnmatchcase(name, pattern))


@gated
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
