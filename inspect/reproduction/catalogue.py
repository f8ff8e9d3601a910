"""Every published result by its id: the claims of `results.md`, and the functions of `results/` that measure them."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

from ...zoo.errors import ContractError, unknown_name
from ...zoo.registry import modules
from .result import Result

Measure = TypeVar("Measure", bound=Callable)
_measures: dict[str, tuple[Callable, tuple[str, ...]]] = {}


def measures(id: str, *, checkpoints: tuple[str, ...] = ()) -> Callable[[Measure], Measure]:
    """Decorator: the function measures the result `id` on these checkpoints."""

    def add(measure: Measure) -> Measure:
        _measures[id] = measure, checkpoints
        return measure

    return add


def list_results() -> list[str]:
    """The ids of all results, in the order of the document."""
    return list(_by_id())


def result(id: str) -> Result:
    """The result of that id. **Raises** `UnknownNameError`, with the closest matches."""
    if id not in _by_id():
        raise unknown_name("result", id, _by_id())
    return _by_id()[id]


@cache
def _by_id() -> dict[str, Result]:
    """**Raises** `ContractError` for a claim that nothing measures, and a measurement of no claim."""
    for _ in modules(f"{__package__}.results"):
        pass
    claims = {claim[0]: claim for claim in _claims()}
    if unmatched := claims.keys() ^ _measures.keys():
        raise ContractError(
            f"every result needs a claim in results.md and a function in results/; one has {min(unmatched)!r} alone"
        )
    return {
        id: Result(id, claim, source, _measures[id][1], _measures[id][0], explanation)
        for id, claim, source, explanation in claims.values()
    }


def _claims() -> Iterator[tuple[str, str, str, str]]:
    """The id, the claim, the source and the explanation of each section of `results.md`."""
    text = Path(__file__).with_name("results.md").read_text(encoding="utf-8")
    for part in text.split("\n## ")[1:]:
        id, claim, source, *explanation = (" ".join(paragraph.split()) for paragraph in part.strip().split("\n\n"))
        yield id, claim, source.strip("*"), " ".join(explanation)
