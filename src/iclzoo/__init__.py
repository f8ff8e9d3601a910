"""iclzoo: a zoo of small sequence models that learn in context, the trainer that made them, and the instruments to look inside.

The names used every day are those of `__init__.pyi`, each loaded when it is first asked for, so that `import iclzoo` is quick. Everything
else is imported from its module, as in `from iclzoo.inspect.weights.spectrum import spectra`.
"""

import warnings
from pathlib import Path
from typing import Any

import lazy_loader

_package = Path(__file__).resolve().parent
if not (_package / "zoo").is_dir() and (_package.parents[1] / "zoo").is_dir():
    __path__.append(str(_package.parents[1]))  # a checkout without symbolic links

from .moved import announce  # noqa: E402 — the path comes first
from .zoo.errors import closest  # noqa: E402

announce()

_RENAMED = {  # for one version
    "Content": "Measurement",
    "Subject": "Checkpoint",
    "TaskPool": "PromptPool",
    "Zero": "ZeroPredictor",
    "register": "register_model",
}
_lazily, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        warnings.warn(f"iclzoo.{name} is now iclzoo.{_RENAMED[name]}", DeprecationWarning, stacklevel=2)
        return _lazily(_RENAMED[name])
    try:
        return _lazily(name)
    except AttributeError:
        if name in __all__:
            raise
        hint = "" if name.startswith("_") else f"; {closest(name, __all__)}"
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}") from None
