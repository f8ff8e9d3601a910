"""The folder of a training run.

run.json            the recipe
log.jsonl           a line for each logged step
state.safetensors   the model, the optimiser and the step, as last saved
steps/              the weights at the steps the recipe keeps
config.json, model.safetensors   once the run is done: the folder is then a checkpoint
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from safetensors import SafetensorError

from ..zoo.card import Card, library_versions
from ..zoo.checkpoint import checkpoint_files, step_file
from ..zoo.config import from_config, to_config
from ..zoo.errors import RunError, ZooError, said_by
from ..zoo.files import remove_unfinished, write_atomically
from ..zoo.tensors import fill, from_bytes, named_arrays, to_bytes
from .loop import State, members_of, start
from .recipe import Recipe

Row = dict[str, Any]

RUN_FILE, LOG_FILE, STATE_FILE, LOCK_FILE = "run.json", "log.jsonl", "state.safetensors", ".lock"
DIGEST = "sha256"  # the array of the state that holds the hash of the others


@dataclass(frozen=True)
class Fit:
    """What a training gives: the model, the log, and the model at the steps the recipe keeps."""

    model: Any
    log: list[Row]
    steps: dict[int, Any]


class RunFolder:
    """A run on disk. Whatever it writes is complete before the state that relies on it is saved."""

    def __init__(self, path: Path):
        self.path = path

    @classmethod
    @contextmanager
    def opened(
        cls, path: Path, recipe: Recipe, seeds: tuple[int, ...] | None = None, *, resume: bool
    ) -> Iterator[tuple["RunFolder", State]]:
        """The run of `recipe` in the folder `path`, and the state to go on from; the folder is locked meanwhile.

        With `seeds`, it is the run of an ensemble.

        **Raises** `RunError` if the folder is in use, holds a run and `resume` is not set, or holds a run of another recipe.
        """
        folder = cls(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            with FileLock(path / LOCK_FILE, timeout=0):
                remove_unfinished(path)
                yield folder, folder.resume(recipe, seeds) if folder.holds_run(resume) else folder.begin(recipe, seeds)
        except Timeout:
            raise RunError(f"{path} is in use by another process; wait for it or choose another folder") from None
        except OSError as error:
            raise RunError(
                f"cannot write to {path}: {error.strerror or error}; once that is put right, go on with --resume (resume=True)"
            ) from error

    def holds_run(self, resume: bool) -> bool:
        if (self.path / RUN_FILE).exists():
            if not resume:
                raise RunError(f"{self.path} holds a run already; pass --resume (resume=True) to go on with it")
            return True
        strangers = [entry.name for entry in self.path.iterdir() if not entry.name.startswith(".")]
        if strangers:
            raise RunError(
                f"{self.path} is not empty ({', '.join(sorted(strangers)[:3])}) and holds no run; choose another folder"
            )
        return False

    def begin(self, recipe: Recipe, seeds: tuple[int, ...] | None) -> State:
        """A new run."""
        state = start(recipe, seeds)
        settings = {"recipe": to_config(recipe), "seeds": to_config(seeds), "versions": library_versions()}
        write_atomically(self.path / RUN_FILE, (json.dumps(settings, indent=2, ensure_ascii=False) + "\n").encode())
        self.save(state)
        return state

    def resume(self, recipe: Recipe, seeds: tuple[int, ...] | None) -> State:
        """The last saved state; what the log and the kept steps hold beyond it is dropped, to be made again."""
        with self._reading(RUN_FILE):
            settings = json.loads((self.path / RUN_FILE).read_text())
            stored = {**to_config(from_config(settings["recipe"])), "seeds": settings.get("seeds")}
        asked = {**to_config(recipe), "seeds": to_config(seeds)}
        different = sorted(name for name in stored.keys() | asked.keys() if stored.get(name) != asked.get(name))
        if different:
            raise RunError(
                f"{self.path} holds a run of another recipe: {', '.join(different)} differ; choose another folder"
            )
        if not (self.path / STATE_FILE).exists() and not (self.path / LOG_FILE).exists():
            return self.begin(recipe, seeds)  # it was killed before there was any state
        with self._reading(STATE_FILE):
            arrays = from_bytes((self.path / STATE_FILE).read_bytes())
            digest = arrays.pop(DIGEST, None)
            if digest is not None and not np.array_equal(digest, _digest(arrays)):
                raise ValueError("its SHA-256 hash differs")
            state = fill(start(recipe, seeds), arrays, STATE_FILE)
        step = int(state.step)
        with self._reading(LOG_FILE):
            # The state of step 0 is saved before its row is written, any other after it.
            rows = [row for row in self.read_log() if 0 < step >= row["step"]]
            if {row["step"] for row in rows} != {
                logged for logged in recipe.log.steps(recipe.num_steps) if 0 < step >= logged
            }:
                raise ValueError("it lacks rows")
        write_atomically(self.path / LOG_FILE, "".join(map(_line, rows)).encode())
        for kept in self._kept_steps():
            if kept > step:
                (self.path / step_file(kept)).unlink()
        return state

    def save(self, state: State) -> None:
        arrays = named_arrays(state)
        write_atomically(self.path / STATE_FILE, to_bytes(arrays | {DIGEST: _digest(arrays)}))

    def append(self, row: Row) -> None:
        """Add a row to the log, on disk before this returns."""
        with (self.path / LOG_FILE).open("a") as file:
            file.write(_line(row))
            file.flush()
            os.fsync(file.fileno())

    def keep(self, step: int, model: Any) -> None:
        write_atomically(self.path / step_file(step), to_bytes(named_arrays(model)))

    def read_log(self) -> list[Row]:
        """The rows of the log; a last line that a kill cut short is left out."""
        path = self.path / LOG_FILE
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def read_steps(self, model: Any) -> dict[int, Any]:
        """The models kept so far; `model` gives their architecture."""
        kept = {}
        for step in self._kept_steps():
            with self._reading(step_file(step)):
                kept[step] = fill(model, from_bytes((self.path / step_file(step)).read_bytes()), step_file(step))
        return kept

    def finish(self, recipe: Recipe, seeds: tuple[int, ...] | None, fits: Sequence[Fit]) -> None:
        """Turn the folder into a checkpoint; that of an ensemble into a folder of them, each with the log of its member."""
        if seeds is None:
            self._write_checkpoint(self.path, recipe, fits[0])
            return
        for member, fit in zip(members_of(recipe, seeds), fits, strict=True):
            folder = self.path / f"seed-{member.seed}"
            write_atomically(folder / LOG_FILE, "".join(map(_line, fit.log)).encode())
            self._write_checkpoint(folder, member, fit)

    def _write_checkpoint(self, folder: Path, recipe: Recipe, fit: Fit) -> None:
        """The card is written last, and it is what makes the checkpoint."""
        card = Card(
            description=recipe.description,
            reference=recipe.reference,
            task=to_config(recipe.task),
            training=to_config(recipe),
        )
        for name, data in checkpoint_files(fit.model, card, fit.steps).items():
            write_atomically(folder / name, data)

    @contextmanager
    def _reading(self, file: str) -> Iterator[None]:
        """**Raises** `RunError`, naming a file of the run, for whatever is wrong with its content."""
        try:
            yield
        except (OSError, SafetensorError, ZooError, ValueError, TypeError, LookupError, RecursionError) as error:
            raise RunError(
                f"{self.path / file} cannot be resumed from ({said_by(error)}); start again in another folder"
            ) from None

    def _kept_steps(self) -> list[int]:
        names = (path.name.removesuffix(".safetensors") for path in (self.path / "steps").glob("*.safetensors"))
        return sorted(int(name) for name in names if name.isdecimal())


def _digest(arrays: Mapping[str, Any]) -> np.ndarray:
    """The SHA-256 hash of arrays and their names."""
    return np.frombuffer(hashlib.sha256(to_bytes(arrays)).digest(), np.uint8)


def _line(row: Row) -> str:
    return json.dumps(row, allow_nan=False) + "\n"
