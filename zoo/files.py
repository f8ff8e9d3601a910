"""Writing files so that a reader, or a power cut, never finds half of one."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from .errors import ExistsError

_UNFINISHED = ".unfinished"


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path`, through a temporary file beside it: the old content stays until the new is on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def remove_unfinished(folder: Path) -> None:
    """Delete what `write_atomically` leaves in a folder, and those inside it, when its process is killed."""
    for leftover in folder.rglob(f".*{_UNFINISHED}"):
        leftover.unlink()


def replace_folder(path: Path, contents: Mapping[str, bytes], *, overwrite: bool, mark: str) -> None:
    """Make `path` a folder of these files; it appears whole or not at all.

    An existing folder is moved aside to `.<name>.previous` for the moment of the exchange; `recover_folder` brings it back
    should the process die in that moment. **Raises** `ExistsError` if `path` exists, unless `overwrite` is asked for and
    the folder holds the file `mark`: nothing else is ever deleted.
    """
    recover_folder(path)
    if path.exists() and not overwrite:
        raise ExistsError(f"{path} exists; choose another path or pass overwrite=True")
    if path.exists() and not (path / mark).is_file():
        raise ExistsError(f"{path} exists and holds no {mark}, so it is not overwritten; choose another path")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        os.chmod(temporary, 0o755)
        for name, data in contents.items():
            write_atomically(temporary / name, data)
        if path.exists():
            os.replace(path, _previous(path))
        os.replace(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(path.parent)
    shutil.rmtree(_previous(path), ignore_errors=True)


def recover_folder(path: Path) -> None:
    """Undo an exchange that was cut short."""
    if not os.path.exists(path) and os.path.isdir(_previous(path)):
        os.replace(_previous(path), path)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _previous(path: Path) -> Path:
    return path.with_name(f".{path.name}.previous")
