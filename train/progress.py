"""Progress bars for work that takes long enough to wonder about."""

import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from ..zoo.text import printable

NOTEBOOK_SECONDS = 0.2  # between two pictures of a bar


class StandardError(io.TextIOBase):
    """Standard error, as it is when something is written; where it is closed, broken or replaced, that is let go.

    What is said about the work never costs the work.
    """

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return getattr(self._stream, "encoding", None) or "utf-8"

    @property
    def _stream(self):
        return getattr(sys.stderr, "rich_proxied_file", sys.stderr)  # which a bar on a terminal puts in its place

    def write(self, text: str) -> int:
        with suppress(Exception):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(Exception):
            self._stream.flush()

    def isatty(self) -> bool:
        try:
            return bool(self._stream.isatty())
        except Exception:
            return False


def work_console() -> Console:
    """Where to speak of the work: standard error, whatever becomes of it."""
    return Console(file=cast(IO[str], StandardError()))


def plain_column(template: str, *, style: str = "none") -> TextColumn:
    """A column of a bar whose text is no markup."""
    return TextColumn(template, style=style, markup=False)


@contextmanager
def training_bar(
    name: str, num_steps: int, step: int, *, header: str, enabled: bool
) -> Iterator[Callable[[int, float], None]]:
    """A line of `header`, and a bar with the loss and the time left, on standard error; yields `update(step, loss)`."""
    bar = Progress(
        plain_column("{task.description}", style="bold"),
        BarColumn(),
        MofNCompleteColumn(),
        plain_column("loss {task.fields[loss]}"),
        TimeElapsedColumn(),
        plain_column("left"),
        TimeRemainingColumn(),
        console=work_console(),
        disable=not enabled,
    )
    if enabled and bar.console.is_jupyter:
        yield _in_notebook(bar, printable(header), printable(name), num_steps, step)
        return
    with bar:
        if enabled:
            bar.console.print(Text(printable(header)), soft_wrap=True)
        task = bar.add_task(printable(name), total=num_steps, completed=step, loss="–")
        yield lambda step, loss: bar.update(task, completed=step, loss=f"{loss:.4f}")


def _in_notebook(bar: Progress, header: str, name: str, num_steps: int, step: int) -> Callable[[int, float], None]:
    """`update(step, loss)` of the same bar as text in the output of a cell, which every front end of Jupyter shows."""
    from IPython.display import Pretty, display  # pyright: ignore[reportMissingImports]

    task = bar.add_task(name, total=num_steps, completed=step, loss="–")
    shown = display(Pretty(header), display_id=True)
    drawn_at = 0.0

    def update(step: int, loss: float) -> None:
        nonlocal drawn_at
        bar.update(task, completed=step, loss=f"{loss:.4f}")
        if time.monotonic() - drawn_at > NOTEBOOK_SECONDS or step == num_steps:
            drawn_at = time.monotonic()
            page = Console(file=io.StringIO(), width=100, force_jupyter=False)
            page.print(bar.get_renderable())
            with suppress(Exception):  # progress that cannot be shown never costs the work
                text = f"{header}\n{cast(io.StringIO, page.file).getvalue().rstrip()}"
                shown.update(Pretty(text))  # pyright: ignore[reportOptionalMemberAccess]

    return update
