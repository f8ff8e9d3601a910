"""One page with all that applies to a checkpoint, the figures as PNG and SVG, the numbers as JSON and CSV."""

import base64
import json
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...zoo.errors import ExistsError, NotApplicable, ZooError
from ...zoo.storage.files import finished_name, located, write_atomically
from ...zoo.storage.folders import FolderKind
from ...zoo.table import as_csv
from ...zoo.text import one_line
from ..checkpoint import Checkpoint
from ..instrument import Instrument
from ..measurement import Measurement

TEMPLATES = Path(__file__).parent
PAGE = "index.html"
MOST_ROWS = 40  # of a table on the page; longer ones are in its CSV
MARK = '<meta name="generator" content="iclzoo">'  # by which a report of ours is known


class SectionError(ZooError):
    """Sections of a report that failed. The page is written, and says which."""


def write_report(
    checkpoint: Checkpoint,
    folder: Path,
    sections: Sequence[Instrument],
    *,
    num_tasks: int = 10_000,
    progress: Callable[[str], None] = lambda title: None,
) -> Path:
    """Write `folder/index.html`, self-contained, with `figures/` and `numbers/` beside it; returns the page's path.

    Sections that do not apply say why; one that fails says so, and stops no other. The page is written after every section, so that a
    report that is cut short is a page. Each section measures on `num_tasks` tasks at most; `progress` is told its title before it is
    made.

    **Raises** `ExistsError` for a folder that holds something else than a report, and `CheckpointError` if a file of the checkpoint is
    damaged, with nothing written; `SectionError`, with all written, if sections failed.
    """
    path = folder / PAGE
    check_report_folder(folder)
    checkpoint.read()
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    template = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined).get_template(
        "report.html.jinja"
    )

    def write_page(entries: Sequence[dict[str, Any]], remaining: Sequence[Instrument]) -> None:
        page = template.render(
            mark=MARK,
            name=checkpoint.name,
            card=checkpoint.card,
            card_json=checkpoint.card.to_json(),
            entries=entries,
            remaining=remaining,
            made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        )
        write_atomically(path, page.encode())

    entries: list[dict[str, Any]] = []
    failed: dict[str, Exception] = {}
    write_page(entries, sections)  # first, so that the folder is known for ours if this is cut short
    for place, section in enumerate(sections):
        progress(section.title)
        shown, files = {}, {}
        try:
            shown, files = _rendered(section, section.of(checkpoint, at_most=num_tasks))
        except NotApplicable as reason:
            shown = {"reason": one_line(str(reason))}
        except Exception as error:  # whatever it is: the others are shown
            shown = {"failure": one_line(f"{type(error).__name__}: {error}")}
            failed[section.name] = error
        for name, data in files.items():
            write_atomically(folder / name, data)
        entries.append({"section": section, **shown})
        write_page(
            sorted(entries, key=lambda entry: "reason" in entry), sections[place + 1 :]
        )  # what does not apply comes last
    if failed:
        reasons = "; ".join(f"{slug} ({type(error).__name__}: {error})" for slug, error in failed.items())
        raise SectionError(f"{path} is written, but sections failed: {reasons}") from next(iter(failed.values()))
    return path


def check_report_folder(folder: Path) -> None:
    """**Raises** `ExistsError` unless `folder` is absent, empty, or a report of ours with nothing else in it."""
    place = located(folder)
    if place.is_dir() and all(finished_name(entry.name) for entry in place.iterdir()):
        return  # empty, but for a write that was cut short
    if os.path.lexists(place):
        REPORT.check_replaceable(place)


def _check_page(page: Path) -> None:
    with page.open("rb") as file:
        if MARK.encode() not in file.read(4096):
            raise ExistsError(f"{page} is no page of iclzoo")


REPORT = FolderKind(r"index\.html|(figures|numbers)(/[\w-]+\.(png|svg|json|csv))?", mark=PAGE, check=_check_page)


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


def _rendered(section: Instrument, measured: Measurement) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What the page shows of a section, and the files it has beside the page."""
    from ..pictures.style import drawn, figure_of

    figure = figure_of(measured.plot())
    files = {f"figures/{section.name}.{suffix}": drawn(figure, suffix, dpi=130) for suffix in ("png", "svg")}
    image = base64.b64encode(files[f"figures/{section.name}.png"]).decode()
    tables = [table for table in measured.tables() if len(table.rows) <= MOST_ROWS]
    files[f"numbers/{section.name}.json"] = json.dumps(measured.to_dict(), indent=1, allow_nan=False).encode()
    files[f"numbers/{section.name}.csv"] = as_csv(measured.records()).encode()
    shown = {"tables": tables, "image": f"data:image/png;base64,{image}", "alternative": measured.summary}
    return shown | {"links": [*files]}, files
