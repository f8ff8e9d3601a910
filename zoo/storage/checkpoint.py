"""Checkpoints: a folder with a card, the weights, and the points of training that were kept.

<name>/config.json              the card
<name>/model.safetensors        the weights
<name>/steps/<step>.safetensors the weights at a step of training, where the path was kept
"""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax.random as jr
from safetensors import SafetensorError

from ..checks.arguments import LEARNER, PATH, mapping
from ..checks.gate import gate, gated
from ..checks.memory import physical_memory
from ..checks.process import check_process
from ..checks.values import An, shown, whole_number
from ..errors import (
    CardError,
    CheckpointError,
    ConfigError,
    ContractError,
    CorruptFileError,
    ExistsError,
    MismatchError,
    MissingStepError,
    TruncatedFileError,
    UnknownNameError,
    enumerated,
    said_by,
)
from ..factory import create, hyperparameters, model_name
from . import reading as cards
from .card import CARD_FILE, Card, library_versions
from .config import from_config, to_config
from .files import finished_name, located, locked, write_atomically, writing
from .folders import FolderKind
from .origins import origins, with_advice
from .reading import MODEL_FILE, card_at, read_whole, reading
from .tensors import described, differing_settings, fill, from_bytes, named_arrays, to_bytes

T = TypeVar("T")

MOST_STEP = 10**18 - 1  # that a card can list
MOST_STEPS_NAMED = 10
STEPS_TO_KEEP = mapping(partial(whole_number, least=0, most=MOST_STEP), LEARNER, "{0: model}")
_DESCRIBED = re.compile(r"[a-z0-9]+\[((?:[0-9]{1,18},?)*)\]")


list_checkpoints = gated(cards.list_checkpoints)
checkpoint_folder = gate(name=PATH)(cards.checkpoint_folder)
read_card = gate(name=PATH)(cards.read_card)


@gate(name=PATH)
def load(name: str | Path, *, step: int | None = None) -> Any:
    """The model of a checkpoint, by name or path; with `step`, as it was at that point of training.

    Nothing but the folder is needed, nothing is written, and the network is never opened. Beside a process that overwrites the
    checkpoint, it is the old one or the new.

    **Raises** `UnknownNameError`, or a `CheckpointError` of its own kind for each way a checkpoint can be damaged.
    """
    check_process()
    return reading(name, lambda folder: _model(folder, step))


def skeleton(card: Card, source: Path) -> Any:
    """The architecture on a card, with shapes where the arrays will be. **Raises** `CardError`."""
    check_num_layers(card, source)
    try:
        return eqx.filter_eval_shape(lambda: create(card.model, key=jr.key(0), **card.hyperparameters))
    except UnknownNameError as error:
        raise CardError(f"{source}: {with_advice(error, card.origins)}") from None
    except ConfigError as error:
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


def settings_of(card: Card, entry: str) -> Any:
    """The task or the training on a card. **Raises** `CardError`, saying what to install or import, for a kind that is not known here."""
    try:
        return from_config(dict(getattr(card, entry)))
    except UnknownNameError as error:
        raise CardError(f"the {entry} of this checkpoint cannot be read: {with_advice(error, card.origins)}") from None


