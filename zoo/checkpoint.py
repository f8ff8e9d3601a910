"""Checkpoints: a folder with a card, the weights, and the points of training that were kept.

<name>/config.json              the card
<name>/model.safetensors        the weights
<name>/steps/<step>.safetensors the weights at a step of training, where the path was kept
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.random as jr
from safetensors import SafetensorError

from .card import CARD_FILE, Card, library_versions
from .errors import (
    CardError,
    CheckpointError,
    ConfigError,
    CorruptFileError,
    EmptyFileError,
    GitLFSPointerError,
    MismatchError,
    MissingFileError,
    MissingStepError,
    NotACheckpointError,
    TruncatedFileError,
    UnknownNameError,
    closest,
    enumerated,
    said_by,
)
from .files import recover_folder, replace_folder, write_atomically
from .registry import create, hyperparameters, model_name
from .tensors import described, fill, from_bytes, named_arrays, to_bytes

MODEL_FILE = "model.safetensors"
_LFS_MAGIC = b"version https://git-lfs"


def list_checkpoints(pattern: str = "*") -> list[str]:
    """The names of the shipped checkpoints; `pattern` may hold wildcards."""
    return sorted(name for name in _shipped() if fnmatchcase(name, pattern))


def checkpoint_folder(name: str | Path) -> Path:
    """The folder of a shipped checkpoint, by name, or of any other, by path.

    **Raises** `UnknownNameError` where there is neither, `NotACheckpointError` for a folder that is no checkpoint.
    """
    if isinstance(name, str) and (shipped := _shipped().get(name)):
        return shipped
    path = Path(name)
    recover_folder(path)
    if not os.path.exists(path):
        raise UnknownNameError(
            f"no checkpoint or folder is called {str(name)!r:.200}; {closest(str(name), _shipped())}"
        )
    if not path.is_dir():
        raise NotACheckpointError(f"{path} is a file; a checkpoint is a folder with {CARD_FILE} and {MODEL_FILE}")
    if not (path / CARD_FILE).exists():
        raise NotACheckpointError(f"{path} is a directory without {CARD_FILE}, so it is no (finished) checkpoint")
    return path


def read_card(name: str | Path) -> Card:
    """The card of a checkpoint, by name or path. **Raises** `CheckpointError`, or `UnknownNameError`."""
    path = checkpoint_folder(name) / CARD_FILE
    try:
        return Card.from_json(_read(path).decode(), path)
    except UnicodeDecodeError:
        raise CardError(f"{path} is not text; restore it from its source") from None


def load(name: str | Path, *, step: int | None = None) -> Any:
    """The model of a checkpoint, by name or path; with `step`, as it was at that point of training.

    Nothing but the folder is needed, and the network is never opened.

    **Raises** `UnknownNameError`, or a `CheckpointError` of its own kind for each way a checkpoint can be damaged.
    """
    folder = checkpoint_folder(name)
    card = read_card(folder)
    if step is not None and step not in card.steps:
        kept = ", ".join(map(str, card.steps)) or "none"
        raise MissingStepError(f"{folder} keeps no step {step}; the steps it keeps: {kept}")
    file = MODEL_FILE if step is None else step_file(step)
    arrays = read_tensors(folder, file, card)
    if described(arrays) != dict(card.tensors):
        raise MismatchError(f"{folder / file} does not hold the tensors its card lists: {_differences(card, arrays)}")
    return fill(skeleton(card, folder / CARD_FILE), arrays, f"{folder / file}")


def skeleton(card: Card, source: Path) -> Any:
    """The architecture on a card, with shapes where the arrays will be. **Raises** `CardError`."""
    check_num_layers(card, source)
    try:
        return eqx.filter_eval_shape(lambda: create(card.model, key=jr.key(0), **card.hyperparameters))
    except (ConfigError, UnknownNameError) as error:
        raise CardError(f"{source}: {error}") from None
    except Exception as error:  # whatever a constructor makes of hyperparameters it was not written for
        reason = " ".join(str(error).split())
        raise CardError(f"{source}: its hyperparameters build no {card.model!r} ({reason:.300})") from error


def check_num_layers(card: Card, source: Path) -> None:
    """`CardError` if a card asks for more layers than its tensors can fill: building them would take for ever."""
    num_layers = card.hyperparameters.get("num_layers", 0)
    if isinstance(num_layers, int) and num_layers > len(card.tensors):
        raise CardError(
            f"{source}: num_layers is {num_layers}, but the card lists {len(card.tensors)} tensors; restore it from its source"
        )


def save(
    path: str | Path,
    model: Any,
    card: Card | None = None,
    *,
    steps: Mapping[int, Any] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a model to the folder `path` as a checkpoint; `steps` maps points of training to the model as it was then.

    The folder appears whole or not at all. **Raises** `ExistsError` if it exists, unless `overwrite`;
    `ContractError` if the model's class is not registered.
    """
    path = Path(path)
    contents = checkpoint_files(model, card or Card(), steps or {})
    replace_folder(path, contents, overwrite=overwrite, mark=CARD_FILE)
    return path


