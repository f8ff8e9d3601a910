"""Settings are checked by their annotations, at the door of the class or function that takes them.

| annotation                              | what is let in                                    |
|-----------------------------------------|---------------------------------------------------|
| `int`, `float`, `bool`, `str`           | that type, NumPy's scalars of it among them       |
| `Literal["a", "b"]`                     | one of the names                                  |
| a dataclass, or a union of them         | an instance                                       |
| `tuple[X, ...]`, `Mapping[str, X]`      | each entry what X lets in                         |
| `Annotated[…, check]`                   | what the `Check` takes                            |
| `X \\| None`                             | what X lets in, or None                           |

Arguments without an annotation, or with any other, pass as they are, NumPy's scalars as Python's.
"""

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import wraps
from inspect import Parameter, signature
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, no_type_check

import numpy as np

from .values import MAX_REPEATS, MAX_SIZE, An, Check, Each, Named, OneOf, OrNone, Real, Text, Truth, Whole

Function = TypeVar("Function", bound=Callable)

SIZE = Whole(1, MAX_SIZE)
Size = Annotated[int, SIZE]
Repeats = Annotated[int, Whole(1, MAX_REPEATS)]  # of a layer
Steps = Annotated[int, Whole(0, MAX_REPEATS)]  # of an algorithm
InitScale = Annotated[float, Real(above=0, most=1e6)]
Clip = Annotated[float | None, OrNone(Real(above=0))]
Positive = Annotated[float, Real(above=0)]
InverseTemperature = Annotated[float, Real(least=0)]


def checked(function: Function, **more: Check) -> Function:
    """Decorator: every argument is brought into its plain form by the check of its annotation, or of its name in `more`.

    **Raises** `ConfigError`, when called, naming the setting, its value and what is allowed.
    """
    parameters = _parameters(function)
    checks = {name: more.get(name) or check_of(parameter.annotation) for name, parameter in parameters.items()}
    in_order = [name for name, parameter in parameters.items() if parameter.kind is not Parameter.KEYWORD_ONLY]

    def plain(name: str, value: Any) -> Any:
        check = checks.get(name)
        if check is not None:
            return check(name, value)
        return value.item() if isinstance(value, np.generic) else value

    @no_type_check  # a type checker at run time meets what the checks give, inside
    @wraps(function)
    def checking(*args, **kwargs):
        first = [plain(name, value) for name, value in zip(in_order, args, strict=False)]
        return function(*first, *args[len(first) :], **{name: plain(name, value) for name, value in kwargs.items()})

    return checking  # pyright: ignore[reportReturnType]


def _parameters(function: Callable) -> Mapping[str, Parameter]:
    try:
        return signature(function, eval_str=True).parameters
    except (
        NameError,
        AttributeError,
        SyntaxError,
        TypeError,
    ):  # a string that names what only type checkers know
        return signature(function).parameters


def check_of(annotation: Any) -> Check | None:
    """The check that an annotation stands for; `None` where it stands for none."""
    arguments, origin = get_args(annotation), get_origin(annotation)
    if isinstance(annotation, type) and annotation in _PLAIN:
        return _PLAIN[annotation]
    if origin is Annotated:
        checks = [entry for entry in annotation.__metadata__ if isinstance(entry, Check)]
        return checks[0] if checks else check_of(arguments[0])
    if origin is Literal:
        return OneOf(arguments) if all(isinstance(entry, str) for entry in arguments) else None
    if origin in (UnionType, Union):
        return _of_union([entry for entry in arguments if entry is not NoneType], NoneType in arguments)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        each = check_of(arguments[0])
        return None if each is None else Each(each)
    if origin is Mapping and arguments and arguments[0] is str:
        return Named(check_of(arguments[1]))
    if isinstance(annotation, type) and is_dataclass(annotation):
        return An((annotation,))
    return None


_PLAIN: dict[Any, Check] = {int: Whole(), float: Real(), bool: Truth(), str: Text()}


def _of_union(members: list[Any], optional: bool) -> Check | None:
    checks = [check_of(member) for member in members]
    classes = [cls for check in checks if isinstance(check, An) for cls in check.classes]
    if len(checks) == 1:
        check = checks[0]
    elif checks == [_PLAIN[int], _PLAIN[float]] or checks == [_PLAIN[float], _PLAIN[int]]:
        check = _PLAIN[float]
    else:
        check = An(tuple(classes)) if len(classes) == len(checks) else None
    return OrNone(check) if check is not None and optional else check
