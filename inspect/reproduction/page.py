"""Reproductions as tables and as the page `docs/reproduction.md`."""

import json
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ...zoo.errors import ExistsError
from ...zoo.storage.card import parsed
from ...zoo.storage.files import read_file, write_atomically
from ...zoo.table import Table
from ..estimates.estimate import Estimate
from ..estimates.plain import plain
from ..pictures.style import drawn, figure_of
from .result import Reproduction, Result

PAGE = "reproduction.md"
MOST_RECORD_BYTES = 2**24
Record = dict[str, Any]
MARK = "What the source texts claim, beside what `iclzoo` measures."  # by which a page of ours is known
HEAD = f"""# Reproduction

{MARK} Made by `iclzoo reproduce --all -o docs`, from the shipped checkpoints;
`iclzoo reproduce ID` prints one of them, and `--retrain` trains its checkpoints first. A number is a mean over tasks ± its standard error,
or stands alone where it has none. A measurement holds where our number is within its tolerance.
"""


def results_table(results: Iterable[Result]) -> Table:
    """What there is to reproduce."""
    table = Table("", ("id", "claim", "source"))
    for result in results:
        table.add(result.id, result.claim, result.source)
    return table


def record(reproduction: Reproduction) -> Record:
    """A reproduction as JSON holds it: all that the page says of it."""
    result, outcome = reproduction.result, reproduction.outcome
    return plain(
        {
            "id": result.id,
            "claim": result.claim,
            "source": result.source,
            "checkpoints": result.checkpoints,
            "conditions": outcome.conditions,
            "measurements": [
                {
                    "what": one.what,
                    "published": one.published,
                    **vars(one.ours),
                    "tolerance": one.tolerance,
                    "holds": one.holds,
                }
                for one in outcome.measurements
            ],
            "reproduced": reproduction.reproduced,
            "verdict": reproduction.verdict,
            "explanation": result.explanation,
        }
    )


def picture_path(folder: Path, id: str) -> Path:
    """Where the picture of a result is kept."""
    return folder / "reproduction" / f"{id}.png"


def check_place(folder: Path, id: str) -> None:
    """**Raises** `ExistsError` if a reproduction of `id` in `folder` would overwrite what is none of ours.

    A page is known by its first words, a record by its form, and a picture by the record beside it.
    """
    page_path, picture = folder / PAGE, picture_path(folder, id)
    if os.path.lexists(page_path) and not _is_page(page_path):
        raise ExistsError(f"{page_path} is no page of `iclzoo reproduce`; choose another folder with -o")
    for path in (picture.with_suffix(".json"), picture):
        if os.path.lexists(path) and _read_record(folder, id) is None:
            raise ExistsError(f"{path} is not of `iclzoo reproduce`; choose another folder with -o")


def write_page(folder: Path, ids: Iterable[str], reproduction: Reproduction) -> Path:
    """Write a reproduction to `reproduction/ID.json` and `ID.png` in a folder, and the page of all of `ids` that are there, in order.

    **Raises** `ExistsError` if that would overwrite what is none of ours.
    """
    id = reproduction.result.id
    check_place(folder, id)
    own = json.dumps(record(reproduction), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    picture = drawn(figure_of(reproduction.outcome.figure), "png", dpi=150)
    # The record first: it says whose the picture is.
    write_atomically(picture_path(folder, id).with_suffix(".json"), own.encode())
    write_atomically(picture_path(folder, id), picture)
    there = [one for id in ids if (one := _read_record(folder, id)) is not None]
    write_atomically(folder / PAGE, page(there).encode())
    return folder / PAGE


def _is_page(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return MARK.encode() in file.read(4096)
    except OSError:
        return False


def _read_record(folder: Path, id: str) -> Record | None:
    """The record of a result in a folder; `None` where there is none that the page could show."""
    try:
        one = parsed(read_file(picture_path(folder, id).with_suffix(".json"), MOST_RECORD_BYTES).decode())
        section(one)
        return one if one["id"] == id else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def measurements_table(record: Record) -> Table:
    """One result: a row for each number."""
    table = Table(f"{record['id']}: {record['claim']}", ("", "published", "ours", "tolerance", "holds"))
    for row in map(cells, record["measurements"]):
        table.add(*row)
    return table


def page(records: Sequence[Record]) -> str:
    """The whole document: a line for each result, then each with its numbers and its picture."""
    overview = ["| result | claim | verdict |", "|---|---|---|"]
    for one in records:
        verdict = "reproduced" if one["reproduced"] else "**differs**"
        overview.append(f"| [{one['id']}](#{one['id']}) | {one['claim']} | {verdict} |")
    return "\n".join([HEAD, *overview, "", *map(section, records)])


def section(one: Record) -> str:
    """One result of the document."""
    rows = ["| | published | ours | tolerance | holds |", "|---|---|---|---|---|"]
    rows += [f"| {' | '.join(cells(measurement))} |" for measurement in one["measurements"]]
    checkpoints = ", ".join(f"`{name}`" for name in one["checkpoints"]) or "no checkpoint"
    return "\n".join(
        [
            f"## {one['id']}",
            "",
            f"{one['claim']} *{one['source']}.*",
            "",
            f"Measured on {checkpoints}: {one['conditions']}.",
            "",
            *rows,
            "",
            f"**Verdict: {one['verdict']}**"
            + (f" {one['explanation']}" if one["reproduced"] and one["explanation"] else ""),
            "",
            f"![{one['id']}](reproduction/{one['id']}.png)",
            "",
        ]
    )


def cells(measurement: Record) -> tuple[str, str, str, str, str]:
    """A measurement as the cells of a row."""
    ours = number(Estimate(measurement["value"], measurement["standard_error"]))
    return (
        measurement["what"],
        measurement["published"],
        ours,
        measurement["tolerance"],
        "yes" if measurement["holds"] else "no",
    )


def number(mean: Estimate) -> str:
    """A mean and its standard error, to the digits that mean something."""
    if mean.value is None:
        return "undefined"
    if mean.standard_error is None:
        return f"{mean.value:.4g}"
    digits = min(6, max(0, 1 - math.floor(math.log10(mean.standard_error)))) if mean.standard_error > 0 else 4
    return f"{mean.value:.{digits}f} ± {mean.standard_error:.{digits}f}"
