"""Stopping a training from outside: Ctrl-C or SIGTERM, sent to its process or to any of several that train together.

One process stops where it is. Several stop at the same step: whoever is asked to stop tells the others, all agree on it at their next
meeting, and the leading one saves the state. What does not come to that meeting in time, because it compiles, measures, or waits for a
process that is gone, is ended from a thread of its own, the leading process after it has saved its last good state.
"""

import atexit
import os
import select
import signal
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import jax
from jax._src.distributed import global_state  # the key-value store of the processes, which has no public name

from .progress import work_console

GRACE_SECONDS = 4.0  # from the wish to stop to the end by force
SAVING_SECONDS = 2.0  # for the last state to be saved in, then
LOOK_SECONDS = 0.25  # between looks at what the others want
STOPPED, FAILED = 130, 1  # exit statuses


class Stop(ABC):
    """Interface: what a training sees of this. `asked` says that it is to stop."""

    asked: bool

    @abstractmethod
    def settle(self) -> None:
        """All that take part have met, and know that they are to stop."""

    @abstractmethod
    def save(self) -> None:
        """Save the last good state, uninterrupted."""


class Interrupts(Stop):
    """Ctrl-C and SIGTERM of one process: `KeyboardInterrupt`, once, and not while it saves.

    Where the program has a handler of its own, that one stays.
    """

    def __init__(self, save: Callable[[], None]):
        self.asked = self._saving = False
        self._save = save

    @contextmanager
    def heard(self) -> Iterator["Interrupts"]:
        replaced = _handle(self._on_signal)
        try:
            yield self
        finally:
            _give_back(replaced)
        if self.asked:
            raise KeyboardInterrupt

    def settle(self) -> None:
        pass

    def save(self) -> None:
        self._saving = True
        try:
            self._save()
        finally:
            self._saving = False

    def _on_signal(self, *_: object) -> None:
        first, self.asked = not self.asked, True
        if first and not self._saving:
            raise KeyboardInterrupt


class Watch(Stop):
    """Ctrl-C and SIGTERM of one of several processes, heard by a thread, for the main one may be inside a compiled program.

    `asked` says that some process is to stop. The processes then meet, and `settle` it; one that does not is ended.
    """

    current: ClassVar["Watch | None"] = None

    def __init__(self):
        self.asked = False
        self.at_peace = False  # nothing is unfinished: at its end, this process may wait for the others
        self.last_words: Callable[[], None] = lambda: None  # saves the last good state
        self._connected = self._settled = self._exiting = self._over = False
        self._round, self._status = 0, FAILED
        self._saving, self._talking = threading.Lock(), threading.Lock()
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._replaced, self._woke_before = {}, -1

    @classmethod
    def start(cls, *, connected: bool) -> "Watch":
        """The watch of this process, which lasts until it leaves the others; `connected` says that it has met them."""
        if cls.current is None:
            cls.current = watch = cls()
            atexit.register(watch._at_exit)  # before JAX's own, which waits for the others
            threading.Thread(target=watch._look, daemon=True, name="iclzoo-watch").start()
        cls.current._listen()
        cls.current._connected = connected
        return cls.current

    @classmethod
    def end(cls) -> None:
        watch, cls.current = cls.current, None
        if watch is not None:
            atexit.unregister(watch._at_exit)
            if watch._replaced:
                signal.set_wakeup_fd(watch._woke_before)
                _give_back(watch._replaced)
            watch._over = True

    @contextmanager
    def training(self, save: Callable[[], None]) -> Iterator["Watch"]:
        self.at_peace, self._settled, self.last_words = False, False, save
        try:
            yield self
        finally:
            self.last_words = lambda: None
        self.at_peace = True

    def settle(self) -> None:
        self._round += 1
        self.asked, self._settled, self._status = False, True, STOPPED

    def save(self) -> None:
        with self._saving:
            self.last_words()

    def part(self) -> None:
        """No more words with the others, from now on: they may be gone at any moment."""
        with self._talking:
            self._connected = False

    def _listen(self) -> None:
        """Hear signals; again, where JAX has taken SIGTERM for itself meanwhile."""
        if not self._replaced:
            self._replaced = _handle(self._on_signal)
            if self._replaced:
                self._woke_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in self._replaced:
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        self.asked = True

    def _at_exit(self) -> None:
        if not self.at_peace and not self._settled:
            self._tell()
        self.part()
        self._exiting = not self.at_peace

    def _look(self) -> None:
        with self._reader, self._writer:
            self._listen_on()

    def _listen_on(self) -> None:
        while not self._over:
            if select.select([self._reader], [], [], LOOK_SECONDS)[0]:
                self.asked |= bool({signal.SIGINT, signal.SIGTERM} & set(self._reader.recv(4096)))
            if self._exiting or self.asked or self._told():
                if not self._exiting:
                    self.asked, self._status = True, STOPPED
                    self._tell()
                self._wait()

    def _wait(self) -> None:
        """Give the main thread its time; then end the process, the one through which all talk after the others."""
        number, end = self._round, time.monotonic() + GRACE_SECONDS
        while time.monotonic() < end:
            if self._over or self._round != number:
                return
            time.sleep(0.05)
        saving = threading.Thread(target=self.save, daemon=True)
        saving.start()
        saving.join(SAVING_SECONDS)
        work_console().print("iclzoo: stopped while at work; go on from the last saved state with --resume")
        if global_state.service is not None:
            time.sleep(4 * LOOK_SECONDS)
        os._exit(self._status)

    def _tell(self) -> None:
        with suppress(Exception), self._talking:  # whoever cannot be told is gone
            if self._connected:
                global_state.client.key_value_set(self._key, "", allow_overwrite=True)  # pyright: ignore[reportOptionalMemberAccess]

    def _told(self) -> bool:
        with suppress(Exception), self._talking:  # an error where there is no such key
            if self._connected:
                global_state.client.key_value_try_get(self._key)  # pyright: ignore[reportOptionalMemberAccess]
                return True
        return False

    @property
    def _key(self) -> str:
        return f"iclzoo/stop/{self._round}"


@contextmanager
def stopping(save: Callable[[], None]) -> Iterator[Stop]:
    """A context in which this process can be asked to stop; `save` saves the last good state."""
    if jax.process_count() == 1:
        with Interrupts(save).heard() as interrupts:
            yield interrupts
        return
    with Watch.start(connected=True).training(save) as watch:
        yield watch


def _handle(handler: Callable[..., None]) -> dict[int, Any]:
    """Let `handler` have Ctrl-C and SIGTERM where nobody else has them; what it replaces."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    default: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    replaced = {number: old for number, old in default.items() if signal.getsignal(number) is old}
    for number in replaced:
        signal.signal(number, handler)
    return replaced


def _give_back(replaced: dict[int, Any]) -> None:
    for number, handler in replaced.items():
        signal.signal(number, handler)
