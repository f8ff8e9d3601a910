"""The folder of a training run.

run.json            the recipe
log.jsonl           a line for each logged step
state.safetensors   the model, the optimiser and the step, as last saved
steps/              the weights at the steps the recipe keeps
config.json, model.safetensors   once the run is done: the folder is then a checkpoint
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from safetensors import SafetensorError

from ..zoo.card import Card, library_versions
from ..zoo.checkpoint import checkpoint_files, step_file
from ..zoo.config import from_config, to_config
from ..zoo.errors import CheckpointError, RunError
from ..zoo.files import write_atomically
from ..zoo.tensors import fill, from_bytes, named_arrays, to_bytes
from .loop import State, start
from .recipe import Recipe

Row = dict[str, Any]

RUN_FILE, LOG_FILE, STATE_FILE, LOCK_FILE = "run.json", "log.jsonl", "state.safetensors", ".lock"


class RunFolder:
    """A run on disk. Whatever it writes is complete before the state that relies on it is saved."""

    def __init__(self, path: Path):
        self.path = path

    @classmethod
    @contextmanager
    def opened(cls, path: Path, recipe: Recipe, *, resume: bool) -> Iterator[tuple["RunFolder", State]]:
        """The run of `recipe` in the folder `path`, and the state to go on from; the folder is locked meanwhile.

        **Raises** `RunError` if the folder is in use, holds a run and `resume` is not set, or holds a run of another recipe.
        """
        folder = cls(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            with FileLock(path / LOCK_FILE, timeout=0):
                yield folder, folder.resume(recipe) if folder.holds_run(resume) else folder.begin(recipe)
        except Timeout:
            raise RunError(f"{path} is in use by another process; wait for it or choose another folder") from None
        except OSError as error:
            raise RunError(f"cannot write to {path}: {error.strerror or error}") from error

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

    def begin(self, recipe: Recipe) -> State:
        """A new run."""
        state = start(recipe)
        self.save(state)
        settings = {"recipe": to_config(recipe), "versions": library_versions()}
        write_atomically(self.path / RUN_FILE, (json.dumps(settings, indent=2, ensure_ascii=False) + "\n").encode())
        return state

    def resume(self, recipe: Recipe) -> State:
        """The last saved state; what the log and the kept steps hold beyond it is dropped, to be made again."""
        stored = to_config(from_config(json.loads((self.path / RUN_FILE).read_text())["recipe"]))
        asked = to_config(recipe)
        different = sorted(name for name in stored.keys() | asked.keys() if stored.get(name) != asked.get(name))
        if different:
            raise RunError(
                f"{self.path} holds a run of another recipe: {', '.join(different)} differ; choose another folder"
            )
        path = self.path / STATE_FILE
        try:
            state = fill(start(recipe), from_bytes(path.read_bytes()), str(path))
        except (OSError, SafetensorError, CheckpointError) as error:
            raise RunError(f"{path} cannot be resumed from ({error}); start again in another folder") from None
        step = int(state.step)
        rows = [row for row in self.read_log() if row["step"] <= step]
        write_atomically(self.path / LOG_FILE, "".join(map(_line, rows)).encode())
        for kept in self._kept_steps():
            if kept > step:
                (self.path / step_file(kept)).unlink()
        return state

    def save(self, state: State) -> None:
        write_atomically(self.path / STATE_FILE, to_bytes(named_arrays(state)))

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
        files = {step: self.path / step_file(step) for step in self._kept_steps()}
        return {step: fill(model, from_bytes(path.read_bytes()), str(path)) for step, path in files.items()}

    def finish(self, recipe: Recipe, model: Any, kept: dict[int, Any]) -> None:
        """Turn the folder into a checkpoint: the card is written last, and it is what makes the checkpoint."""
        card = Card(
            description=recipe.description,
            reference=recipe.reference,
            task=to_config(recipe.task),
            training=to_config(recipe),
        )
        for name, data in checkpoint_files(model, card, kept).items():
            write_atomically(self.path / name, data)

    def _kept_steps(self) -> list[int]:
        names = (path.name.removesuffix(".safetensors") for path in (self.path / "steps").glob("*.safetensors"))
        return sorted(int(name) for name in names if name.isdigit())


def _line(row: Row) -> str:
    return json.dumps(row, allow_nan=False) + "\n"
