"""Tables for people: plain text in rows and columns, drawn at the end for a terminal or a page."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from .errors import ShapeError
from .text import printable

if TYPE_CHECKING:
    import rich.table

Row = tuple[str, ...]
MOST_ROWS = 40  # on a terminal


@dataclass
class Table:
    """A title, the headers of its columns, empty where it has none, and rows of plain text: nothing in it is markup."""

    title: str
    columns: Row
    rows: list[Row] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Add a row. **Raises** `ShapeError` unless it has a cell for each column."""
        if len(cells) != len(self.columns):
            raise ShapeError(f"a row of {self.title!r} has {len(self.columns)} cells, got {len(cells)}")
        self.rows.append(cells)

    def shortened(self, most: int = MOST_ROWS) -> "Table":
        """The table with its middle left out where it is long, and said so."""
        left_out = len(self.rows) - most
        if left_out <= 0:
            return self
        first, blank = self.rows[: most // 2], [""] * (len(self.columns) - 1)
        return Table(
            self.title,
            self.columns,
            [*first, (f"… {left_out} more rows", *blank), *self.rows[len(self.rows) - most // 2 :]],
        )

    @property
    def header(self) -> Row:
        """The headers of the columns, where there are any."""
        return self.columns if any(self.columns) else ()

    def __rich__(self) -> "rich.table.Table":
        """The table as the terminal shows it."""
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        title = Text(printable(self.title), "bold") if self.title else None
        table = RichTable(title=title, box=box.MARKDOWN, title_justify="left", show_header=bool(self.header))
        for column in self.columns:
            table.add_column(Text(printable(column)), overflow="fold")
        for row in self.rows:
            table.add_row(*(Text(printable(cell)) for cell in row))
        return table

    def _repr_html_(self) -> str:
        """The table as a notebook shows it."""
        head = "".join(f"<th>{escape(cell)}</th>" for cell in self.header)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self.rows)
        return (
            f"<table><caption>{escape(self.title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )


def settings_table(title: str, settings: Mapping[str, Any]) -> Table:
    """Settings by name, a row each, those that are empty left out."""
    table = Table(title, ("", ""))
    for name, value in settings.items():
        if value not in (None, "", {}, [], ()):
            table.add(name, value_text(value))
    return table


def call_text(name: str, arguments: Mapping[str, Any]) -> str:
    """`name(argument=value, …)`, settings written alike."""
    return f"{name}({', '.join(f'{argument}={value_text(value)}' for argument, value in arguments.items())})"


def value_text(value: Any) -> str:
    """Plain data as people read it: a setting as the call that makes it, a number to six digits."""
    if isinstance(value, Mapping):
        return call_text(str(value.get("kind", "")), {name: entry for name, entry in value.items() if name != "kind"})
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(value_text, value))}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def as_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """Records as CSV, a header first; what is `None` is left empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in records for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()
