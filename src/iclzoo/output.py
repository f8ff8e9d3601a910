"""What the command line prints and writes. Results go to standard output, everything about the work to standard error."""

import io
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.text import Text

from .train.progress import plain_column, work_console
from .zoo.errors import ZooError, ZooWarning
from .zoo.text import one_line, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .inspect.measurement import Measurement
    from .inspect.verify import Check

FORMATS = ("png", "svg", "pdf", "jpg", "jpeg", "webp", "tif", "tiff", "eps", "ps", "svgz")
NUMBERS = ("csv", "json")
_err = work_console()
_MARKS = {True: ("pass", "green"), False: ("FAIL", "red"), None: ("skip", "yellow")}


def open_streams() -> None:
    """Make the standard streams fit to write to: a closed one leads nowhere, and what one cannot show is replaced."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:  # closed: the next file that is opened would get its number, and what is meant for the stream
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(descriptor, "w" if descriptor else "r", encoding="utf-8", closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def leave_streams() -> None:
    """Let go of what the standard streams still hold but cannot write, or Python would complain of it as it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def show(*renderables: RenderableType) -> None:
    """Print tables, and text as it is: nothing in it is markup."""
    # A file or a pipe has no width: tables stay whole there.
    console = Console(width=None if sys.stdout.isatty() else 160)
    for renderable in renderables:
        console.print(Text(printable(renderable)) if isinstance(renderable, str) else renderable)


def write_out(text: str) -> None:
    """Text for another program, as it is."""
    sys.stdout.write(text)


def say(text: str) -> None:
    """A word about the work, on one line."""
    _err.print(Text(printable(text).replace("\n", r"\n")), soft_wrap=True)


def complain(text: str) -> None:
    """An error, on one line."""
    say(f"iclzoo: {one_line(text)}")


def show_warning(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object) -> None:
    """A warning: one of ours on one line, any other as Python shows it."""
    ours = issubclass(category, ZooWarning)
    say(f"iclzoo: {one_line(str(message))}" if ours else warnings.formatwarning(message, category, filename, lineno))


def show_check(check: "Check") -> None:
    """One line of `iclzoo verify`."""
    line = Text.assemble("  ", _MARKS[check.passed], " ", (f"{check.what:<8}", "bold"), " ", one_line(check.detail))
    Console().print(line, soft_wrap=True)


@contextmanager
def working(text: str) -> Iterator[None]:
    """A spinner while something takes its time."""
    with _err.status(Text(printable(text))):
        yield


@contextmanager
def counted(total: int, text: str) -> Iterator[Callable[[str], None]]:
    """A bar over `total` pieces of work; yields a function that is told each piece as it begins."""
    columns = (
        plain_column("{task.description}", style="bold"),
        BarColumn(),
        MofNCompleteColumn(),
        plain_column("{task.fields[piece]}"),
    )
    with Progress(*columns, TimeElapsedColumn(), console=_err) as bar:
        task = bar.add_task(printable(text), total=total, completed=-1, piece="")
        yield lambda piece: bar.update(task, advance=1, piece=piece)
        bar.update(task, completed=total, piece="")


def ending(path: Path) -> str:
    """The ending of a file's name, in small letters, without the dot."""
    return path.suffix.removeprefix(".").lower()


def check_picture(path: Path, formats: Sequence[str] = FORMATS) -> None:
    """**Raises** `ZooError` for a path that no picture can be written to, before anything is measured for it."""
    if ending(path) not in formats:
        raise ZooError(f"cannot write {str(path)!r}: the name must end in one of .{', .'.join(formats)}")
    if path.is_dir():
        raise ZooError(
            f"cannot write {str(path)!r}: it is a folder; name a picture in it, as in {path / 'picture.png'}"
        )


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure, making its folder if need be; the picture that was there stays until the new one is whole.

    **Raises** `ZooError` for a format that cannot be written.
    """
    from .inspect.pictures.style import drawn
    from .zoo.storage.files import write_atomically

    check_picture(path)
    write_atomically(path, drawn(figure, ending(path), dpi=150))
    say(f"wrote {path}")


def save_answer(measured: "Measurement", path: Path) -> None:
    """Write a measurement as the ending of the file says: its picture, its numbers as CSV or JSON, or a film where it has one."""
    from .inspect.pictures.style import figure_of
    from .zoo.storage.files import write_atomically
    from .zoo.table import as_csv

    kind = ending(path)
    if kind in FORMATS:
        save_figure(figure_of(measured.plot()), path)
        return
    if kind == "csv":
        data = as_csv(measured.records()).encode()
    elif kind == "json":
        data = json.dumps(measured.to_dict(), indent=1, allow_nan=False).encode()
    else:
        data = measured.film(kind)
    write_atomically(path, data)
    say(f"wrote {path}")