@gate(card=An((Card,)), steps=STEPS_TO_KEEP)
def save(
    path: str | Path,
    model: Any,
    card: Card | None = None,
    *,
    steps: Mapping[int, Any] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a model to the folder `path` as a checkpoint; `steps` maps points of training to the model as it was then.

    The folder appears whole or not at all; a link is followed to where it leads. With `overwrite`, a folder is replaced if it is a
    checkpoint and holds nothing else.

    **Raises** `ExistsError` if something is there that is not to be replaced; `ContractError` for what `load` would not give back: a model
    whose class is not registered, arrays of another shape than its hyperparameters make, a number that is none of them; `CardError` for a
    card that cannot be read back; `WriteError` if the system does not let it be written, what was there being untouched.
    """
    place = located(path)
    CHECKPOINT.replace(place, checkpoint_files(model, card or Card(), steps or {}), overwrite=overwrite)
    return Path(os.path.expanduser(path))


@gate(name=PATH, card=An((Card,)))
def write_card(name: str | Path, card: Card) -> None:
    """Replace the card of a checkpoint, as when its metrics were measured.

    **Raises** `MismatchError` if it is the card of other files than those that are there.
    """
    place = located(checkpoint_folder(name))
    with writing(place), locked(place.parent):
        CHECKPOINT.settle(place)
        there = card_at(place / CARD_FILE)
        for entry in ("model", "hyperparameters", "tensors", "steps", "files", "origins"):
            if getattr(card, entry) != getattr(there, entry):
                raise MismatchError(
                    f"{place / CARD_FILE} is not replaced: {entry} of the new card is not that of the checkpoint there; "
                    "read its card again with iclzoo.read_card, and change that"
                )
        text = card.to_json()
        Card.from_json(text, place / CARD_FILE)
        write_atomically(place / CARD_FILE, text.encode())


@gate(name=PATH)
def copy_checkpoint(name: str | Path, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write the files of a checkpoint, and no others of its folder such as a run's, to the folder `path`, as `save` writes one.

    **Raises** what `load` and `save` do.
    """

    def read(folder: Path) -> dict[str, bytes]:
        card = card_at(folder / CARD_FILE)
        return {file: _checked_bytes(folder, file, card) for file in card.files} | {CARD_FILE: card.to_json().encode()}

    CHECKPOINT.replace(located(path), reading(name, read), overwrite=overwrite)
    return Path(os.path.expanduser(path))


@gate(name=PATH)
def upgrade_card(name: str | Path) -> None:
    """Write the card of a checkpoint anew, in today's format and with today's names. **Raises** what `read_card` and `write_card` do."""
    card = read_card(name)
    for entry in ("task", "training"):
        if getattr(card, entry):
            card = replace(card, **{entry: to_config(settings_of(card, entry))})
    write_card(name, card)


def checkpoint_files(model: Any, card: Card, steps: Mapping[int, Any]) -> dict[str, bytes]:
    """Every file of a checkpoint and its bytes, the card last. **Raises** what `save` does for what `load` would not give back."""
    known, settings = model_name(model), hyperparameters(model)
    for name, value in settings.items():
        if hasattr(value, "dtype"):
            raise ContractError(
                f"this {type(model).__name__} is not saved: its hyperparameter {name} is {shown(value)}, and a card holds "
                f"Python's numbers; make it {value.tolist()!r:.60}"
            )
    arrays = named_arrays(model)
    contents = {step_file(step): to_bytes(named_arrays(steps[step])) for step in sorted(steps)}
    contents[MODEL_FILE] = to_bytes(arrays)
    card = replace(
        card,
        model=known,
        hyperparameters=settings,
        tensors=described(arrays),
        steps=tuple(sorted(steps)),
        files={name: fingerprint(data) for name, data in contents.items()},
        versions=card.versions or library_versions(),
        origins=origins(type(model), known, card.task, card.training),
    )
    contents[CARD_FILE] = card.to_json().encode()
    _check_loadable(model, contents)
    return contents


def step_file(step: int) -> str:
    """Where the weights at a point of training are kept."""
    return f"steps/{step}.safetensors"


def fingerprint(data: bytes) -> dict[str, Any]:
    """What a card records of a file: its length and its hash."""
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def recorded(folder: Path, file: str, card: Card) -> Mapping[str, Any]:
    """What the card of a checkpoint records of one of its files. **Raises** `CardError` if that is no length and hash."""
    entry = card.files.get(file, {})
    if type(entry.get("bytes")) is not int or "sha256" not in entry:
        raise CardError(f"{folder / CARD_FILE} records no length and hash of {file}; restore it from its source")
    return entry


def read_tensors(folder: Path, file: str, card: Card) -> dict[str, Any]:
    """The arrays in one file of a checkpoint, after checking it against the card."""
    data = _checked_bytes(folder, file, card)
    try:
        return from_bytes(data)
    except (SafetensorError, ValueError, OverflowError, MemoryError) as error:
        raise CorruptFileError(
            f"{folder / file} is not a safetensors file ({said_by(error)}); write it again with iclzoo.save"
        ) from None


def _checked_bytes(folder: Path, file: str, card: Card) -> bytes:
    """One file of a checkpoint, its length being checked before it is read, and its hash after."""
    path = folder / file
    on_card = recorded(folder, file, card)
    expected, most = on_card["bytes"], _most_bytes(card, folder / CARD_FILE)
    if not 0 <= expected <= most:
        raise CardError(
            f"{folder / CARD_FILE} records {expected} bytes of {file}, but its tensors take {most} at most; restore it from its source"
        )
    data = read_whole(path, expected)
    if len(data) < expected:
        raise TruncatedFileError(f"{path} ends after {len(data)} of {expected} bytes; copy it again from its source")
    if fingerprint(data) != dict(on_card):
        raise CorruptFileError(
            f"{path} is not the file its card records (its SHA-256 hash differs); copy it again from its source"
        )
    return data


def _check_own(path: Path) -> None:
    """**Raises** `ZooError` unless a file is the card of a checkpoint that has no other steps than those on it."""
    card = card_at(path)
    kept = {str(file.relative_to(path.parent)) for file in path.parent.glob("steps/*") if not finished_name(file.name)}
    if unknown := kept - card.files.keys():
        raise ExistsError(f"its card does not list {', '.join(sorted(unknown)[:3])}")


def _model(folder: Path, step: int | None) -> Any:
    card = card_at(folder / CARD_FILE)
    if step is not None and step not in card.steps:
        nearest = sorted(sorted(card.steps, key=lambda kept: abs(kept - step))[:MOST_STEPS_NAMED])
        which = "the steps it keeps" if len(nearest) == len(card.steps) else f"the nearest of its {len(card.steps)}"
        raise MissingStepError(f"{folder} keeps no step {step}; {which}: {', '.join(map(str, nearest)) or 'none'}")
    file = MODEL_FILE if step is None else step_file(step)
    arrays = read_tensors(folder, file, card)
    return _filled(skeleton(card, folder / CARD_FILE), card, arrays, folder / file)


def _filled(blank: Any, card: Card, arrays: Mapping[str, Any], source: Path) -> Any:
    if described(arrays) != dict(card.tensors):
        raise MismatchError(f"{source} does not hold the tensors its card lists: {_differences(card, arrays)}")
    return fill(blank, arrays, f"{source}")


def _check_loadable(model: Any, contents: Mapping[str, bytes]) -> None:
    """**Raises** `ContractError` unless these files give the model back, and every step."""
    where = Path(type(model).__name__)
    card = Card.from_json(contents[CARD_FILE].decode(), where / CARD_FILE)
    try:
        blank = skeleton(card, where / CARD_FILE)
        for file in card.files:
            _filled(blank, card, from_bytes(contents[file]), where / file)
    except CheckpointError as error:
        raise ContractError(f"this {where} is not saved, for it could not be loaded again: {error}") from None
    if problems := list(differing_settings(model, blank)):
        raise ContractError(
            f"this {where} is not saved, for it would come back as another: {enumerated(problems)}. "
            "Make what is to be kept an argument of __init__, or an array"
        )


def _most_bytes(card: Card, source: Path) -> int:
    """How long a file of the tensors on a card can be: their entries, and a header that names them."""
    most = 2**16
    for name, description in card.tensors.items():
        match = _DESCRIBED.fullmatch(description) if isinstance(description, str) else None
        if match is None:
            raise CardError(
                f"{source}: {name!r:.60} is described as {description!r:.60}, expected one as float32[1,11,11]"
            )
        most += 8 * prod(map(int, filter(None, match[1].split(",")))) + 8 * len(name.encode()) + 2**10
    return min(most, physical_memory())


def _differences(card: Card, arrays: Mapping[str, Any]) -> str:
    found = described(dict(arrays))
    names = (name for name in found.keys() | card.tensors.keys() if found.get(name) != card.tensors.get(name))
    return enumerated(
        f"{name} is {found.get(name, 'missing')}, expected {card.tensors.get(name, 'none')}" for name in names
    )


CHECKPOINT = FolderKind(
    r"config\.json|model\.safetensors|steps(/[0-9]{1,18}\.safetensors)?", mark=CARD_FILE, check=_check_own
)
