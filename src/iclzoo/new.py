"""Files to begin with: a model, a task, an algorithm or an instrument that keeps its contract."""

import os
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .zoo.errors import ConfigError, ExistsError
from .zoo.registry import Registry
from .zoo.storage.files import located, write_new, writing

TEMPLATES = Path(__file__).parent / "templates"
SUFFIX = ".py.jinja"


def kinds() -> list[str]:
    """What there are templates for."""
    return sorted(path.name.removesuffix(SUFFIX) for path in TEMPLATES.glob(f"*{SUFFIX}"))


def source(kind: str, name: str) -> str:
    """A Python file that registers a new thing of that kind under `name`. **Raises** `ConfigError` for a name that makes no class."""
    cls = "".join(word.capitalize() for word in name.replace("-", "_").split("_"))
    if not cls.isidentifier() or not name.isascii():
        raise ConfigError(
            f"NAME must be made of letters, digits, - and _, beginning with a letter, as in my_model; got {name!r:.60}"
        )
    taken = [registry.kind for registry in Registry.every if name in registry]
    if taken:
        raise ConfigError(f"the name {name!r} already belongs to a {taken[0]}; choose another")
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    return environment.get_template(f"{kind}{SUFFIX}").render(name=name, cls=cls)


def write(kind: str, name: str, path: Path | None = None) -> Path:
    """Write that file to `path`, by default NAME.py here; returns its path. **Raises** `ExistsError` if something is there."""
    text = source(kind, name)
    path = path or Path(f"{name.replace('-', '_')}.py")
    place = located(path)
    if os.path.lexists(place):
        raise ExistsError(f"{path} is there already; name another file with -o")
    with writing(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_new(place, text.encode())
    return path
