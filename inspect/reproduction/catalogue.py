"""Every published result by its id."""

from functools import cache

from ...zoo.errors import unknown_name
from ...zoo.registry import modules
from .result import Result


@cache
def _by_id() -> dict[str, Result]:
    """The results in every list `RESULTS` of the folder, in the order that its files say; its other files are helpers."""
    files = [module for module in modules(f"{__package__}.results") if hasattr(module, "RESULTS")]
    return {result.id: result for module in sorted(files, key=lambda file: file.ORDER) for result in module.RESULTS}


def list_results() -> list[str]:
    """The ids of all results, in the order of the document."""
    return list(_by_id())


def result(id: str) -> Result:
    """The result of that id. **Raises** `UnknownNameError`, with the closest matches."""
    if id not in _by_id():
        raise unknown_name("result", id, _by_id())
    return _by_id()[id]
