"""Cards of checkpoints, by name or path, read without JAX."""

import os
import warnings
from collections.abc import Callable
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from ..errors import (
    CardError,
    CheckpointError,
    CorruptFileError,
    EmptyFileError,
    GitLFSPointerError,
    MissingFileError,
    NoFileError,
    NotACheckpointError,
    TooLargeError,
    UnknownNameError,
    ZooWarning,
    closest,
)
from .card import CARD_FILE, Card
from .files import read_file
from .folders import current

T = TypeVar("T")

MODEL_FILE = "model.safetensors"
MOST_CARD_BYTES = 2**24
_LFS_MAGIC = b"version https://git-lfs"


def list_checkpoints(pattern: str = "*") -> list[str]:
    """The names of the shipped checkpoints; `pattern` may hold wildcards."""
    return sorted(name for name in shipped() if fnmatchcase(name, pattern))


def checkpoint_folder(name: str | Path) -> Path:
    """The folder of a shipped checkpoint, by name, or of any other, by path.

    Where the working directory has a checkpoint of a shipped one's name, the shipped one is meant, and a warning says so.

    **Raises** `UnknownNameError` where there is neither, `NotACheckpointError` for a folder that is no checkpoint.
    """
    return reading(name, lambda folder: folder)


def read_card(name: str | Path) -> Card:
    """The card of a checkpoint, by name or path. **Raises** `CheckpointError`, or `UnknownNameError`."""
    return reading(name, lambda folder: card_at(folder / CARD_FILE))


def reading(name: str | Path, read: Callable[[Path], T]) -> T:
    """What `read` makes of the folder of a checkpoint; made again where it failed because the folder was being replaced."""
    place = _place(name)
    while True:
        folder, state = current(place)
        try:
            _check_is_checkpoint(folder, name)
            return read(folder)
        except (CheckpointError, UnknownNameError):
            if current(place) == (folder, state):
                raise


def _place(name: str | Path) -> Path:
    """Where the checkpoint of a name, or at a path, has to be."""
    if isinstance(name, str) and (ours := shipped().get(name)):
        own = Path(name)
        if (own / CARD_FILE).is_file() and not own.samefile(ours):
            warnings.warn(
                f"{name!r} is the shipped checkpoint of that name; the folder {own.absolute()} is another one: "
                f"for that, write {'./' + name!r}",
                ZooWarning,
                stacklevel=5,
            )
        return ours
    return Path(os.path.expanduser(name))


def _check_is_checkpoint(folder: Path, name: str | Path) -> None:
    if not os.path.exists(folder):
        raise UnknownNameError(f"no checkpoint or folder is called {str(name)!r:.200}; {closest(str(name), shipped())}")
    if not folder.is_dir():
        raise NotACheckpointError(f"{folder} is a file; a checkpoint is a folder with {CARD_FILE} and {MODEL_FILE}")
    if not (folder / CARD_FILE).exists():
        raise NotACheckpointError(f"{folder} is a directory without {CARD_FILE}, so it is no (finished) checkpoint")


def card_at(path: Path) -> Card:
    data = read_whole(path, MOST_CARD_BYTES)
    try:
        return Card.from_json(data.decode(), path)
    except UnicodeDecodeError:
        raise CardError(f"{path} is not text; restore it from its source") from None


def read_whole(path: Path, most: int) -> bytes:
    """The content of a file of at most `most` bytes."""
    try:
        data = read_file(path, most)
    except FileNotFoundError:
        raise MissingFileError(f"{path} is missing; copy it from the checkpoint's source") from None
    except NoFileError as error:
        raise NotACheckpointError(f"{error}; a checkpoint has a file there") from None
    except TooLargeError as error:
        raise CorruptFileError(f"{error}; copy it again from its source") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    if not data:
        raise EmptyFileError(f"{path} is empty; copy it again from its source")
    if data.startswith(_LFS_MAGIC):
        raise GitLFSPointerError(f"{path} is a Git-LFS pointer, not the data; run `git lfs pull` in its repository")
    return data


def shipped() -> dict[str, Path]:
    """The folder of each shipped checkpoint by its name."""
    entries = (Path(str(entry)) for entry in files("iclzoo.checkpoints").iterdir())
    return {entry.name: entry for entry in entries if entry.name[0] != "." and (entry / CARD_FILE).is_file()}
