"""Every recipe by its name: those of `train/recipes/`, and the default protocol for each model."""

from fnmatch import fnmatchcase
from functools import cache

import equinox as eqx
import jax.random as jr

from ...zoo.checks.gate import gated
from ...zoo.errors import ContractError, unknown_name
from ...zoo.factory import create, list_models
from ...zoo.registry import modules
from ..tasks.regression import LinearRegression
from .outside import is_reference, outside_recipe
from .recipe import Recipe


@cache
def _by_name() -> dict[str, Recipe]:
    """The recipes in every list `RECIPES` of the folder; its other files are helpers."""
    found: dict[str, Recipe] = {}
    for module in modules(__package__ or ""):
        for one in getattr(module, "RECIPES", ()):
            if one.name in found:
                raise ContractError(f"{module.__name__} has a second recipe {one.name!r}; give it another name")
            found[one.name] = one
    return found


@gated
def list_recipes(pattern: str = "*") -> list[str]:
    """The names of all recipes; `pattern` may hold wildcards."""
    return sorted(name for name in _by_name() if fnmatchcase(name, pattern))


@gated
def recipe(name: str) -> Recipe:
    """The recipe of that name, or from outside: `FILE.py:RECIPE`, `package.module:RECIPE`, or a JSON file, such as a run's.

    The name of a model stands for the default protocol on that model.

    **Raises** `UnknownNameError`, with the closest matches; `ConfigError` for a file that holds no such recipe.
    """
    if is_reference(name):
        return outside_recipe(name)
    if name in _by_name():
        return _by_name()[name]
    if name not in list_models():
        raise unknown_name("recipe or model", name, {*_by_name(), *list_models()})
    model = eqx.filter_eval_shape(lambda: create(name, key=jr.key(0)))
    task = LinearRegression(input_dim=model.input_dim, output_dim=model.output_dim)
    return Recipe(name=name, model=name, task=task, description=f"The model {name!r}, trained by the default protocol.")