def write_card(name: str | Path, card: Card) -> None:
    """Replace the card of a checkpoint, as when its figures were measured."""
    write_atomically(checkpoint_folder(name) / CARD_FILE, card.to_json().encode())


def checkpoint_files(model: Any, card: Card, steps: Mapping[int, Any]) -> dict[str, bytes]:
    """Every file of a checkpoint and its bytes, the card last."""
    arrays = named_arrays(model)
    contents = {step_file(step): to_bytes(named_arrays(steps[step])) for step in sorted(steps)}
    contents[MODEL_FILE] = to_bytes(arrays)
    card = replace(
        card,
        model=model_name(model),
        hyperparameters=hyperparameters(model),
        tensors=described(arrays),
        steps=tuple(sorted(steps)),
        files={name: fingerprint(data) for name, data in contents.items()},
        versions=card.versions or library_versions(),
    )
    contents[CARD_FILE] = card.to_json().encode()
    return contents


def step_file(step: int) -> str:
    """Where the weights at a point of training are kept."""
    return f"steps/{step}.safetensors"


def fingerprint(data: bytes) -> dict[str, Any]:
    """What a card records of a file: its length and its hash."""
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def recorded(folder: Path, file: str, card: Card) -> Mapping[str, Any]:
    """What the card of a checkpoint records of one of its files. **Raises** `CardError` if that is nothing."""
    if file not in card.files:
        raise CardError(f"{folder / CARD_FILE} records no length and hash of {file}; restore it from its source")
    return card.files[file]


def read_tensors(folder: Path, file: str, card: Card) -> dict[str, Any]:
    """The arrays in one file of a checkpoint, after checking it against the card."""
    path = folder / file
    data = _read(path)
    on_card = recorded(folder, file, card)
    expected = on_card.get("bytes")
    if isinstance(expected, int) and len(data) < expected:
        raise TruncatedFileError(f"{path} ends after {len(data)} of {expected} bytes; copy it again from its source")
    if fingerprint(data) != dict(on_card):
        raise CorruptFileError(
            f"{path} is not the file its card records (its SHA-256 hash differs); copy it again from its source"
        )
    try:
        return from_bytes(data)
    except (SafetensorError, ValueError, OverflowError, MemoryError) as error:
        raise CorruptFileError(
            f"{path} is not a safetensors file ({said_by(error)}); write it again with iclzoo.save"
        ) from None


def _read(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise NotACheckpointError(f"{path} is a directory; a checkpoint has a file there")
        if path.exists() and not path.is_file():
            raise NotACheckpointError(f"{path} is a device or a pipe; a checkpoint has a file there")
        data = path.read_bytes()
    except FileNotFoundError:
        raise MissingFileError(f"{path} is missing; copy it from the checkpoint's source") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    if not data:
        raise EmptyFileError(f"{path} is empty; copy it again from its source")
    if data.startswith(_LFS_MAGIC):
        raise GitLFSPointerError(f"{path} is a Git-LFS pointer, not the data; run `git lfs pull` in its repository")
    return data


def _differences(card: Card, arrays: Mapping[str, Any]) -> str:
    found = described(dict(arrays))
    names = (name for name in found.keys() | card.tensors.keys() if found.get(name) != card.tensors.get(name))
    return enumerated(
        f"{name} is {found.get(name, 'missing')}, expected {card.tensors.get(name, 'none')}" for name in names
    )


def _shipped() -> dict[str, Path]:
    """The folder of each shipped checkpoint by its name."""
    entries = (Path(str(entry)) for entry in files("iclzoo.checkpoints").iterdir())
    return {entry.name: entry for entry in entries if entry.name[0] != "." and (entry / CARD_FILE).is_file()}
