"""Write docs/models.md, the list of all that the zoo holds, from the registries and the docstrings: `python docs/catalogue.py`.

With `--check`, only compare.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import equinox as eqx

from iclzoo.train.recipes.catalogue import list_recipes
from iclzoo.train.tasks.inputs import Inputs
from iclzoo.train.tasks.regression import Task
from iclzoo.zoo.algorithm import ALGORITHMS
from iclzoo.zoo.factory import list_models, model_class
from iclzoo.zoo.storage.config import SETTINGS

PAGE = Path(__file__).parent / "models.md"
HEAD = """# What the zoo holds

Made by `python docs/catalogue.py` from the registries and the docstrings, which hold the equations and the errors. How to add a model:
[adding-a-model.md](adding-a-model.md).
"""


def first_line(thing: Any) -> str:
    return (thing.__doc__ or "").strip().split("\n")[0].rstrip(".").replace("|", "\\|")


def equation(thing: Any) -> str:
    """The first indented line of a docstring."""
    lines = [line.strip() for line in (thing.__doc__ or "").split("\n") if line.startswith(" " * 8) and line.strip()]
    return f"`{lines[0].rstrip(',')}`".replace("|", "\\|") if lines else ""


def sources(thing: Any) -> str:
    """The papers a docstring cites, by author and year."""
    text = " ".join((thing.__doc__ or "").split())
    found = re.findall(r"[A-Z][\w’'-]+(?: [A-Z][\w-]*)?(?: et al\.|(?:, [A-Z]\w+)* and [A-Z]\w+)? (?:19|20)\d\d", text)
    found += re.findall(r"von Oswald et al\. 20\d\d", text)
    return "; ".join(dict.fromkeys(f for f in found if f"von {f}" not in found))


def modules(package: str) -> Iterator[ModuleType]:
    for module in iter_modules(import_module(package).__path__, f"{package}."):
        yield import_module(module.name)


def own(module: ModuleType) -> Iterator[Any]:
    """The public classes and functions a module defines."""
    for name, thing in vars(module).items():
        if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__ and callable(thing):
            yield thing


def rows(cells: Iterable[tuple[str, ...]], *columns: str) -> str:
    lines = [columns, tuple("---" for _ in columns), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def page() -> str:
    classes = {name: model_class(name) for name in list_models()}
    models = [(f"`{name}`", first_line(cls), equation(cls), sources(cls)) for name, cls in classes.items()]
    constructions = [
        (f"`{thing.__name__}`", first_line(thing), equation(thing), sources(thing))
        for module in modules("iclzoo.zoo.constructions")
        if hasattr(module, "example")
        for thing in own(module)
        if thing.__name__ != "example"
    ]
    algorithms = [
        (f"`{thing.__name__}`", first_line(thing), equation(thing), sources(thing))
        for module in modules("iclzoo.zoo.algorithms")
        for thing in own(module)
        if isinstance(thing, type) and issubclass(thing, eqx.Module)
    ]
    by_name = [(f"`{name}`", first_line(ALGORITHMS[name])) for name in ALGORITHMS.names()]
    settings = sorted(SETTINGS.items().items())
    tasks = [
        (f"`{kind}`", first_line(cls), equation(cls), sources(cls)) for kind, cls in settings if issubclass(cls, Task)
    ]
    inputs = [(f"`{kind}`", first_line(cls)) for kind, cls in settings if issubclass(cls, Inputs)]
    teachers = [(f"`{kind}`", first_line(cls)) for kind, cls in settings if kind.endswith("teacher")]
    head = ("what it is", "equation", "source")
    return "\n".join(
        [
            HEAD,
            "## Models\n",
            rows(models, "name", *head),
            "## Constructed weights\n",
            rows(constructions, "function", *head),
            "## Classical algorithms\n",
            rows(algorithms, "class", *head),
            "By name, each at its best on a task or beside a learner:\n",
            rows(by_name, "name", "what it is"),
            "## Tasks\n",
            rows(tasks, "kind", *head),
            "## Input distributions\n",
            rows(inputs, "kind", "what it is"),
            "## Teachers\n",
            rows(teachers, "kind", "what it is"),
            f"## Recipes\n\n{', '.join(f'`{name}`' for name in list_recipes())}\n",
        ]
    )


def main() -> None:
    if "--check" in sys.argv:
        sys.exit(
            "docs/models.md is not up to date: run python docs/catalogue.py"
            if PAGE.read_text(encoding="utf-8") != page()
            else 0
        )
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
