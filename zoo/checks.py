"""What comes in at the door: each check gives a value back as plain Python has it, or says what was expected and what came.

Traced values, which have no value yet, are let through where a setting may be an array.
"""

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from .errors import ConfigError, closest

MAX_SEED = 2**32 - 1


def whole_number(name: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """`value` as an `int`: Python's and NumPy's whole numbers, but no truth value and no float.

    **Raises** `ConfigError`, naming the setting, the value and the range.
    """
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise _refused(name, f"a whole number{_range(least, most)}", value) from None
    if (least is not None and number < least) or (most is not None and number > most):
        raise _refused(name, f"a whole number{_range(least, most)}", value)
    return number


def seed(name: str, value: Any) -> int:
    """`value` as a seed: a whole number from 0 to 2³² − 1. **Raises** `ConfigError`."""
    return whole_number(name, value, 0, MAX_SEED)


def real_number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> float:
    """`value` as a `float`: finite, above or at least one bound, and below or at most the other.

    **Raises** `ConfigError`, naming the setting, the value and the range.
    """
    bounds = [f"{word} {bound:g}" for word, bound in _bounds(above, least, below, most)]
    expected = f"a finite number{' ' if bounds else ''}{' and '.join(bounds)}"
    try:
        if isinstance(value, bool | np.bool_ | str | bytes) or np.ndim(value) or np.iscomplexobj(value):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise _refused(name, expected, value) from None
    if not (
        np.isfinite(number)
        and (above is None or number > above)
        and (least is None or number >= least)
        and (below is None or number < below)
        and (most is None or number <= most)
    ):
        raise _refused(name, expected, value)
    return number


def truth_value(name: str, value: Any) -> bool:
    """`value` as a `bool`. **Raises** `ConfigError` for anything but True and False."""
    if not isinstance(value, bool | np.bool_):
        raise _refused(name, "True or False", value)
    return bool(value)


def one_of(name: str, value: Any, choices: Iterable[str]) -> str:
    """`value`, where it is one of the names in `choices`. **Raises** `ConfigError`, with the closest of them."""
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        hint = f"; {closest(value, choices)}" if isinstance(value, str) else ""
        raise _refused(name, f"one of {', '.join(map(repr, choices))}", value, hint)
    return value


def _range(least: int | None, most: int | None) -> str:
    if most is None:
        return "" if least is None else f" of at least {least}"
    return f" of at most {most}" if least is None else f" from {least} to {most}"


def _bounds(above: float | None, least: float | None, below: float | None, most: float | None):
    named = (("above", above), ("of at least", least), ("below", below), ("of at most", most))
    return [(word, bound) for word, bound in named if bound is not None]


def _refused(name: str, expected: str, value: Any, hint: str = "") -> ConfigError:
    return ConfigError(f"{name} must be {expected}, got {value!r:.60}{hint}")
