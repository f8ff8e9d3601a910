"""Reproductions as tables and as the page `docs/reproduction.md`."""

import math
from collections.abc import Iterable, Sequence

from rich.table import Table

from .alignment import Mean
from .reproduction import Finding, Reproduction, Result
from .tables import add_row, new_table

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


def findings_table(reproduction: Reproduction) -> Table:
    """One result: a row for each number, and the verdict."""
    table = new_table(f"{reproduction.result.id}: {reproduction.result.claim}", "", "published", "ours", "bar", "holds")
    for row in map(cells, reproduction.outcome.findings):
        add_row(table, *row)
    return table


def page(reproductions: Sequence[Reproduction]) -> str:
    """The whole document: a line for each result, then each with its numbers and its picture."""
    overview = ["| result | claim | verdict |", "|---|---|---|"]
    for one in reproductions:
        verdict = "reproduced" if one.reproduced else "**differs**"
        overview.append(f"| [{one.result.id}](#{one.result.id}) | {one.result.claim} | {verdict} |")
    return "\n".join([HEAD, *overview, "", *map(section, reproductions)])


def section(one: Reproduction) -> str:
    """One result of the document."""
    result = one.result
    rows = ["| | published | ours | bar | holds |", "|---|---|---|---|---|"]
    rows += [f"| {' | '.join(cells(finding))} |" for finding in one.outcome.findings]
    return "\n".join(
        [
            f"## {result.id}",
            "",
            f"{result.claim} *{result.source}.*",
            "",
            f"Measured on {', '.join(f'`{name}`' for name in result.checkpoints) or 'no checkpoint'}: {one.outcome.conditions}.",
            "",
            *rows,
            "",
            f"**Verdict: {one.verdict}**" + (f" {result.because}" if one.reproduced and result.because else ""),
            "",
            f"![{result.id}](reproduction/{result.id}.png)",
            "",
        ]
    )


def cells(finding: Finding) -> tuple[str, str, str, str, str]:
    """A finding as the cells of a row."""
    return finding.what, finding.published, number(finding.ours), str(finding.bar), "yes" if finding.holds else "no"


def number(mean: Mean) -> str:
    """A mean and its standard error, to the digits that mean something."""
    if mean.value is None:
        return "undefined"
    if mean.standard_error is None:
        return f"{mean.value:.4g}"
    digits = min(6, max(0, 1 - math.floor(math.log10(mean.standard_error)))) if mean.standard_error > 0 else 4
    return f"{mean.value:.{digits}f} ± {mean.standard_error:.{digits}f}"
