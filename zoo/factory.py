"""Models by name: how one joins the zoo, is made, and is made again.

A model joins with one decorator. It keeps the contract: every argument of `__init__` is keyword-only, all but `key`
have a default, and each can be read back from the model under its own name. That is what lets a checkpoint rebuild it.
`num_layers`, where there is one, counts layers with arrays of their own; what is applied again and again is counted in `num_loops`.
Each hyperparameter is checked by its annotation (see `zoo/checks/annotations.py`).
"""

from collections.abc import Callable, Iterable
from inspect import Parameter, signature
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from .checks.annotations import SIZE, checked
from .checks.gate import gated
from .checks.memory import check_result
from .checks.values import is_traced
from .errors import ConfigError, ContractError, ZooError, closest, said_by
from .registry import Registry

Model = TypeVar("Model", bound=type)


@gated
def register_model(name: str) -> Callable[[Model], Model]:
    """Class decorator: add a model to the zoo under `name`.

    **Raises** `ContractError` if the class breaks the contract or the name is taken.
    """
    return MODELS.register(name)


def check_contract(name: str, cls: type) -> type:
    """`cls`, its hyperparameters checked from now on. **Raises** `ContractError`, naming the clause, unless it can be rebuilt from its
    name and hyperparameters.
    """

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
    cls.__init__ = checked(cls.__init__, input_dim=SIZE, output_dim=SIZE)
    return cls


MODELS = Registry("model", group="iclzoo.models", folders=(f"{__package__}.models",), check=check_contract)


@gated
def list_models(pattern: str = "*") -> list[str]:
    """The names of all models, those of installed packages included; `pattern` may hold wildcards."""
    return MODELS.names(pattern)


@gated
def model_class(name: str) -> type:
    """The class registered under `name`. **Raises** `UnknownNameError`."""
    return MODELS[name]


def model_name(model: Any) -> str:
    """The name a model's class is registered under, or was before it was defined anew. **Raises** `ContractError` if there is none."""
    name = MODELS.name_of(type(model))
    if name is not None:
        return name
    raise ContractError(f"{type(model).__qualname__} is not registered; decorate it with @iclzoo.register_model(name)")


@gated
def create(name: str, *, key: PRNGKeyArray, **hyperparameters: Any) -> Any:
    """A fresh, untrained model.

    **Raises** `UnknownNameError` for an unknown model, `ConfigError` for a hyperparameter that is misspelt, of the wrong type or out of
    range, and for a model that would not fit into the machine's memory.
    """
    cls = check_hyperparameters(name, hyperparameters)

    def build(key: PRNGKeyArray) -> Any:
        try:
            return cls(**hyperparameters, key=key)
        except ZooError:
            raise
        except (TypeError, ValueError, ArithmeticError, NotImplementedError) as error:
            chosen = ", ".join(f"{given} = {value!r:.60}" for given, value in hyperparameters.items())
            raise ConfigError(
                f"model {name!r} cannot be built with {chosen or 'its defaults'}: {said_by(error)}"
            ) from error

    if not is_traced(key):  # where it is one, shapes alone are asked for
        sizes = ", ".join(
            f"{given} {value}" for given, value in hyperparameters.items() if isinstance(value, int | np.integer)
        )
        check_result(f"model {name!r} of {sizes or 'its default sizes'}", lambda: build(jax.random.key(0)))
    model = build(key)
    for hyperparameter, value in hyperparameters.items():
        stored = getattr(model, hyperparameter)
        if value is not None and not np.array_equal(stored, value):
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


def check_hyperparameters(name: str, hyperparameters: Iterable[str]) -> type:
    """The class registered under `name`. **Raises** `UnknownNameError` if there is none, `ConfigError` for a hyperparameter it has not."""
    cls = model_class(name)
    known = _init_parameters(cls).keys() - {"key"}
    for given in hyperparameters:
        if given not in known:
            raise ConfigError(f"model {name!r} has no hyperparameter {given!r:.60}; {closest(given, known)}")
    return cls


def hyperparameters(model: Any) -> dict[str, Any]:
    """The arguments of `create` that rebuild the architecture of `model`."""
    return {name: getattr(model, name) for name in _init_parameters(type(model)) if name != "key"}


def _init_parameters(cls: type) -> dict[str, Parameter]:
    parameters = dict(signature(cls.__init__).parameters)
    parameters.pop("self", None)
    return parameters
