"""Where modules went: one that has moved answers, for one version, with an error that names its new place."""

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

# In `moved.txt` each line is the old place, of a module or of a name in one that is a folder now, and the new one, below `iclzoo`.
_MOVED = dict(line.split() for line in Path(__file__).with_name("moved.txt").read_text(encoding="utf-8").splitlines())
_FOLDERS = {old.rpartition(".")[0] for old in _MOVED} - {"zoo", "train", "inspect"}


class _Moved(MetaPathFinder):
    """**Raises** `ImportError` for a module that has moved; finds the folders that have the names of old modules."""

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        package, _, module = fullname.partition(".")
        if package == __package__ and module in _MOVED:
            raise ImportError(f"{fullname} has moved: import {package}.{_MOVED[module]}", name=fullname)
        if package == __package__ and module in _FOLDERS:
            spec = PathFinder.find_spec(fullname, path, target)
            if spec is not None:
                spec.loader = _Folder()
            return spec
        return None


class _Folder(Loader):
    """A folder without a file of its own, which says where the names went that its module had."""

    def exec_module(self, module: ModuleType) -> None:
        def absent(name: str) -> None:
            package, _, folder = module.__name__.partition(".")
            place = _MOVED.get(f"{folder}.{name}")
            if place is None:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            raise ImportError(f"{name} has moved from {module.__name__} to {package}.{place}", name=module.__name__)

        vars(module)["__getattr__"] = absent


def announce() -> None:
    """Let imports of modules that have moved say where they are."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Moved())
