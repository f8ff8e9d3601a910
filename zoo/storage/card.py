"""What a checkpoint says about itself."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..checks.annotations import checked
from ..errors import CardError, ConfigError, closest, said_by
from ..table import settings_table

FORMAT = 2
MAX_DEPTH = 32
CARD_FILE = "config.json"
_RECORDED_FILE = re.compile(r"model\.safetensors|steps/[0-9]{1,18}\.safetensors")
LIBRARIES = ("iclzoo", "jax", "jaxlib", "equinox", "optax", "safetensors", "numpy")


@dataclass(frozen=True, repr=False)
class Card:
    """The card of a checkpoint. What a person writes comes first; `save` fills in the rest."""

    description: str = ""
    reference: str = ""  # the paper and the figure the checkpoint stands for
    task: Mapping[str, Any] = field(default_factory=dict)  # the distribution it was trained on
    training: Mapping[str, Any] = field(default_factory=dict)  # the recipe, the optimiser's every setting, the seed
    loss: str = "half_mse"
    metrics: Mapping[str, Any] = field(default_factory=dict)  # measured values, with the number of tasks
    model: str = ""  # the name of the architecture in the registry
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, str] = field(default_factory=dict)  # name → dtype[shape]
    steps: tuple[int, ...] = ()  # the points of training that were kept, in order
    files: Mapping[str, Any] = field(default_factory=dict)  # name → bytes and sha256
    versions: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, Any] = field(
        default_factory=dict
    )  # name → package and version, or file and sha256, if not of the zoo
    format: int = FORMAT

    def __repr__(self) -> str:
        return f"<Card of {self.model or 'no model'}: {self.description or 'no description'}>"

    def _repr_html_(self) -> str:
        """The card as a notebook shows it, without its files."""
        left_out = ("metrics", "tensors", "files", "origins", "format")
        return settings_table("card", {k: v for k, v in asdict(self).items() if k not in left_out})._repr_html_()

    def to_json(self) -> str:
        """The card as text. **Raises** `CardError` for what JSON cannot hold: numbers that are not finite, or objects of any class."""
        try:
            entries = {name: value for name, value in asdict(self).items() if name != "origins" or value}
            text = json.dumps(entries, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
            text.encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise CardError(f"the card cannot be written as JSON: {said_by(error)}") from None
        return text

    @classmethod
    def from_json(cls, text: str, path: Path) -> "Card":
        """The card in `text`, read from `path`. **Raises** `CardError`."""
        try:
            entries = parsed(text)
        except (ValueError, RecursionError) as error:
            raise CardError(f"{path} is not valid JSON ({error}); restore the file from its source") from None
        if not isinstance(entries, dict):
            raise CardError(
                f"{path} holds a JSON {type(entries).__name__}, expected an object; restore it from its source"
            )
        if entries.get("format") == 1:
            entries = _renewed(entries)
        known = {entry.name: entry for entry in fields(cls)}
        for name in entries:
            if name not in known:
                raise CardError(f"{path} has an entry {name!r:.60} that no card has; {closest(name, known)}")
        if entries.get("format") != FORMAT:
            raise CardError(
                f"{path} has format {entries.get('format')!r:.60}, this version of iclzoo reads 1 and {FORMAT}"
            )
        for name, value in entries.items():
            expected = _entry_type(name)
            if not isinstance(value, expected):
                raise CardError(f"{path}: entry {name!r} must be a {expected.__name__}, got {value!r:.60}")
        if not all(type(step) is int and step >= 0 for step in entries.get("steps", ())):
            raise CardError(f"{path}: entry 'steps' must list whole numbers, got {entries['steps']!r:.60}")
        for file, recorded in entries.get("files", {}).items():
            if not _RECORDED_FILE.fullmatch(file) or not isinstance(recorded, dict):
                raise CardError(f"{path}: entry 'files' must record files of the checkpoint, got {file!r:.60}")
        for origin in entries.get("origins", {}).values():
            if not isinstance(origin, dict) or not all(isinstance(value, str) for value in origin.values()):
                raise CardError(
                    f"{path}: entry 'origins' must say a package or a file for each name, got {origin!r:.60}"
                )
        values: dict[str, Any] = entries | {"steps": tuple(entries.get("steps", ()))}
        try:
            return cls(**values)
        except ConfigError as error:
            raise CardError(f"{path}: {error}; restore it from its source") from None


Card.__init__ = checked(Card.__init__)

_version = cache(version)


def parsed(text: str) -> Any:
    """What a JSON text says. **Raises** `ValueError` or `RecursionError` for what is none, or would be read as less than is there:
    entries given twice, too deep a nest, or what could not be written again, such as NaN.
    """
    value = json.loads(text, object_pairs_hook=_without_duplicates)
    check_depth(value)
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return value


def _renewed(entries: dict[str, Any]) -> dict[str, Any]:
    """A card of format 1 in today's words."""
    entries = {"metrics" if name == "figures" else name: value for name, value in entries.items()} | {"format": FORMAT}
    match entries.get("metrics"):
        case {"steps": steps, **others}:
            entries["metrics"] = others | {"implied_steps": steps}
    return entries


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for name, value in pairs:
        if name in entries:
            raise ValueError(f"the entry {name!r:.60} is given twice")
        entries[name] = value
    return entries


def check_depth(value: Any, levels: int = MAX_DEPTH) -> None:
    """**Raises** `ValueError` if lists and objects are nested more deeply than in any card, and than a reader can follow."""
    if not levels:
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, dict | list):
        for entry in value.values() if isinstance(value, dict) else value:
            check_depth(entry, levels - 1)


def library_versions() -> dict[str, str]:
    """The versions of the libraries that decide what a checkpoint computes."""
    return {library: _version(library) for library in LIBRARIES}


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
