"""The folder of a training run.

run.json            the recipe, and the versions of the libraries
log.jsonl           a line for each logged step
state.safetensors   the model, the optimiser and the step, as last saved, and the hashes of the log and the kept steps until there
steps/              the weights at the steps the recipe keeps
config.json, model.safetensors   once the run is done: the folder is then a checkpoint
"""

import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from safetensors import SafetensorError

from ..zoo.checks.memory import physical_memory
from ..zoo.errors import RunError, WriteError, ZooError, ZooWarning, said_by
from ..zoo.storage.card import CARD_FILE, Card, parsed
from ..zoo.storage.checkpoint import checkpoint_files, read_card, settings_of, step_file
from ..zoo.storage.config import from_config, to_config
from ..zoo.storage.files import located, read_file, write_atomically, writing
from ..zoo.storage.tensors import fill, from_bytes, named_arrays, to_bytes
from .loop import State, start
from .recipes.provenance import differing_versions, provenance
from .recipes.recipe import Recipe

Row = dict[str, Any]

RUN_FILE, LOG_FILE, STATE_FILE, LOCK_FILE = "run.json", "log.jsonl", "state.safetensors", ".lock"
DIGEST = "sha256"  # of the state: the array that holds the hash of the others; beside it, one for each file
NOTHING = np.empty(0)  # in place of a hash that is not there
OLD_COLUMNS = (" η/N", " γ")  # of logs until 0.1
WRITTEN = "written/"  # of the state: before the names of the files whose hashes it holds


@dataclass(frozen=True)
class Fit:
    """What a training gives: the model, the log, and the model at the steps the recipe keeps."""

    model: Any
    log: list[Row]
    steps: dict[int, Any]

    def __repr__(self) -> str:
        last = (
            f", half-MSE {self.log[-1]['half_mse']:.5g}"
            if self.log and self.log[-1].get("half_mse") is not None
            else ""
        )
        return f"<Fit of {type(self.model).__name__}: {len(self.log)} rows of log{last}, {len(self.steps)} steps kept>"


