"""Replacing a folder whole: who reads meanwhile, or after a crash, finds the old one or the new.

Where the system can exchange two names at once it is asked to: the place is never empty. Elsewhere (network file systems) the old folder
is `.<name>.previous` for the moment of the exchange, where `current` finds it.
"""

import ctypes
import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from ..errors import ExistsError, PathError, ZooError
from .files import beside, finished_name, located, locked, mode_of, sync_folder, unfinished, write_new, writing


class FolderKind:
    """Folders of one kind, by what belongs in them: `names` are its files and folders, relative, and the file `mark` says what it is.

    `check` is given the mark of a folder that is to be replaced, and raises an error if it is none. No other folder is ever replaced,
    and nothing else is ever deleted.
    """

    def __init__(self, names: str, *, mark: str, check: Callable[[Path], object]):
        self.names, self.mark, self.check = re.compile(names), mark, check

    def belongs(self, name: str) -> bool:
        """Whether a file or folder of this name, or what a killed process left of it, is one of this kind."""
        folder, _, file = name.rpartition("/")
        return self.names.fullmatch("/".join(filter(None, [folder, finished_name(file) or file]))) is not None

    def strangers(self, folder: Path) -> list[str]:
        """What is in a folder and does not belong there. A link to a folder does not: what it leads to is elsewhere."""
        entries = [(entry, str(entry.relative_to(folder))) for entry in sorted(folder.rglob("*"))]
        return [name for entry, name in entries if not self.belongs(name) or not _is_plain(entry, name)]

    def discard(self, folder: Path) -> None:
        """Delete what belongs in a folder, the mark last, and the folder, if that leaves it empty."""
        strange = set(self.strangers(folder))
        entries = [entry for entry in folder.rglob("*") if str(entry.relative_to(folder)) not in strange]
        for entry in sorted(entries, key=lambda entry: (entry.name == self.mark, -len(entry.parts))):
            if entry.is_dir() and not entry.is_symlink():
                _remove_if_empty(entry)
            else:
                entry.unlink()
        _remove_if_empty(folder)

    def replace(self, path: Path, contents: Mapping[str, bytes], *, overwrite: bool) -> None:
        """Make `path` a folder of these files; it appears whole or not at all.

        **Raises** `ExistsError` if something is there, unless `overwrite` is asked for and it is a folder of this kind with nothing else in
        it; `WriteError` if the system does not let it be written.
        """
        if finished_name(path.name) or re.fullmatch(r"\..+\.previous", path.name):
            raise PathError(f"{path.name!r} is a name for what is half written; choose another")
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with locked(path.parent):
                self.settle(path)
                exists = os.path.lexists(path)
                if exists and not overwrite:
                    raise ExistsError(f"{path} exists; choose another path or pass overwrite=True")
                if exists:
                    self.check_replaceable(path)
                    if path == Path.cwd() or path in Path.cwd().parents:
                        raise ExistsError(
                            f"{path} is where this process works; change to another folder, and save again"
                        )
                temporary = beside(path)
                try:
                    temporary.mkdir()
                    for name, data in contents.items():
                        (temporary / name).parent.mkdir(exist_ok=True)
                        write_new(temporary / name, data, mode_of(path / name) if exists else None)
                    for folder in {(temporary / name).parent for name in contents}:
                        sync_folder(folder)
                    if exists:
                        temporary.chmod(path.stat().st_mode)
                        _exchange(temporary, path)
                    else:
                        os.rename(temporary, path)
                finally:  # the old folder, or the new one that did not come to be
                    if temporary.exists():
                        self.discard(temporary)
                sync_folder(path.parent)

    def settle(self, path: Path) -> None:
        """Put in order what killed processes left beside `path`, whose folder the caller has locked."""
        previous = _previous(path)
        if not os.path.lexists(path) and self._is_whole(previous):
            os.rename(previous, path)
        for leftover in (previous, *unfinished(path)):
            if leftover.is_dir() and not leftover.is_symlink():
                self.discard(leftover)

    def _is_whole(self, folder: Path) -> bool:
        """Whether this is a folder of this kind, with nothing else in it."""
        if folder.is_symlink() or not folder.is_dir():
            return False
        try:
            self.check_replaceable(folder)
        except ExistsError:
            return False
        return True

    def check_replaceable(self, path: Path) -> None:
        """**Raises** `ExistsError` unless there is a folder of this kind, with nothing else in it."""
        if not (path / self.mark).is_file():
            raise ExistsError(f"{path} exists and holds no {self.mark}, so it is not overwritten; choose another path")
        try:
            self.check(path / self.mark)
        except ZooError as error:
            raise ExistsError(f"{path} is not overwritten, for it may be anything: {error}") from None
        if strange := self.strangers(path):
            raise ExistsError(
                f"{path} holds what was not written with it ({', '.join(strange[:3])}), so it is not overwritten; "
                "move that elsewhere, or choose another path"
            )


def current(path: Path) -> tuple[Path, tuple[int, ...]]:
    """The folder that stands for `path`, and what changes when it, or a file in it, is replaced: also while no name leads to it."""
    for _ in range(10):  # between two looks an exchange may end, and another begin
        for look in (lambda: path, lambda: _previous(located(path))):
            with suppress(OSError, ValueError):
                folder = look()
                status = os.stat(folder) if folder is path else os.lstat(folder)
                if stat.S_ISLNK(status.st_mode):
                    continue
                return folder, (status.st_dev, status.st_ino, status.st_mtime_ns)
    return path, ()


def _previous(path: Path) -> Path:
    return path.with_name(f".{path.name}.previous")


def _exchange(new: Path, path: Path) -> None:
    """What is at `new` and what is at `path` change places."""
    if _exchanged_at_once(new, path):
        return
    previous = _previous(path)
    os.rename(path, previous)
    try:
        os.rename(new, path)
    except BaseException:
        os.rename(previous, path)
        raise
    os.rename(previous, new)


def _exchanged_at_once(new: Path, path: Path) -> bool:
    """Ask the system to exchange two names; whether it can."""
    library, names = ctypes.CDLL(None, use_errno=True), (os.fsencode(new), os.fsencode(path))
    try:
        if sys.platform == "darwin":
            failed = library.renamex_np(*names, 2)  # RENAME_SWAP
        else:
            failed = library.renameat2(-100, names[0], -100, names[1], 2)  # AT_FDCWD, RENAME_EXCHANGE
    except AttributeError:
        return False
    if failed and (code := ctypes.get_errno()) not in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        raise OSError(code, os.strerror(code), str(path))
    return not failed


def _is_plain(entry: Path, name: str) -> bool:
    """Whether an entry is a file where its name says so, and a folder where that has no ending; and no device or pipe."""
    return entry.is_file() if "." in name.rpartition("/")[2] else entry.is_dir() and not entry.is_symlink()


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
