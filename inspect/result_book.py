"""Every published result by its id."""

from ..zoo.errors import unknown_name
from .reproduction import Result
from .results import (
    attention,
    conditions,
    copying,
    depth,
    gradient_flow,
    lstm,
    one_layer,
    preconditioning,
    shifts,
    sines,
)

FAMILIES = (one_layer, shifts, depth, attention, copying, sines, conditions, lstm, preconditioning, gradient_flow)
_BY_ID = {result.id: result for family in FAMILIES for result in family.RESULTS}


def list_results() -> list[str]:
    """The ids of all results, in the order of the document."""
    return list(_BY_ID)


def result(id: str) -> Result:
    """The result of that id. **Raises** `UnknownNameError`, with the closest matches."""
    if id not in _BY_ID:
        raise unknown_name("result", id, _BY_ID)
    return _BY_ID[id]
