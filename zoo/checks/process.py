"""A process that was forked after JAX had started: its threads are not there, and the first computation would wait for them for ever."""

import os

from jax._src.xla_bridge import backends_are_initialized  # there is no public way to ask

from ..errors import ZooError

_started = _forked = False


def check_process() -> None:
    """**Raises** `ZooError` in a process that was forked after JAX had started."""
    if _forked:
        raise ZooError(
            "this process was forked after JAX had started, and JAX would hang in it; "
            'start it by multiprocessing.get_context("spawn"), or fork before the first computation'
        )


def _before() -> None:
    global _started
    _started = backends_are_initialized()


def _in_child() -> None:
    global _forked
    _forked = _forked or _started


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)
