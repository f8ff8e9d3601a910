"""I12: one page with all that applies to a checkpoint, the figures as PNG and SVG, the numbers as JSON and CSV."""

import base64
import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib.figure import Figure
from rich.table import Table

from ..zoo.errors import ZooError
from ..zoo.files import write_atomically
from .subject import Subject

TEMPLATES = Path(__file__).parent


@dataclass(frozen=True)
class Content:
    """What an instrument shows of a subject."""

    figure: Figure | None = None
    alternative: str = ""  # the figure in words, for who cannot see it
    numbers: Any = None  # a dataclass, or a container of them
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Section:
    """One part of a report. `look` makes its content, and raises `ZooError` with the reason where it does not apply."""

    slug: str
    title: str
    text: str  # what is shown, and how to read it
    look: Callable[[Subject], Content]


def write_report(
    subject: Subject,
    folder: Path,
    sections: Sequence[Section],
    *,
    progress: Callable[[str], None] = lambda title: None,
) -> Path:
    """Write `folder/index.html`, self-contained, with `figures/` and `numbers/` beside it; returns the page's path.

    Sections that do not apply say why. `progress` is told the title of each section before it is made.

    **Raises** `CheckpointError`, with nothing written, if a file of the checkpoint is damaged.
    """
    subject.read()
    entries = []
    for section in sections:
        progress(section.title)
        try:
            content = section.look(subject)
        except ZooError as reason:
            entries.append({"section": section, "reason": str(reason)})
            continue
        entries.append({"section": section, **_files(section, content, folder)})
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)
    page = environment.get_template("report.html.jinja").render(
        name=subject.name,
        card=subject.card,
        card_json=subject.card.to_json(),
        entries=entries,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
    path = folder / "index.html"
    write_atomically(path, page.encode())
    return path


def plain(value: Any) -> Any:
    """`value` as JSON holds it: dataclasses as objects, arrays as lists, and numbers that are not finite as `None`."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return plain(np.asarray(value).tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def flattened(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number of plain data with its path, as in `curves.gauge_fixed.half_mse[3].value`."""
    if isinstance(value, dict):
        for name, entry in value.items():
            yield from flattened(entry, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from flattened(entry, f"{path}[{index}]")
    else:
        yield path, "" if value is None else value


def _files(section: Section, content: Content, folder: Path) -> dict[str, Any]:
    """Write the files of a section; returns what the page shows of it."""
    shown: dict[str, Any] = {"tables": [_html_table(table) for table in content.tables], "links": []}
    if content.figure is not None:
        for suffix in ("png", "svg"):
            data = io.BytesIO()
            content.figure.savefig(data, format=suffix, dpi=130)
            write_atomically(folder / "figures" / f"{section.slug}.{suffix}", data.getvalue())
            shown["links"].append(f"figures/{section.slug}.{suffix}")
            if suffix == "png":
                shown["image"] = f"data:image/png;base64,{base64.b64encode(data.getvalue()).decode()}"
                shown["alternative"] = content.alternative or section.text
    if content.numbers is not None:
        numbers = plain(content.numbers)
        text = io.StringIO()
        csv.writer(text).writerows([("quantity", "value"), *flattened(numbers)])
        for suffix, data in (("json", json.dumps(numbers, indent=1, allow_nan=False)), ("csv", text.getvalue())):
            write_atomically(folder / "numbers" / f"{section.slug}.{suffix}", data.encode())
            shown["links"].append(f"numbers/{section.slug}.{suffix}")
    return shown


def _html_table(table: Table) -> dict[str, Any]:
    """A rich table as plain text: its title, its header and its rows."""
    rows = zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True)
    return {"title": str(table.title or ""), "header": [str(c.header) for c in table.columns], "rows": list(rows)}
