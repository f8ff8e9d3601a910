"""One page with all that applies to a checkpoint, the figures as PNG and SVG, the numbers as JSON and CSV."""

import base64
import csv
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ...zoo.errors import ExistsError, NotApplicable, ZooError
from ...zoo.storage.files import finished_name, located, write_atomically
from ...zoo.storage.folders import FolderKind
from ...zoo.text import one_line
from ..estimates.plain import plain
from ..instrument import Content, Instrument
from ..pictures.style import drawn
from ..subject import Subject

TEMPLATES = Path(__file__).parent
PAGE = "index.html"
MARK = '<meta name="generator" content="iclzoo">'  # by which a report of ours is known
UNFINISHED = f"<!doctype html>{MARK}<title>unfinished</title>This report was not finished: write it again.\n"


class SectionError(ZooError):
    """Sections of a report that failed. The page is written, and says which."""


def write_report(
    subject: Subject,
    folder: Path,
    sections: Sequence[Instrument],
    *,
    progress: Callable[[str], None] = lambda title: None,
) -> Path:
    """Write `folder/index.html`, self-contained, with `figures/` and `numbers/` beside it; returns the page's path.

    Sections that do not apply say why; one that fails says so, and stops no other. `progress` is told the title of each section before
    it is made.

    **Raises** `ExistsError` for a folder that holds something else than a report, and `CheckpointError` if a file of the checkpoint is
    damaged, with nothing written; `SectionError`, with all written, if sections failed.
    """
    path = folder / PAGE
    check_report_folder(folder)
    subject.read()
    if not path.exists():
        write_atomically(path, UNFINISHED.encode())  # first, so that the folder is known for ours if this is cut short
    entries: list[dict[str, Any]] = []
    failed: dict[str, Exception] = {}
    for section in sections:
        progress(section.title)
        shown, files = {}, {}
        try:
            shown, files = _rendered(section, section(subject))
        except NotApplicable as reason:
            shown = {"reason": one_line(str(reason))}
        except Exception as error:  # whatever it is: the others are shown
            shown = {"failure": one_line(f"{type(error).__name__}: {error}")}
            failed[section.name] = error
        entries.append({"section": section, **shown})
        for name, data in files.items():
            write_atomically(folder / name, data)
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)
    page = environment.get_template("report.html.jinja").render(
        mark=MARK,
        name=subject.name,
        card=subject.card,
        card_json=subject.card.to_json(),
        entries=entries,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
    write_atomically(path, page.encode())
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


def _rendered(section: Instrument, content: Content) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What the page shows of a section, and the files it has beside the page."""
    shown: dict[str, Any] = {"tables": content.tables}
    files: dict[str, bytes] = {}
    if content.figure is not None:
        for suffix in ("png", "svg"):
            files[f"figures/{section.name}.{suffix}"] = drawn(content.figure, suffix, dpi=130)
        image = base64.b64encode(files[f"figures/{section.name}.png"]).decode()
        shown |= {"image": f"data:image/png;base64,{image}", "alternative": content.alternative or section.question}
    if content.numbers is not None:
        numbers = plain(content.numbers)
        text = io.StringIO()
        csv.writer(text).writerows([("quantity", "value"), *flattened(numbers)])
        for suffix, data in (("json", json.dumps(numbers, indent=1, allow_nan=False)), ("csv", text.getvalue())):
            files[f"numbers/{section.name}.{suffix}"] = data.encode()
    return shown | {"links": [*files]}, files
