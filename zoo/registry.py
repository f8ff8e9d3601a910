"""The models of the zoo, by name.

A model joins the zoo with one decorator. It keeps the contract: every argument of `__init__` is keyword-only, all but `key`
have a default, and each can be read back from the model under its own name. That is what lets a checkpoint rebuild it.
`num_layers`, where there is one, counts layers with arrays of their own; what is applied again and again is counted in `num_loops`.
"""

from collections.abc import Callable
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.metadata import entry_points
from inspect import Parameter, formatannotation, signature
from pkgutil import iter_modules
from types import UnionType
from typing import Any, TypeVar

import equinox as eqx
import jax
from jaxtyping import PRNGKeyArray

from .errors import ConfigError, ContractError, closest, unknown_name
from .gate import checked

Model = TypeVar("Model", bound=type)

ENTRY_POINT_GROUP = "iclzoo.models"
_models: dict[str, type] = {}
_discovered = False


@checked
def register(name: str) -> Callable[[Model], Model]:
    """Class decorator: add a model to the zoo under `name`.

    **Raises** `ContractError` if the class breaks the contract or the name is taken.
    """

    def add(cls: Model) -> Model:
        check_contract(name, cls)
        taken = _models.get(name)
        if taken is not None and (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ContractError(
                f"the name {name!r} already belongs to {taken.__module__}.{taken.__qualname__}; choose another"
            )
        _models[name] = cls
        return cls

    return add


def check_contract(name: str, cls: type) -> None:
    """`ContractError`, naming the clause, unless `cls` can be rebuilt from its name and hyperparameters."""

    def require(condition: bool, clause: str) -> None:
        if not condition:
            raise ContractError(f"model {name!r} ({cls.__qualname__}) breaks the contract: {clause}")

    require(issubclass(cls, eqx.Module), "it must be an equinox.Module")
    require(any("__call__" in vars(base) for base in cls.__mro__), "it must define __call__(prompt) -> prediction")
    parameters = _init_parameters(cls)
    for needed in ("key", "input_dim", "output_dim"):
        require(needed in parameters, f"__init__ must take a keyword-only `{needed}`")
    for parameter in parameters.values():
        require(
            parameter.kind is Parameter.KEYWORD_ONLY,
            f"every argument of __init__ must be keyword-only (write `*` first), but `{parameter.name}` is not",
        )
        required = parameter.default is Parameter.empty
        if parameter.name == "key":
            require(required, "`key` must have no default")
        else:
            require(not required, f"every hyperparameter must have a default, but `{parameter.name}` has none")
            known = hasattr(cls, parameter.name) or any(
                parameter.name in base.__annotations__ for base in cls.__mro__[:-1]
            )
            require(known, f"the hyperparameter `{parameter.name}` must be a field or property of the model")


@checked
def list_models(pattern: str = "*") -> list[str]:
    """The names of all models, those of installed packages included; `pattern` may hold wildcards."""
    _discover()
    return sorted(name for name in _models if fnmatchcase(name, pattern))


@checked
def model_class(name: str) -> type:
    """The class registered under `name`. **Raises** `UnknownNameError`."""
    _discover()
    if name not in _models:
        raise unknown_name("model", name, _models)
    return _models[name]


def model_name(model: Any) -> str:
    """The name a model's class is registered under. **Raises** `ContractError` if it is not registered."""
    _discover()
    for name, cls in _models.items():
        if type(model) is cls:
            return name
    raise ContractError(f"{type(model).__qualname__} is not registered; decorate it with @iclzoo.register(name)")


@checked
def create(name: str, *, key: PRNGKeyArray, **hyperparameters: Any) -> Any:
    """A fresh, untrained model.

    **Raises** `UnknownNameError` for an unknown model, `ConfigError` for a hyperparameter that is misspelt or of the wrong type.
    """
    cls = model_class(name)
    known = {name: parameter for name, parameter in _init_parameters(cls).items() if name != "key"}
    for given, value in hyperparameters.items():
        if given not in known:
            raise ConfigError(f"model {name!r} has no hyperparameter {given!r:.60}; {closest(given, known)}")
        if not _fits(value, known[given].annotation):
            wanted = formatannotation(known[given].annotation)
            raise ConfigError(f"the hyperparameter {given!r} of model {name!r} must be {wanted}, got {value!r:.60}")
    model = cls(**hyperparameters, key=key)
    for hyperparameter, value in hyperparameters.items():
        stored = getattr(model, hyperparameter)
        if value is not None and stored != value:
            raise ContractError(
                f"model {name!r} ({cls.__qualname__}) breaks the contract: "
                f"the hyperparameter `{hyperparameter}` was given as {value!r} and reads back as {stored!r}"
            )
    if getattr(model, "num_layers", 0) > len(jax.tree.leaves(model)):
        raise ContractError(
            f"model {name!r} ({cls.__qualname__}) breaks the contract: "
            "num_layers counts layers with arrays of their own; call repetitions num_loops"
        )
    return model


def hyperparameters(model: Any) -> dict[str, Any]:
    """The arguments of `create` that rebuild the architecture of `model`."""
    return {name: getattr(model, name) for name in _init_parameters(type(model)) if name != "key"}


def _init_parameters(cls: type) -> dict[str, Parameter]:
    parameters = dict(signature(cls.__init__).parameters)
    parameters.pop("self", None)
    return parameters


def _fits(value: Any, annotation: Any) -> bool:
    """Whether a hyperparameter has the type its model asks for, where that is a plain type: a whole number is a float, too."""
    if annotation is Parameter.empty or not isinstance(annotation, type | UnionType):
        return True
    try:
        return isinstance(value, annotation) or (isinstance(value, int) and isinstance(0.0, annotation))
    except TypeError:  # a union of types with arguments
        return True


def _discover() -> None:
    """Import every module of `zoo/models`, and the packages that add models through the entry-point group."""
    global _discovered
    if not _discovered:
        _discovered = True
        package = import_module(f"{__package__}.models")
        for module in iter_modules(package.__path__, f"{package.__name__}."):
            import_module(module.name)
        for plugin in entry_points(group=ENTRY_POINT_GROUP):
            plugin.load()
