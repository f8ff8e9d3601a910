"""Writing files so that a reader, a power cut or another process never finds half of one, and nothing of anybody else's is touched.

What is written goes beside its place under a name of this program's own, is synced, and is moved there. Whoever writes in a folder holds
its lock meanwhile: what lies there under such a name is then what a killed process left, and the next who writes the same file removes it.
"""

import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from ..checks.values import shown
from ..errors import NoFileError, PathError, TooLargeError, WriteError, ZooError, said_by

_NO_FOLDER_LOCKS = {errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


def located(path: str | os.PathLike[str]) -> Path:
    """Where a path leads: `~` is the user's home, links are resolved. **Raises** `PathError` for what no file can be called."""
    try:
        expanded = os.path.expanduser(path)
        if os.fspath(expanded).startswith("~") and not os.path.lexists(expanded):
            raise PathError(
                f"{shown(path)} leads nowhere: there is no such user here; for a folder of that name, write ./ before it"
            )
        place = Path(os.path.realpath(expanded))
    except PathError:
        raise
    except (ValueError, OSError) as error:  # the latter where the working directory is gone
        raise PathError(f"{shown(path)} leads nowhere: {said_by(error)}") from None
    if not place.name:
        raise PathError(f"{shown(path)} is the root of the file system; name a file or a folder in it")
    return place


def read_file(path: Path, most: int) -> bytes:
    """The content of a file of at most `most` bytes.

    **Raises** `NoFileError` for a folder, and for a device or a pipe, which may have no end; `TooLargeError` before anything is read of a
    larger file; `OSError` if it cannot be read.
    """
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise NoFileError(f"{path} is {'a directory' if stat.S_ISDIR(status.st_mode) else 'a device or a pipe'}")
    if status.st_size > most:
        raise TooLargeError(f"{path} has {status.st_size} bytes, but {most} are the most that it can have")
    with path.open("rb") as file:
        return file.read()


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` to `path`: the old content stays until the new is on disk. Links are resolved, folders made.

    **Raises** `WriteError` if it cannot be written, the old content being untouched.
    """
    path = located(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.parent):
            mode = mode_of(path)
            for leftover in unfinished(path):
                if leftover.is_file():
                    leftover.unlink()
            temporary = beside(path)
            try:
                write_new(temporary, data, mode)
                os.replace(temporary, path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            sync_folder(path.parent)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """**Raises** `WriteError`, naming `path`, for whatever the system has against it."""
    try:
        yield
    except ZooError:
        raise
    except OSError as error:
        raise WriteError(error.errno, error.strerror or str(error), str(path)) from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder. It is the system's, and ends with the process, however that ends; nothing is written for it.

    Network file systems lock no folders: there, a file `.iclzoo.lock` is made for it.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_FOLDER_LOCKS:
                raise
            with FileLock(folder / ".iclzoo.lock"):
                yield
        else:
            try:
                yield
            finally:
                fcntl.flock(handle, fcntl.LOCK_UN)  # for a child of a fork, too, which has the same handle
    finally:
        os.close(handle)


def beside(path: Path) -> Path:
    """A new name beside `path` for what is to be moved there."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.unfinished")


def unfinished(path: Path) -> list[Path]:
    """What lies beside `path` under such a name: left by a killed process, if one holds the folder's lock."""
    return [entry for entry in path.parent.iterdir() if finished_name(entry.name) == path.name]


def finished_name(name: str) -> str | None:
    """The name that what lies under this one was to have; `None` where it is no name of `beside`."""
    match = re.fullmatch(r"\.(.+)\.[a-z0-9_]{8}\.unfinished", name)
    return match[1] if match else None


def mode_of(path: Path) -> int | None:
    """The permissions of the file at `path`, for its successor to have; `None` if there is none.

    **Raises** `WriteError` for what is no file: a folder, a device or a pipe is not replaced.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise WriteError(errno.EEXIST, "what is there is no file", str(path))
    return stat.S_IMODE(status.st_mode)


def write_new(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write a file that is not there yet, and sync it."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # less what the umask takes away
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        if mode is not None:
            os.chmod(path, mode)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
