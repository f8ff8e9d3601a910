"""Names in place of learners: a path, a checkpoint, or an algorithm tuned to the task, in this order. Never an untrained model."""

import os
from collections.abc import Callable
from os import PathLike
from typing import Any, TypeVar

from .algorithm import ALGORITHMS, algorithm
from .errors import ArgumentError, UnknownNameError, unknown_name
from .storage.card import CARD_FILE
from .storage.checkpoint import list_checkpoints, load

Tuner = TypeVar("Tuner", bound=Callable)
_tuners: list[Callable[[str, Any], Any]] = []


def tunes_algorithms(function: Tuner) -> Tuner:
    """Decorator of the function that brings an algorithm, by name, to its best on a task: it draws tasks, which the zoo does not know."""
    _tuners[:] = [function]
    return function


def named_learner(name: str | PathLike, task: Any = None) -> Any:
    """The learner that a name stands for. **Raises** `UnknownNameError`, `ArgumentError` for an algorithm where there is no task."""
    if not isinstance(name, str) or names_checkpoint(name):
        return load(os.fspath(name))
    try:
        algorithm(name)
    except UnknownNameError:
        raise unknown_name("checkpoint or algorithm", name, {*list_checkpoints(), *ALGORITHMS.names()}) from None
    if task is None:
        raise ArgumentError(
            f"{name!r} is an algorithm, and nothing says to which task to tune it; write iclzoo.best_baseline({name!r}, task)"
        )
    return _tuners[0](name, task)


def names_checkpoint(name: str | PathLike) -> bool:
    """Whether a name stands for a checkpoint: a path, a shipped one, or a folder here that holds one."""
    text = os.fspath(name)
    if not isinstance(name, str) or "/" in text or os.sep in text:
        return True
    return text in list_checkpoints() or os.path.isfile(os.path.join(text, CARD_FILE))
