"""What an instrument returns: numbers that draw themselves, and go home as a table, as records and as plain data."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..zoo.errors import NotApplicable
from ..zoo.table import Table
from .estimates.estimate import Estimate
from .estimates.plain import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

Row = Mapping[str, Any]  # by column: plain values, arrays of one entry, and estimates
MOST_ENTRIES = 4  # of a repr
DPI = 100  # of a picture in a notebook


@dataclass(frozen=True)
class About:
    """What a measurement is of, as pictures and tables say it.

    `note` says where the learner was measured on another task than that of its card.
    """

    learner: str = "learner"
    other: str = ""
    note: str = ""


class Measurement:
    """Interface: the answer of an instrument, a frozen dataclass of its numbers.

    A measurement says its `rows`, a `summary` and how it is drawn; from these come the picture, the table and the records. It shows its
    picture as the last line of a notebook cell.
    """

    title: ClassVar[str] = ""  # of its table

    @property
    def about(self) -> About:
        """What was measured."""
        return vars(self).get("about_", About())

    def said_of(self, about: About) -> None:
        """Keep what was measured beside the numbers; it is no part of them."""
        vars(self)["about_"] = about

    @property
    def summary(self) -> str:
        """What the picture shows, in a sentence, for who cannot see it."""
        raise NotImplementedError

    def rows(self) -> Sequence[Row]:
        """One tidy table: a mapping from column to value a row."""
        raise NotImplementedError

    def plot(self, **options: Any) -> "Axes | Figure | SubFigure":
        """Draw it; returns what was drawn on."""
        raise NotImplementedError

    def film(self, format: str) -> bytes:
        """A moving picture, where the instrument has one."""
        raise NotApplicable(f"{type(self).__name__} has no moving picture")

    def table(self) -> Table:
        """The table that the command line prints."""
        return table_of(self.title or type(self).__name__, self.rows())

    def tables(self) -> tuple[Table, ...]:
        """All its tables, where it has more than one."""
        return (self.table(),)

    def records(self) -> list[dict[str, Any]]:
        """The same rows as plain values, ready for `pandas.DataFrame`; an estimate is two columns, `name` and `name_standard_error`."""
        return [dict(_flat(row)) for row in self.rows()]

    def to_dict(self) -> dict[str, Any]:
        """All numbers as JSON holds them, and what they are of."""
        return {"about": plain(self.about), **plain(self)}

    def __repr__(self) -> str:
        rows = self.rows()
        entries = [f"{name} {cell(value)}" for name, value in rows[0].items()][:MOST_ENTRIES] if rows else []
        of = self.about.learner + (f" and {self.about.other}" if self.about.other else "")
        more = f", … ({len(rows)} rows)" if len(rows) > 1 else ""
        return f"<{type(self).__name__} of {of}: {', '.join(entries)}{more}>"

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=io.StringIO(), width=160)
        console.print(*(table.shortened() for table in self.tables()))
        return console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]

    def _repr_png_(self) -> bytes:
        """The picture, as a notebook shows it."""
        from .pictures.style import drawn, figure_of

        return drawn(figure_of(self.plot()), "png", dpi=DPI)


class OnAxes(Measurement):
    """A measurement whose picture is one panel."""

    size: ClassVar[tuple[float, float]] = (5.6, 3.8)  # inches, of a figure of its own

    def draw(self, ax: "Axes", **options: Any) -> None:
        """Draw on these axes, and nowhere else."""
        raise NotImplementedError

    def plot(self, *, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Draw on `ax`, or on a figure of its own; returns the Axes."""
        from .pictures.style import new_axes, noted_axes, our_style

        with our_style():
            ax = new_axes(self.size) if ax is None else ax
            self.draw(ax, **options)
            return noted_axes(ax, self.about.note)


class OnFigure(Measurement):
    """A measurement whose picture is several panels."""

    def draw(self, figure: "Figure | SubFigure | None", **options: Any) -> "Figure | SubFigure":
        """Draw on `figure`, or make one; returns it."""
        raise NotImplementedError

    def plot(self, *, figure: "Figure | SubFigure | None" = None, **options: Any) -> "Figure | SubFigure":
        """Draw on `figure`, a Figure or a SubFigure without anything on it yet, or on one of its own; returns it."""
        from .pictures.style import noted_figure

        return noted_figure(self.draw(figure, **options), self.about.note)


def _flat(row: Row) -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for name, value in row.items():
        if isinstance(value, Estimate):
            flat += [(name, value.value), (f"{name}_standard_error", value.standard_error)]
        else:
            flat.append((name, value.item() if isinstance(value, np.generic) else value))
    return flat


def table_of(title: str, rows: Sequence[Row]) -> Table:
    """Rows as people read them, a column for each name that occurs."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    table = Table(title, tuple(columns))
    for row in rows:
        table.add(*(cell(row[name]) if name in row else "" for name in columns))
    return table


def cell(value: Any) -> str:
    """A value as people read it: four digits, an estimate with its error, and "undefined" for what is none."""
    if isinstance(value, Estimate):
        return value.text()
    if value is None:
        return "undefined"
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
