"""What comes in at the door: each check gives a value back as plain Python has it, or says what was expected and what came.

`Whole(1, 5)("num_heads", value)` is the check of one setting; written into an annotation, as in `Annotated[int, Whole(1, 5)]`, it is
applied by `zoo/checks/annotations.py`. Traced values, which have no value yet, are let through where a setting may be an array.
"""

import numbers
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConfigError, nearest

if TYPE_CHECKING:
    import jax
    from typing_extensions import TypeIs

Bound = float | int | None

MAX_SEED = 2**32 - 1
MAX_TASKS = 10**9  # to measure on
MAX_MEMBERS = MAX_DEVICES = 1024  # of an ensemble; of one machine
MAX_SIZE = 2**31 - 1  # what a 32-bit index counts
MAX_REPEATS = 10_000  # of a layer or a step: each is a piece of the compiled program


def whole_number(name: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """`value` as an `int`: Python's and NumPy's whole numbers, but no truth value and no float.

    **Raises** `ConfigError`, naming the setting, the value and the range.
    """
    return Whole(least, most)(name, value)


def seed(name: str, value: Any) -> int:
    """`value` as a seed: a whole number from 0 to 2³² − 1. **Raises** `ConfigError`."""
    return whole_number(name, value, 0, MAX_SEED)


def one_of(name: str, value: Any, choices: Iterable[str]) -> str:
    """`value`, where it is one of the names in `choices`. **Raises** `ConfigError`, with the closest of them."""
    return OneOf(tuple(choices))(name, value)


class Check(ABC):
    """Interface: what a setting may be."""

    @property
    @abstractmethod
    def expected(self) -> str:
        """The part of a message after "must be"."""

    @abstractmethod
    def take(self, value: Any) -> Any:
        """`value` in its plain form. **Raises** `TypeError`, `ValueError` or `ArithmeticError` for what is not expected."""

    def hint(self, value: Any) -> str:
        """The part of a message that helps with a value that was refused."""
        return ""

    def __repr__(self) -> str:
        return f"<{self.expected}>"  # as the signature of what is checked shows it

    def __call__(self, name: str, value: Any) -> Any:
        """`value` in its plain form. **Raises** `ConfigError`, naming the setting, the value and what is allowed."""
        try:
            return self.take(value)
        except (TypeError, ValueError, ArithmeticError):
            hint = self.hint(value)
        raise ConfigError(f"{name} must be {self.expected}, got {shown(value)}{hint}") from None


@dataclass(frozen=True, repr=False)
class Whole(Check):
    """A whole number in a range: Python's or NumPy's, but no truth value and no float."""

    least: int | None = None
    most: int | None = None

    @property
    def expected(self) -> str:
        match self.least, self.most:
            case None, None:
                return "a whole number"
            case least, None:
                return f"a whole number of at least {least}"
            case None, most:
                return f"a whole number of at most {most}"
            case least, most:
                return f"a whole number from {least} to {most}"

    def take(self, value: Any) -> int:
        if isinstance(value, bool) or (hasattr(value, "dtype") and not _is_real(value)):
            raise TypeError
        number = operator.index(value)
        if (self.least is not None and number < self.least) or (self.most is not None and number > self.most):
            raise ValueError
        return number


@dataclass(frozen=True, repr=False)
class Real(Check):
    """A number within bounds that is finite, and within those that are strict, in single precision too."""

    above: Bound = None
    least: Bound = None
    below: Bound = None
    most: Bound = None
    infinite: bool = False  # is let in too

    @property
    def expected(self) -> str:
        named = (("above", self.above), ("of at least", self.least), ("below", self.below), ("of at most", self.most))
        bounds = [f"{word} {bound:g}" for word, bound in named if bound is not None]
        return " ".join([f"a {'' if self.infinite else 'finite '}number", " and ".join(bounds)]).strip()

    def take(self, value: Any) -> float:
        scalar = isinstance(value, numbers.Real) or (np.shape(value) == () and _is_real(np.asarray(value)))
        if isinstance(value, bool) or not scalar:
            raise TypeError
        number = float(value)
        with np.errstate(over="ignore", under="ignore"):
            single = float(np.float32(number))
        if not (
            (np.isfinite(single) or (self.infinite and not np.isnan(single)))
            and (self.above is None or min(number, single) > self.above)
            and (self.least is None or number >= self.least)
            and (self.below is None or max(number, single) < self.below)
            and (self.most is None or number <= self.most)
        ):
            raise ValueError
        return number


@dataclass(frozen=True, repr=False)
class Scalar(Real):
    """A `Real`, or a JAX array of one: an array stays one, so that a sweep over its values compiles once."""

    def take(self, value: Any) -> Any:
        if not is_jax_array(value):
            return super().take(value)
        if value.ndim or not _is_real(value):
            raise TypeError
        if not is_traced(value):
            super().take(value)
        return _floating(value)


@dataclass(frozen=True, repr=False)
class Reals(Check):
    """Finite numbers as a JAX array, of as many axes as one of `axes`."""

    what: str
    axes: tuple[int, ...]
    empty: bool = False  # is let in too

    @property
    def expected(self) -> str:
        return f"{self.what}, of finite numbers"

    def hint(self, value: Any) -> str:
        return f" of shape {value.shape}" if hasattr(value, "shape") else ""

    def take(self, value: Any) -> "jax.Array":
        import jax.numpy as jnp

        return _floating(jnp.asarray(self.fitting(value)))

    def fitting(self, value: Any) -> "np.ndarray | jax.Array":
        """`value` as an array, once it is found to be as expected."""
        if any(map(is_traced, _leaves(value))):
            import jax.numpy as jnp

            array = jnp.asarray(value)
        else:
            array = value if is_jax_array(value) else np.asarray(value)
        if array.ndim not in self.axes or not _is_real(array):
            raise TypeError
        if not is_traced(array):
            with np.errstate(over="ignore", under="ignore"):
                single = np.asarray(array, np.float32)
            if not (single.size or self.empty) or not np.isfinite(single).all():
                raise ValueError
        return array


@dataclass(frozen=True, repr=False)
class PlainReals(Reals):
    """`Reals` as a card holds them: a number or nested tuples; a JAX array stays one, so that a sweep over its values compiles once."""

    def take(self, value: Any) -> Any:
        array = self.fitting(value)
        return _floating(array) if is_jax_array(array) else _in_tuples(np.asarray(array, float).tolist())


@dataclass(frozen=True, repr=False)
class Truth(Check):
    """True or False."""

    @property
    def expected(self) -> str:
        return "True or False"

    def take(self, value: Any) -> bool:
        if not isinstance(value, bool | np.bool_):
            raise TypeError
        return bool(value)


@dataclass(frozen=True, repr=False)
class Text(Check):
    """A text that a file can hold."""

    @property
    def expected(self) -> str:
        return "a text"

    def take(self, value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError
        value.encode()
        return str(value)


@dataclass(frozen=True, repr=False)
class FileName(Text):
    """A text that can be the name of a folder."""

    most: int = 100

    @property
    def expected(self) -> str:
        return f"a name of 1 to {self.most} printable characters, not of dots alone, without / and \\"

    def take(self, value: Any) -> str:
        name = super().take(value)
        if not name.strip(". ") or not name.isprintable() or len(name) > self.most or set(name) & set("/\\"):
            raise ValueError
        return name


@dataclass(frozen=True, repr=False)
class OneOf(Check):
    """One of some names."""

    choices: tuple[str, ...]

    @property
    def expected(self) -> str:
        return f"one of {', '.join(map(repr, self.choices))}"

    def take(self, value: Any) -> str:
        if not isinstance(value, str) or value not in self.choices:
            raise ValueError
        return str(value)

    def hint(self, value: Any) -> str:
        near = nearest(value, self.choices) if isinstance(value, str) else ""
        return near and f"; {near}"


@dataclass(frozen=True, repr=False)
class An(Check):
    """An instance of one of some classes."""

    classes: tuple[type, ...]

    @property
    def expected(self) -> str:
        names = [leaf.__name__ for cls in self.classes for leaf in cls.__subclasses__() or [cls]]
        return f"of type {' or '.join(dict.fromkeys(names))}"

    def take(self, value: Any) -> Any:
        if not isinstance(value, self.classes):
            raise TypeError
        return value


@dataclass(frozen=True, repr=False)
class OrNone(Check):
    """What another check takes, or None."""

    check: Check

    @property
    def expected(self) -> str:
        return f"{self.check.expected} or None"

    def take(self, value: Any) -> Any:
        return None if value is None else self.check.take(value)

    def hint(self, value: Any) -> str:
        return self.check.hint(value)


@dataclass(frozen=True, repr=False)
class Each(Check):
    """A tuple, written as a list or a tuple, of what another check takes."""

    check: Check

    @property
    def expected(self) -> str:
        return f"a tuple, each entry {self.check.expected}"

    def take(self, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise TypeError
        return tuple(map(self.check.take, value))

    def hint(self, value: Any) -> str:
        hints = map(self.check.hint, value) if isinstance(value, list | tuple) else ()
        return next(filter(None, hints), "")


@dataclass(frozen=True, repr=False)
class Named(Check):
    """A mapping from texts to what another check takes, as a dictionary."""

    check: Check | None

    @property
    def expected(self) -> str:
        return f"a mapping from names to {'values' if self.check is None else self.check.expected}"

    def take(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise TypeError
        return {
            Text().take(key): entry if self.check is None else self.check.take(entry) for key, entry in value.items()
        }


def shown(value: Any) -> str:
    """`value` on one short line of a message."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a number of too many digits, an object whose `repr` fails
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:59]}…"


def is_traced(value: Any) -> bool:
    """Whether it has no value yet: it is an array of a function that is being compiled."""
    if not _is_of_jax(value):
        return False
    from jax.core import Tracer

    return isinstance(value, Tracer)


def is_jax_array(value: Any) -> "TypeIs[jax.Array]":
    """Whether it is an array of JAX, traced or not."""
    if not _is_of_jax(value):
        return False
    import jax

    return isinstance(value, jax.Array)


def _is_of_jax(value: Any) -> bool:
    """Whether its class is one of JAX: what is none is told apart without JAX, whose import takes a second."""
    return type(value).__module__.startswith("jax")


def _leaves(value: Any) -> Iterator[Any]:
    """What nested lists and tuples hold."""
    if isinstance(value, list | tuple):
        for entry in value:
            yield from _leaves(entry)
    else:
        yield value


def _is_real(array: Any) -> bool:
    """Whether an array holds whole or floating-point numbers."""
    import jax.numpy as jnp

    return jnp.issubdtype(array.dtype, jnp.integer) or jnp.issubdtype(array.dtype, jnp.floating)


def _floating(array: "jax.Array") -> "jax.Array":
    import jax.numpy as jnp

    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(jnp.result_type(float))


def _in_tuples(value: Any) -> Any:
    return tuple(map(_in_tuples, value)) if isinstance(value, list) else value
