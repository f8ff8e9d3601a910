"""Where a class comes from: what is defined anew under the same name in the same module, as by a cell that is run twice, is the same."""

from collections.abc import Mapping

from .errors import ContractError


def origin(cls: type) -> tuple[str, str]:
    """The module of a class and its name there."""
    return cls.__module__, cls.__qualname__


def name_of(cls: type, known: Mapping[str, type]) -> str | None:
    """The name under which `cls`, or the class it was before it was defined anew, is known."""
    return next((name for name, other in known.items() if origin(other) == origin(cls)), None)


def check_free(kind: str, name: str, cls: type, known: Mapping[str, type]) -> None:
    """`ContractError` if `name` belongs to a class of another origin."""
    taken = known.get(name)
    if taken is not None and origin(taken) != origin(cls):
        raise ContractError(f"the {kind} {name!r} already belongs to {'.'.join(origin(taken))}; choose another")
