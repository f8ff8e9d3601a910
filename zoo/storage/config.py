"""Settings as plain data: how a task or a recipe is written on a card and read back.

Every class of settings is a dataclass with a `kind`; nested settings are nested objects. A misspelt or missing entry is an
error that names the closest right one, and each value is checked by the annotation of its field (see `zoo/checks/annotations.py`).
"""

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from ..checks.annotations import checked
from ..errors import ConfigError, ZooError, closest, said_by
from ..frozen import Frozen
from ..registry import Registry

Settings = TypeVar("Settings")


@checked
def setting(kind: str, *, formerly: tuple[str, ...] = ()) -> Callable[[type[Settings]], type[Settings]]:
    """Class decorator: let a dataclass be written on cards as `kind`, and check its settings wherever it is made. Cards may hold
    the kinds it had `formerly`, too.

    **Raises** `ConfigError` if the class is no dataclass, `ContractError` if the kind is taken.
    """
    return SETTINGS.register(kind, formerly=formerly)


def _check(kind: str, cls: type) -> type:
    if not is_dataclass(cls):
        raise ConfigError(f"the setting {kind!r} must be a dataclass, got {cls.__qualname__}")
    cls.__init__ = checked(cls.__init__)
    return cls


# Kinds are unique among all settings: a card says only `{"kind": "uniform"}`. Those of other packages are tasks, inputs and teachers.
SETTINGS = Registry("kind of setting", group="iclzoo.tasks", check=_check)


def settings_repr(self: Any) -> str:
    """The call that makes a setting, with all its entries."""
    entries = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self))
    return f"{type(self).__name__}({entries})"


def to_config(value: Any) -> Any:
    """`value` as JSON holds it: numbers, strings, lists, and an object for each setting."""
    if isinstance(value, Frozen):
        return to_config(value.value)
    if is_dataclass(value) and not isinstance(value, type):
        kind = SETTINGS.name_of(type(value))
        if kind is None:
            raise ConfigError(f"{type(value).__qualname__} is no setting; decorate it with @setting(kind)")
        return {"kind": kind} | {entry.name: to_config(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, dict):
        return {str(name): to_config(entry) for name, entry in value.items()}
    if isinstance(value, tuple | list):
        return [to_config(entry) for entry in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return np.asarray(value).tolist()


def from_config(config: Any) -> Any:
    """The setting written as `config`. **Raises** `ConfigError`, or `UnknownNameError` for an unknown kind."""
    if isinstance(config, list | tuple):
        return tuple(from_config(entry) for entry in config)
    if not isinstance(config, dict):
        return config
    if "kind" not in config:
        return {name: from_config(entry) for name, entry in config.items()}
    kind = config["kind"]
    if not isinstance(kind, str):
        raise ConfigError(f"the kind of a setting must be a text, got {kind!r:.60}")
    cls = SETTINGS[kind]
    known = {entry.name: entry for entry in fields(cls)}
    given = {name: from_config(entry) for name, entry in config.items() if name != "kind"}
    for name in given:
        if name not in known:
            raise ConfigError(f"a {kind} has no setting {name!r:.60}; {closest(name, known)}")
    for name, entry in known.items():
        if name not in given and entry.default is MISSING and entry.default_factory is MISSING:
            raise ConfigError(f"a {kind} needs the setting {name!r}")
    try:
        return cls(**given)
    except ZooError:
        raise
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ConfigError(f"these settings make no {kind}: {said_by(error)}") from None
