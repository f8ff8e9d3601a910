"""Tables for people: plain text in rows and columns, drawn at the end for a terminal or a page."""

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from ..zoo.text import printable

if TYPE_CHECKING:
    import rich.table

Row = tuple[str, ...]


@dataclass
class Table:
    """A title, the headers of its columns, empty where it has none, and rows of plain text: nothing in it is markup."""

    title: str
    columns: Row
    rows: list[Row] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Add a row."""
        self.rows.append(cells)

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
