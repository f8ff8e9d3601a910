"""Things by name, whoever made them: one `Registry` for each kind.

A thing joins by a decorator. The zoo's own are found by walking a folder, those of installed packages through an entry-point group; both
happen once, the first time somebody asks for what is not there yet.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from threading import RLock
from types import ModuleType
from typing import Any, ClassVar, TypeVar

from .errors import ContractError, said_by, unknown_name

Thing = TypeVar("Thing", bound=Callable)


def modules(package: str) -> Iterator[ModuleType]:
    """Every module of a package, in the order of their names, imported; but for those that draw, `x_plot`, which need matplotlib."""
    parent = import_module(package)
    for module in sorted(iter_modules(parent.__path__, f"{package}."), key=lambda module: module.name):
        if not module.name.endswith("_plot"):
            yield import_module(module.name)


def origin(thing: Callable) -> tuple[str, str]:
    """The module of a class or function and its name there: what is defined anew there, as by a cell run twice, is the same."""
    return thing.__module__, thing.__qualname__


class Registry:
    """The things of one `kind`, by name.

    Shipped ones are in the modules of the packages `folders`, those of other packages in the entry-point group `group`. `check(name,
    thing)` raises a `ContractError` for what cannot join, and gives back what is kept.
    """

    every: ClassVar[list["Registry"]] = []

    def __init__(
        self,
        kind: str,
        *,
        group: str,
        folders: tuple[str, ...] = (),
        check: Callable[[str, Any], Any] = lambda name, thing: thing,
    ):
        self.kind, self.group, self.folders, self.check = kind, group, folders, check
        self.failed: dict[
            str, str
        ] = {}  # plugins that could not be imported, by the name of their entry point, and why
        self._things: dict[str, Any] = {}
        self._former: dict[str, str] = {}  # names that things had before, which old files hold
        self._lock = RLock()  # of discovery alone: what registers itself meanwhile takes no lock
        self._discovered = self._discovering = False
        self.every.append(self)

    def register(self, name: str, *, formerly: tuple[str, ...] = ()) -> Callable[[Thing], Thing]:
        """Decorator: add a class or function under `name`, and find it under the names it had `formerly`, too.

        **Raises** `ContractError` if it cannot join or a name is taken.
        """

        def add(thing: Thing) -> Thing:
            for wanted in (name, *formerly):
                taken = self._things.get(self._former.get(wanted, wanted))
                if taken is not None and origin(taken) != origin(thing):
                    raise ContractError(
                        f"the {self.kind} {wanted!r} already belongs to {'.'.join(origin(taken))}; choose another"
                    )
            self._things[name] = self.check(name, thing)
            self._former |= dict.fromkeys(formerly, name)
            return thing

        return add

    def names(self, pattern: str = "*") -> list[str]:
        """The names of all things of this kind; `pattern` may hold wildcards."""
        self.discover()
        return sorted(name for name in self._things if fnmatchcase(name, pattern))

    def known(self) -> dict[str, Any]:
        """What is there already, by name."""
        return dict(self._things)

    def items(self) -> dict[str, Any]:
        """Everything of this kind by its name, in order."""
        return {name: self._things[name] for name in self.names()}

    def __contains__(self, name: object) -> bool:
        for known in (self._things, self._former):
            if name in known:
                return True
        self.discover()
        return name in self._things or name in self._former

    def __getitem__(self, name: str) -> Any:
        """What is called `name`, looked for only where it is not there yet. **Raises** `UnknownNameError`, with the closest matches."""
        if name not in self:
            raise unknown_name(self.kind, name, self._things)
        return self._things[self._former.get(name, name)]

    def name_of(self, thing: Callable) -> str | None:
        """The name of a class or function, or of what it was before it was defined anew."""
        for discover in (False, True):
            if discover:
                self.discover()
            name = next((name for name, other in self._things.items() if origin(other) == origin(thing)), None)
            if name is not None:
                return name
        return None

    def discover(self) -> None:
        """Import the modules of the folder and the packages of the entry-point group, once.

        Other threads wait until all are there; what is imported meanwhile, and asks again, sees those that are there already.
        """
        if self._discovered:
            return
        with self._lock:
            if self._discovered or self._discovering:
                return
            self._discovering = True
            try:
                for folder in self.folders:
                    for _ in modules(folder):
                        pass
                for plugin in entry_points(group=self.group):
                    self._load(plugin)
                self._discovered = True
            finally:
                self._discovering = False

    def _load(self, plugin: EntryPoint) -> None:
        """Import a package of somebody else's. Whatever it raises is said in one line, and takes nothing else down."""
        try:
            plugin.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            reason = f"{type(error).__name__}: {said_by(error)}"
            self.failed[plugin.name] = reason
            line = f"iclzoo: the plugin {plugin.name!r} ({plugin.value}) adds no {self.kind}s; it raised {reason}"
            with suppress(Exception):  # a standard error that is closed
                sys.stderr.write(f"{line}\n")


def failed_plugins() -> Mapping[str, str]:
    """The packages whose things could not be added, by the name of their entry point, and why."""
    for registry in Registry.every:
        registry.discover()
    return {name: reason for registry in Registry.every for name, reason in registry.failed.items()}