class RunFolder:
    """A run on disk, and what it holds. Whatever it writes is complete before the state that relies on it is saved."""

    def __init__(self, path: Path):
        self.path = path
        self._lock: os.stat_result | None = None  # the file that is locked, while it is
        self.rows: list[Row] = []
        self.kept: dict[int, Any] = {}
        self._hashes: dict[int, np.ndarray] = {}  # of the kept steps

    @classmethod
    @contextmanager
    def opened(cls, path: Path, recipe: Recipe, *, resume: bool) -> Iterator[tuple["RunFolder", State]]:
        """The run of `recipe` in the folder `path`, and the state to go on from; the folder is locked meanwhile.

        **Raises** `RunError` if the folder is in use, holds a run and `resume` is not set, or holds anything but a run of this recipe: then
        nothing in it is changed.
        """
        folder = cls(located(path))
        lock = FileLock(folder.path / LOCK_FILE, timeout=0)
        try:
            with writing(folder.path):
                folder.check_is_own()  # before anything is written, and again under the lock
                folder.path.mkdir(parents=True, exist_ok=True)
                try:
                    lock.acquire()
                except Timeout:
                    raise RunError(
                        f"{path} is in use by another process; wait for it or choose another folder"
                    ) from None
            folder._lock = os.stat(folder.path / LOCK_FILE)
            holds = folder.holds_run(resume)
            yield folder, folder.resume(recipe) if holds else folder.begin(recipe)
        except WriteError as error:
            raise RunError(
                f"cannot write to {path}: {error.strerror}; once that is put right, go on with --resume (resume=True)"
            ) from error
        finally:
            lock.release()

    def holds_run(self, resume: bool) -> bool:
        self.check_is_own()
        holds = (self.path / RUN_FILE).exists()
        if holds and not resume:
            raise RunError(f"{self.path} holds a run already; pass --resume (resume=True) to go on with it")
        return holds

    def check_is_own(self) -> None:
        """**Raises** `RunError` for a folder that holds no run, but something else."""
        if not self.path.exists() or (self.path / RUN_FILE).exists():
            return
        strangers = [entry.name for entry in self.path.iterdir() if entry.name[0] != "." or _is_no_lock(entry)]
        if strangers:
            raise RunError(
                f"{self.path} is not empty ({', '.join(sorted(strangers)[:3])}) and holds no run; choose another folder"
            )

    def check_is_no_run(self) -> None:
        """**Raises** `RunError` for a folder that is to hold the runs of an ensemble, and is a run itself, as those of 0.1 were."""
        if (self.path / RUN_FILE).exists():
            raise RunError(
                f"{self.path} is a run, and each run of an ensemble is a folder of its own now; choose another folder, "
                "or go on with the version that began it"
            )

    def begin(self, recipe: Recipe) -> State:
        """A new run."""
        state = start(recipe)
        settings = {"recipe": to_config(recipe), "versions": provenance()}
        self._write(RUN_FILE, (json.dumps(settings, indent=2, ensure_ascii=False) + "\n").encode())
        self.save(state)
        return state

    def resume(self, recipe: Recipe) -> State:
        """The last saved state, with the log and the steps kept until there; what came after it is made again."""
        with self._reading(RUN_FILE):
            settings = parsed(self._read(RUN_FILE).decode())
            stored = {**to_config(from_config(settings["recipe"])), "seeds": settings.get("seeds")}
        asked = {**to_config(recipe), "seeds": None}  # those of an ensemble, of which 0.1 made one run
        different = sorted(name for name in stored.keys() | asked.keys() if stored.get(name) != asked.get(name))
        if different:
            raise RunError(
                f"{self.path} holds a run of another recipe: {', '.join(different)} differ; choose another folder"
            )
        if differing := differing_versions(settings.get("versions") or {}):
            warnings.warn(
                f"{self.path} was begun with other versions, so it may not end as it would have, to the last bit: {', '.join(differing)}",
                ZooWarning,
                stacklevel=2,
            )
        if not (self.path / STATE_FILE).exists() and not (self.path / LOG_FILE).exists():
            return self.begin(recipe)  # it was killed before there was any state
        with self._reading(STATE_FILE):
            arrays = from_bytes(self._read(STATE_FILE))
            if not np.array_equal(arrays.pop(DIGEST, NOTHING), _digest(arrays)):
                raise ValueError("its SHA-256 hash differs")
            written = {name.removeprefix(WRITTEN): arrays.pop(name) for name in [*arrays] if name.startswith(WRITTEN)}
            state = fill(start(recipe), arrays, STATE_FILE)
        step = int(state.step)
        with self._reading(LOG_FILE):
            self.rows = _until(step, self.read_log())
            if not np.array_equal(written.pop(LOG_FILE, NOTHING), _hash(_lines(self.rows))):
                raise ValueError("it is not the log of this run until its last saved state")
        for kept in recipe.keep.steps(recipe.num_steps):
            if step_file(kept) in written:
                with self._reading(step_file(kept)):
                    data = self._read(step_file(kept))
                    if not np.array_equal(written[step_file(kept)], _hash(data)):
                        raise ValueError("it is not the file that this run kept: its SHA-256 hash differs")
                    self._remember(kept, fill(state.model, from_bytes(data), step_file(kept)), data)
        if not self._is_done(recipe):
            old = next((name for row in self.rows for name in row if name.endswith(OLD_COLUMNS)), None)
            if old is not None:
                raise RunError(
                    f"the log of {self.path} has the column {old!r}, whose name is plain ASCII now; "
                    "finish it with the version that began it, or start anew in another folder"
                )
            self._write(LOG_FILE, _lines(self.rows))
        return state

    def save(self, state: State) -> None:
        """Write the state down, with the hashes of what the run had written until its step."""
        arrays, step = named_arrays(state), int(state.step)
        hashes = {step_file(kept): hashed for kept, hashed in self._hashes.items() if 0 < step >= kept}
        hashes[LOG_FILE] = _hash(_lines(_until(step, self.rows)))
        arrays |= {f"{WRITTEN}{name}": hashed for name, hashed in hashes.items()}
        self._write(STATE_FILE, to_bytes(arrays | {DIGEST: _digest(arrays)}))

    def append(self, row: Row) -> None:
        """Add a row to the log, on disk before this returns."""
        self._check_place()
        with writing(self.path / LOG_FILE), (self.path / LOG_FILE).open("ab") as file:
            file.write(_lines([row]))
            file.flush()
            os.fsync(file.fileno())
        self.rows.append(row)

    def keep(self, step: int, model: Any) -> None:
        data = to_bytes(named_arrays(model))
        self._write(step_file(step), data)
        self._remember(step, model, data)

    def read_log(self) -> list[Row]:
        """The rows of the log; a last line that a kill cut short is left out."""
        lines = self._read(LOG_FILE).decode().split("\n")[:-1] if (self.path / LOG_FILE).exists() else []
        return [parsed(line) for line in lines]

    def finish(self, recipe: Recipe, fit: Fit) -> None:
        """Turn the folder into a checkpoint. The card is written last, and it is what makes the checkpoint.

        A card that is there already stays as it is: metrics were measured for it, and people write on it.

        **Raises** `RunError`, with nothing written, if another file is where one of these goes.
        """
        if self._is_done(recipe):
            return
        card = Card(
            description=recipe.description,
            reference=recipe.reference,
            task=to_config(recipe.task),
            training=to_config(recipe),
            versions=provenance(),
        )
        contents = checkpoint_files(fit.model, card, fit.steps)
        for file, data in contents.items():
            if os.path.lexists(self.path / file) and not self._holds(file, data):
                raise RunError(
                    f"{self.path / file} is not of this run; move it elsewhere, and go on with --resume (resume=True)"
                )
        for file, data in contents.items():
            self._write(file, data)

    def _holds(self, file: str, data: bytes) -> bool:
        """Whether a file holds just this."""
        with suppress(OSError):
            return read_file(self.path / file, len(data)) == data
        return False

    def _write(self, file: str, data: bytes) -> None:
        self._check_place()
        write_atomically(self.path / file, data)

    def _check_place(self) -> None:
        """**Raises** `RunError` if the folder is no longer the one that was opened: another run may be there by now."""
        with suppress(OSError):
            if self._lock is None or os.path.samestat(self._lock, os.stat(self.path / LOCK_FILE)):
                return
        raise RunError(
            f"{self.path} was moved or replaced while it was trained in; go on with --resume (resume=True) where it is now"
        )

    def _is_done(self, recipe: Recipe) -> bool:
        """Whether there is the checkpoint of a recipe already. **Raises** `RunError` if there is another one."""
        if not (self.path / CARD_FILE).exists():
            return False
        if to_config(settings_of(read_card(self.path), "training")) != to_config(recipe):
            raise RunError(
                f"{self.path / CARD_FILE} is not of this run; move it elsewhere, and go on with --resume (resume=True)"
            )
        return True

    def _remember(self, step: int, model: Any, data: bytes) -> None:
        self.kept[step], self._hashes[step] = model, _hash(data)

    def _read(self, file: str) -> bytes:
        return read_file(self.path / file, physical_memory())

    @contextmanager
    def _reading(self, file: str) -> Iterator[None]:
        """**Raises** `RunError`, naming a file of the run, for whatever is wrong with its content."""
        try:
            yield
        except (OSError, SafetensorError, ZooError, ValueError, TypeError, LookupError, RecursionError) as error:
            raise RunError(
                f"{self.path / file} cannot be resumed from ({said_by(error)}); start again in another folder"
            ) from None


def _is_no_lock(entry: Path) -> bool:
    """Whether an entry is called as the lock is, and is none: a lock is an empty file."""
    return entry.name == LOCK_FILE and (entry.is_symlink() or not entry.is_file() or entry.stat().st_size > 0)


def _until(step: int, rows: Sequence[Row]) -> list[Row]:
    """The rows that are there when the state of a step is saved. The first state is saved before its row, any other after it."""
    return [row for row in rows if 0 < step >= row["step"]]


def _lines(rows: Sequence[Row]) -> bytes:
    """Rows as they stand in the log."""
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows).encode()


def _hash(data: bytes) -> np.ndarray:
    return np.frombuffer(hashlib.sha256(data).digest(), np.uint8)


def _digest(arrays: Mapping[str, Any]) -> np.ndarray:
    """The SHA-256 hash of arrays and their names."""
    return _hash(to_bytes(arrays))
