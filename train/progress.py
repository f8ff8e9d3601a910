"""Progress bars for work that takes long enough to wonder about."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextmanager
def training_bar(
    name: str, num_steps: int, step: int, *, header: str, enabled: bool
) -> Iterator[Callable[[int, float], None]]:
    """A line of `header`, and a bar with the loss and the time left, on standard error; yields `update(step, loss)`."""
    bar = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not enabled,
    )
    with bar:
        if enabled:
            bar.console.print(header, highlight=False, markup=False, soft_wrap=True)
        task = bar.add_task(name, total=num_steps, completed=step, loss="–")
        yield lambda step, loss: bar.update(task, completed=step, loss=f"{loss:.4f}")
