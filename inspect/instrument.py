"""Instruments: questions to a learner, by name, whoever wrote them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

from ..zoo.checks.gate import gate
from ..zoo.checks.values import Text, Whole
from ..zoo.errors import ContractError
from ..zoo.registry import Registry
from .subject import Subject
from .table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_HEADS = 8  # on a page
LAST = 1000


@dataclass(frozen=True)
class Content:
    """What an instrument shows of a subject."""

    figure: "Figure | Any | None" = None
    alternative: str = ""  # the figure in words, for who cannot see it
    numbers: Any = None  # a dataclass, or a container of them
    tables: tuple[Table, ...] = ()


class Instrument:
    """A question to a learner: called with a `Subject`, it gives its `Content`, or raises `NotApplicable` with the reason."""

    def __init__(self, name: str, title: str, question: str, measure: Callable[[Subject], Content], order: int = LAST):
        self.name, self.title, self.question, self.measure, self.order = name, title, question, measure, order
        update_wrapper(self, measure)

    def __call__(self, subject: Subject) -> Content:
        return self.measure(subject)

    def __repr__(self) -> str:
        return f"<instrument {self.name!r}: {self.title}>"


def _check(name: str, instrument: Any) -> Instrument:
    if not callable(getattr(instrument, "measure", None)):
        raise ContractError(
            f"the instrument {name!r} must be a function of a subject, decorated with @register_instrument"
        )
    return instrument


INSTRUMENTS = Registry("instrument", group="iclzoo.instruments", folder=f"{__package__}.instruments", check=_check)


@gate(title=Text(), question=Text(), order=Whole(0))
def register_instrument(
    name: str, *, title: str = "", question: str, order: int = LAST
) -> Callable[[Callable[[Subject], Content]], Instrument]:
    """Decorator: add a function that takes a `Subject` and returns its `Content` to the instruments.

    Args:
        name: as it is called at the command line, and its files in a report.
        title: of its section in a report; the name unless given.
        question: what it asks, and how to read the answer, in a sentence or two.
        order: its place in a report; those of others come last, by name.

    Raises:
        ContractError: the name is taken.
    """
    return lambda measure: INSTRUMENTS.register(name)(Instrument(name, title or name, question, measure, order))


def instruments() -> list[Instrument]:
    """Every instrument, in the order of a report."""
    return sorted(INSTRUMENTS.items().values(), key=lambda one: (one.order, one.name))
