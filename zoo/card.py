"""What a checkpoint says about itself."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .errors import CardError, closest

FORMAT = 1
CARD_FILE = "config.json"
LIBRARIES = ("iclzoo", "jax", "jaxlib", "equinox", "optax", "safetensors", "numpy")


@dataclass(frozen=True)
class Card:
    """The card of a checkpoint. What a person writes comes first; `save` fills in the rest."""

    description: str = ""
    reference: str = ""  # the paper and the figure the checkpoint stands for
    task: Mapping[str, Any] = field(default_factory=dict)  # the distribution it was trained on
    training: Mapping[str, Any] = field(default_factory=dict)  # the recipe, the optimiser's every setting, the seed
    loss: str = "half_mse"
    figures: Mapping[str, Any] = field(default_factory=dict)  # measured values, with the number of tasks
    model: str = ""  # the name of the architecture in the registry
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, str] = field(default_factory=dict)  # name → dtype[shape]
    steps: tuple[int, ...] = ()  # the points of training that were kept, in order
    files: Mapping[str, Any] = field(default_factory=dict)  # name → bytes and sha256
    versions: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT

    def to_json(self) -> str:
        """The card as text. Numbers that are not finite are refused: JSON has none."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, path: Path) -> "Card":
        """The card in `text`, read from `path`. **Raises** `CardError`."""
        try:
            entries = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise CardError(f"{path} is not valid JSON ({error}); restore the file from its source") from None
        if not isinstance(entries, dict):
            raise CardError(
                f"{path} holds a JSON {type(entries).__name__}, expected an object; restore it from its source"
            )
        known = {entry.name: entry for entry in fields(cls)}
        for name in entries:
            if name not in known:
                raise CardError(f"{path} has an entry {name!r} that no card has; {closest(name, known)}")
        if entries.get("format") != FORMAT:
            raise CardError(f"{path} has format {entries.get('format')!r}, this version of iclzoo reads {FORMAT}")
        for name, value in entries.items():
            expected = _entry_type(name)
            if not isinstance(value, expected):
                raise CardError(f"{path}: entry {name!r} must be a {expected.__name__}, got {value!r:.60}")
        if not all(isinstance(step, int) and step >= 0 for step in entries.get("steps", ())):
            raise CardError(f"{path}: entry 'steps' must list whole numbers, got {entries['steps']!r:.60}")
        values: dict[str, Any] = entries | {"steps": tuple(entries.get("steps", ()))}
        return cls(**values)


def library_versions() -> dict[str, str]:
    """The versions of the libraries that decide what a checkpoint computes."""
    return {library: version(library) for library in LIBRARIES}


def _entry_type(name: str) -> type:
    match name:
        case "description" | "reference" | "loss" | "model":
            return str
        case "format":
            return int
        case "steps":
            return list
        case _:
            return dict
