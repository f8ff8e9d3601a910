"""Reproductions as tables and as the page `docs/reproduction.md`."""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from ..zoo.files import write_atomically
from .alignment import Mean
from .reproduction import Reproduction, Result
from .tables import add_row, new_table

PAGE = "reproduction.md"
Record = dict[str, Any]
HEAD = """# Reproduction

What the source texts claim, beside what `iclzoo` measures. Made by `iclzoo reproduce --all -o docs`, from the shipped checkpoints;
`iclzoo reproduce ID` prints one of them, and `--retrain` trains its checkpoints first. A number is a mean over tasks ± its standard error,
or stands alone where it has none. A finding holds where our number is within its bar.
"""


def results_table(results: Iterable[Result]) -> Table:
    """What there is to reproduce."""
    table = new_table("", "id", "claim", "source")
    for result in results:
        add_row(table, result.id, result.claim, result.source)
    return table


def record(reproduction: Reproduction) -> Record:
    """A reproduction as JSON holds it: all that the page says of it."""
    result, outcome = reproduction.result, reproduction.outcome
    findings = [
        {
            "what": finding.what,
            "published": finding.published,
            "value": _finite(finding.ours.value),
            "standard_error": _finite(finding.ours.standard_error),
            "bar": str(finding.bar),
            "holds": bool(finding.holds),
        }
        for finding in outcome.findings
    ]
    return {
        "id": result.id,
        "claim": result.claim,
        "source": result.source,
        "checkpoints": list(result.checkpoints),
        "conditions": outcome.conditions,
        "findings": findings,
        "reproduced": bool(reproduction.reproduced),
        "verdict": reproduction.verdict,
        "because": result.because,
    }


def _finite(value: float | None) -> float | None:
    """JSON has no NaN: what is not finite is undefined."""
    return float(value) if value is not None and math.isfinite(value) else None


def write_page(folder: Path, ids: Iterable[str], reproduction: Reproduction) -> Path:
    """Write a reproduction to `reproduction/ID.json` in a folder, and the page of all of `ids` that are there, in their order."""
    records = folder / "reproduction"
    own = json.dumps(record(reproduction), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(records / f"{reproduction.result.id}.json", own.encode())
    there = [records / f"{id}.json" for id in ids if (records / f"{id}.json").exists()]
    write_atomically(folder / PAGE, page([json.loads(path.read_text()) for path in there]).encode())
    return folder / PAGE


def findings_table(record: Record) -> Table:
    """One result: a row for each number."""
    table = new_table(f"{record['id']}: {record['claim']}", "", "published", "ours", "bar", "holds")
    for row in map(cells, record["findings"]):
        add_row(table, *row)
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
    rows = ["| | published | ours | bar | holds |", "|---|---|---|---|---|"]
    rows += [f"| {' | '.join(cells(finding))} |" for finding in one["findings"]]
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
            f"**Verdict: {one['verdict']}**" + (f" {one['because']}" if one["reproduced"] and one["because"] else ""),
            "",
            f"![{one['id']}](reproduction/{one['id']}.png)",
            "",
        ]
    )


def cells(finding: Record) -> tuple[str, str, str, str, str]:
    """A finding as the cells of a row."""
    ours = number(Mean(finding["value"], finding["standard_error"]))
    return finding["what"], finding["published"], ours, finding["bar"], "yes" if finding["holds"] else "no"


def number(mean: Mean) -> str:
    """A mean and its standard error, to the digits that mean something."""
    if mean.value is None:
        return "undefined"
    if mean.standard_error is None:
        return f"{mean.value:.4g}"
    digits = min(6, max(0, 1 - math.floor(math.log10(mean.standard_error)))) if mean.standard_error > 0 else 4
    return f"{mean.value:.{digits}f} ± {mean.standard_error:.{digits}f}"
