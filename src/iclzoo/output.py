"""What the command line prints and writes. Results go to standard output, everything about the work to standard error."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .zoo.errors import ZooError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .inspect.verify import Check

# A file or a pipe has no width: tables stay whole there.
_out, _err = Console(width=None if sys.stdout.isatty() else 160), Console(stderr=True)
_MARKS = {True: "[green]pass[/]", False: "[red]FAIL[/]", None: "[yellow]skip[/]"}


def show(*renderables: RenderableType) -> None:
    """Print tables and text."""
    for renderable in renderables:
        _out.print(renderable)


def say(text: str) -> None:
    """A word about the work."""
    _err.print(text, highlight=False, markup=False, soft_wrap=True)


def show_check(check: "Check") -> None:
    """One line of `iclzoo verify`."""
    _out.print(f"  {_MARKS[check.passed]} [bold]{check.what:<8}[/]", end=" ", highlight=False)
    _out.print(check.detail, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def working(text: str) -> Iterator[None]:
    """A spinner while something takes its time."""
    with _err.status(text):
        yield


@contextmanager
def counted(total: int, text: str) -> Iterator[Callable[[str], None]]:
    """A bar over `total` pieces of work; yields a function that is told each piece as it begins."""
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[piece]}"),
    )
    with Progress(*columns, TimeElapsedColumn(), console=_err) as bar:
        task = bar.add_task(text, total=total, completed=-1, piece="")
        yield lambda piece: bar.update(task, advance=1, piece=piece)
        bar.update(task, completed=total, piece="")


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure, making its folder if need be. **Raises** `ZooError` for a format that cannot be written."""
    formats = sorted(figure.canvas.get_supported_filetypes())
    if path.suffix.removeprefix(".").lower() not in formats:
        raise ZooError(f"cannot write {str(path)!r}: the name must end in one of .{', .'.join(formats)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    say(f"wrote {path}")
