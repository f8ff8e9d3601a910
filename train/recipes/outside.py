"""Recipes from outside: in a file, a module, or as JSON; and changes to the settings of any."""

import importlib
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from ...zoo.errors import ConfigError, UnknownNameError, ZooError, closest, said_by, unknown_name
from ...zoo.storage.card import parsed
from ...zoo.storage.config import from_config
from ...zoo.storage.files import read_file
from .recipe import Recipe

MOST_JSON_BYTES = 2**24


def is_reference(name: str) -> bool:
    """Whether this names a recipe by where it is, and not one of the zoo."""
    return ":" in name or name.endswith((".py", ".json"))


def outside_recipe(reference: str) -> Recipe:
    """The recipe that `FILE.py:RECIPE`, `FILE.py` with a single one, `package.module:RECIPE` or `FILE.json` holds."""
    if reference.endswith(".json"):
        return _from_json(Path(reference))
    place, _, name = reference.rpartition(":") if ":" in reference else (reference, "", "")
    module = import_file(Path(place)) if place.endswith(".py") else _imported(place)
    found = {one.name: one for one in getattr(module, "RECIPES", ()) if isinstance(one, Recipe)}
    found |= {variable: value for variable, value in vars(module).items() if isinstance(value, Recipe)}
    if not name:
        if len(set(map(id, found.values()))) != 1:
            raise ConfigError(
                f"{place} holds {len(found)} recipes; name one, as in {place}:{min(found, default='RECIPE')}"
            )
        return next(iter(found.values()))
    if name not in found:
        raise unknown_name(f"recipe of {place}", name, found)
    return found[name]


def import_file(path: Path) -> ModuleType:
    """The module that a file is, so that what it registers is there. The same file is imported once.

    **Raises** `ConfigError` for whatever happens in it.
    """
    place = Path(os.path.abspath(os.path.expanduser(path)))
    name = f"iclzoo_file_{place.stem}_{abs(hash(str(place))):x}"
    if name in sys.modules:
        return sys.modules[name]
    if not place.is_file():
        raise UnknownNameError(f"there is no file {path}")
    loader = SourceFileLoader(name, str(place))
    module = sys.modules[name] = module_from_spec(ModuleSpec(name, loader, origin=str(place)))
    module.__file__ = str(place)
    try:
        loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        del sys.modules[name]
        raise ConfigError(f"{path} cannot be imported: {type(error).__name__}: {said_by(error)}") from error
    return module


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ConfigError(f"{name} cannot be imported: {type(error).__name__}: {said_by(error)}") from error


def _from_json(path: Path) -> Recipe:
    """A recipe written as JSON: by itself, as a run's `run.json` has it, or as the training of a card."""
    try:
        config = parsed(read_file(path, MOST_JSON_BYTES).decode())
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no JSON: {said_by(error)}") from None
    except FileNotFoundError:
        raise UnknownNameError(f"there is no file {path}") from None
    for entry in ("recipe", "training"):
        if isinstance(config, dict) and isinstance(config.get(entry), dict):
            config = config[entry]
    try:
        found = from_config(config)
    except ZooError as error:
        raise type(error)(f"{path}: {error}") from None
    if not isinstance(found, Recipe):
        raise ConfigError(f"{path} holds no recipe, which is an object with the kind 'recipe'")
    return found


def changed(recipe: Recipe, settings: Iterable[str]) -> Recipe:
    """`recipe` with settings as on the command line, `optimiser.learning_rate=0.01`: a dotted name, and a value as JSON or text.

    **Raises** `ConfigError` for a setting that is not there, with the closest, or a value that it does not take.
    """
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(
                f"a setting is written NAME=VALUE, as in optimiser.learning_rate=0.01; got {setting!r:.60}"
            )
        recipe = _with(recipe, name.strip().split("."), _value(value), name)
    return recipe


def _value(text: str) -> Any:
    try:
        return from_config(json.loads(text))
    except ValueError:
        return text


def _with(holder: Any, path: list[str], value: Any, name: str) -> Any:
    first, *rest = path
    if isinstance(holder, dict):
        return holder | {first: _with(holder.get(first, {}), rest, value, name) if rest else value}
    known = [entry.name for entry in fields(holder)] if is_dataclass(holder) and not isinstance(holder, type) else []
    if first not in known:
        raise ConfigError(f"there is no setting {name!r:.60} of a {type(holder).__name__}; {closest(first, known)}")
    return replace(holder, **{first: _with(getattr(holder, first), rest, value, name) if rest else value})  # pyright: ignore[reportArgumentType]
