"""Trainings that are killed, starved of disk, interrupted or driven to infinity: the last good state stays, and they go on."""

import errno
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import everything, trees_equal
from test_cli import fails, succeeds
from test_training import TINY

from iclzoo.train import run, run_folder
from iclzoo.train.loop import MAX_STEPS
from iclzoo.train.optimiser import Adam
from iclzoo.train.recipes.catalogue import recipe
from iclzoo.train.run import fit, fit_ensemble
from iclzoo.train.run_folder import RunFolder
from iclzoo.train.schedule import Every
from iclzoo.zoo.errors import CheckpointError, ConfigError, RunError
from iclzoo.zoo.storage.checkpoint import list_checkpoints, load, read_card, save, write_card
from iclzoo.zoo.storage.files import write_atomically
from iclzoo.zoo.storage.tensors import from_bytes

ROOT = Path(__file__).parents[1]
BRIEF = replace(TINY, num_steps=23, log=Every(5), keep=Every(10))


pytestmark = [pytest.mark.usefixtures("standard_promotion"), pytest.mark.bits, pytest.mark.slow]


@pytest.fixture(scope="module")
def uninterrupted(standard_promotion):
    return fit(BRIEF, progress=False)


@pytest.fixture
def saving_always(monkeypatch):
    """A state on disk after every step."""
    monkeypatch.setattr(run, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(run, "UPDATE_SECONDS", 0.0)


def goes_on(folder, expected):
    """The run in a folder, resumed, ends as one that was never cut."""
    resumed = fit(BRIEF, folder, resume=True, progress=False)
    assert trees_equal(resumed.model, expected.model)
    assert resumed.log == expected.log
    assert trees_equal(load(folder), expected.model)
    assert not list(folder.rglob("*.unfinished"))


def test_kills_lose_nothing():
    """The short form of `python tests/robustness/kills.py --kills 500`."""
    command = [sys.executable, ROOT / "tests" / "robustness" / "kills.py", "--kills", "8"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "8 kills" in result.stdout
    assert "0 lost" in result.stdout


def test_killed_before_its_first_state(tmp_path, uninterrupted):
    """Between any two files that a new run writes."""
    with RunFolder.opened(tmp_path, BRIEF, resume=False):
        pass
    (tmp_path / "state.safetensors").rename(tmp_path / ".state.safetensors.0a1b2c3d.unfinished")
    goes_on(tmp_path, uninterrupted)


def test_a_start_that_is_refused_changes_nothing(tmp_path):
    """Neither in a folder of others, nor in one that holds runs, one of them alive, nor in a file."""
    run, recipe_ = tmp_path / "run", replace(BRIEF, num_steps=8)
    inside = run / ".state.safetensors.0a1b2c3d.unfinished"
    with RunFolder.opened(run, recipe_, resume=False):
        for name in (".state.safetensors.0a1b2c3d.unfinished", ".notes.unfinished", "a.txt", ".lock"):
            (tmp_path / name).write_text("precious")
        inside.write_text("what the live run is writing")
        before = everything(tmp_path)
        for resume in (False, True):
            with pytest.raises(RunError, match=r"is not empty \(\.lock, a\.txt, run\) and holds no run"):
                fit(recipe_, tmp_path, resume=resume, progress=False)
            with pytest.raises(RunError, match=r"in use by another process|holds a run already"):
                fit(recipe_, run, resume=resume, progress=False)
            with pytest.raises(RunError, match=r"cannot write to .*a\.txt: "):
                fit(recipe_, tmp_path / "a.txt", resume=resume, progress=False)
        assert everything(tmp_path) == before


def test_a_lock_that_is_none_is_not_opened(tmp_path):
    (tmp_path / ".lock").write_text("precious")
    with pytest.raises(RunError, match=r"is not empty \(\.lock\)"):
        fit(BRIEF, tmp_path, progress=False)
    assert (tmp_path / ".lock").read_text() == "precious"


def test_a_run_is_where_its_link_leads(tmp_path, uninterrupted):
    (tmp_path / "link").symlink_to(tmp_path / "scratch")
    fit(BRIEF, tmp_path / "link", progress=False)
    assert (tmp_path / "link").is_symlink()
    assert trees_equal(load(tmp_path / "scratch"), uninterrupted.model)
    goes_on(tmp_path / "link", uninterrupted)


@pytest.fixture
def cut_short(tmp_path, monkeypatch, saving_always):
    """A run that was cut at step 20 of 23."""

    steps = iter(BRIEF.log.steps(BRIEF.num_steps))

    def stop(model):
        if next(steps) == 20:
            raise KeyboardInterrupt
        return {}

    with pytest.raises(KeyboardInterrupt):
        fit(BRIEF, tmp_path / "cut", probe=stop, progress=False)
    assert int(from_bytes((tmp_path / "cut" / "state.safetensors").read_bytes())["step"]) == 19
    return tmp_path / "cut"


@pytest.mark.parametrize("kind", ["flipped", "gone", "of another step", "a folder", "a terabyte", "a pipe"])
@pytest.mark.parametrize("name", ["steps/0.safetensors", "steps/10.safetensors", "log.jsonl"])
def test_what_a_run_has_written_is_not_trusted(kind, name, cut_short):
    file = cut_short / name
    data = file.read_bytes()
    file.unlink()
    match kind:
        case "flipped":
            file.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
        case "of another step":
            file.write_bytes(
                (cut_short / "steps" / ("0.safetensors" if "10" in name else "10.safetensors")).read_bytes()
            )
        case "a folder":
            file.mkdir()
        case "a pipe":
            os.mkfifo(file)
        case "a terabyte":
            file.touch()
            os.truncate(file, 2**40)
    before = [*cut_short.rglob("*")]
    with pytest.raises(RunError, match=rf"{name} cannot be resumed from \("):
        fit(BRIEF, cut_short, resume=True, progress=False)
    assert [*cut_short.rglob("*")] == before


def test_a_foreign_step_is_neither_taken_nor_touched(cut_short, uninterrupted):
    for name in ("7.safetensors", "99.safetensors", "notes.txt"):
        (cut_short / "steps" / name).write_text("precious")
    goes_on(cut_short, uninterrupted)
    assert read_card(cut_short).steps == (0, 10, 20, 23)
    assert {path.name for path in cut_short.glob("steps/*") if path.read_bytes() == b"precious"} == {
        "7.safetensors",
        "99.safetensors",
        "notes.txt",
    }


def test_a_run_whose_folder_is_moved_leaves_what_takes_its_place_alone(tmp_path, saving_always, uninterrupted):
    place, moved, calls = tmp_path / "run", tmp_path / "moved", count()
    other = replace(BRIEF, seed=1)

    def move(model):
        if next(calls) == 2:
            place.rename(moved)
            fit(other, place, progress=False)
        return {}

    with pytest.raises(RunError, match="was moved or replaced while it was trained in"):
        fit(BRIEF, place, probe=move, progress=False)
    assert trees_equal(load(place), fit(other, progress=False).model)
    goes_on(moved, uninterrupted)


def test_a_run_whose_folder_is_gone_makes_no_new_one(tmp_path, saving_always):
    calls = count()

    def move(model):
        if next(calls) == 2:
            (tmp_path / "run").rename(tmp_path / "moved")
        return {}

    with pytest.raises(RunError, match="was moved or replaced"):
        fit(BRIEF, tmp_path / "run", probe=move, progress=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["thesis.txt", "run.json", "log.jsonl", "model.safetensors", "config.json"])
def test_the_members_of_an_ensemble_overwrite_nothing(name, tmp_path):
    brief = replace(BRIEF, num_steps=8)

    def stop(model):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_ensemble(brief, (0, 1), tmp_path, probe=stop, progress=False)
    (tmp_path / "seed-1").mkdir()
    (tmp_path / "seed-1" / name).write_text("precious")
    with pytest.raises((RunError, CheckpointError), match="seed-1"):
        fit_ensemble(brief, (0, 1), tmp_path, resume=True, progress=False)
    assert (tmp_path / "seed-1" / name).read_text() == "precious"
    (tmp_path / "seed-1" / name).unlink()
    fits = fit_ensemble(brief, (0, 1), tmp_path, resume=True, progress=False)
    assert trees_equal(load(tmp_path / "seed-1"), fits[1].model)


def test_a_run_overwrites_nothing_when_it_is_done(tmp_path, cut_short, uninterrupted):
    other = save(tmp_path / "other", uninterrupted.model)
    for name in ("model.safetensors", "config.json"):
        precious = (other / name).read_bytes() + b"\n"
        (cut_short / name).write_bytes(precious)
        with pytest.raises(RunError, match=rf"{name} is not of this run"):
            fit(BRIEF, cut_short, resume=True, progress=False)
        assert (cut_short / name).read_bytes() == precious
        (cut_short / name).unlink()
    goes_on(cut_short, uninterrupted)


@pytest.mark.parametrize("error", [FileNotFoundError("ref.txt"), TimeoutError("late"), ConnectionResetError()])
def test_errors_of_a_probe_are_its_own(error, tmp_path):
    def failing(model):
        raise error

    with pytest.raises(type(error)) as caught:
        fit(BRIEF, tmp_path / "run", probe=failing, progress=False)
    assert caught.value is error


@pytest.mark.parametrize(
    "given", [{"step": 1.0}, {"half_mse": 0.0}, {"x": "a"}, {"x": jnp.ones(2)}, {3: 1.0}, 3.0, [1.0]]
)
def test_what_a_probe_gives_is_checked(given, tmp_path):
    with pytest.raises(ConfigError, match=r"a probe must|of a probe must be"):
        fit(BRIEF, tmp_path / "run", probe=lambda model: given, progress=False)


def test_a_probe_may_give_arrays_of_one_number():
    log = fit(
        replace(BRIEF, num_steps=8), probe=lambda model: {"a": jnp.ones(()), "b": np.float32(2)}, progress=False
    ).log
    assert [(row["a"], row["b"]) for row in log] == [(1.0, 2.0)] * len(log)


def test_a_finished_run_keeps_its_card(tmp_path, uninterrupted):
    fit(BRIEF, tmp_path, progress=False)
    write_card(tmp_path, replace(read_card(tmp_path), description="by hand", metrics={"num_tasks": 5}))
    before = everything(tmp_path)
    goes_on(tmp_path, uninterrupted)
    changed = {name for name, entry in everything(tmp_path).items() if entry[0] != before[name][0]}
    assert not changed


def test_a_finished_ensemble_keeps_its_cards(tmp_path):
    brief = replace(BRIEF, num_steps=8)
    fit_ensemble(brief, (0, 1), tmp_path, progress=False)
    write_card(tmp_path / "seed-1", replace(read_card(tmp_path / "seed-1"), description="by hand"))
    before = everything(tmp_path)
    fit_ensemble(brief, (0, 1), tmp_path, resume=True, progress=False)
    assert {name: entry[0] for name, entry in everything(tmp_path).items()} == {n: e[0] for n, e in before.items()}


def test_killed_while_it_is_finished(tmp_path, uninterrupted):
    """Between any two of the files that make a run a checkpoint: it is none yet, and then it is."""
    for fatal_write in range(6):
        folder, writes = tmp_path / str(fatal_write), count()

        def write(path, data, writes=writes, fatal_write=fatal_write):
            if next(writes) >= fatal_write:
                raise SystemExit
            write_atomically(path, data)

        with pytest.MonkeyPatch.context() as patch:
            finish = RunFolder.finish
            patch.setattr(
                RunFolder,
                "finish",
                lambda *arguments, patch=patch, write=write, finish=finish: (
                    patch.setattr(run_folder, "write_atomically", write),
                    finish(*arguments),
                ),
            )
            with suppress(SystemExit):
                fit(BRIEF, folder, progress=False)
        assert (folder / "config.json").exists() == (fatal_write >= 6)
        goes_on(folder, uninterrupted)


def test_what_a_killed_save_leaves_is_not_listed(tmp_path, monkeypatch, uninterrupted):
    monkeypatch.setattr("iclzoo.zoo.storage.reading.files", lambda package: tmp_path)
    save(tmp_path / "good", uninterrupted.model)
    save(tmp_path / ".good.abc123", uninterrupted.model)
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "model.safetensors").touch()
    assert list_checkpoints() == ["good"]


@pytest.mark.parametrize(("code", "good_writes"), [(errno.ENOSPC, 3), (errno.ENOSPC, 60), (errno.EROFS, 30)])
def test_a_disk_that_is_full_or_read_only(code, good_writes, tmp_path, monkeypatch, saving_always, uninterrupted):
    writes = count()

    def fsync(handle):
        if next(writes) >= good_writes:
            raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(RunError, match=rf"cannot write to {tmp_path}: {os.strerror(code)}; .*--resume"):
            fit(BRIEF, tmp_path, progress=False)
    assert not list(tmp_path.rglob("*.unfinished"))
    assert not (tmp_path / "config.json").exists()
    goes_on(tmp_path, uninterrupted)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_log_that_finds_no_space(tmp_path, saving_always, uninterrupted):
    """Not a stand-in: the system itself refuses to write more of the log."""
    log, aside, calls = tmp_path / "log.jsonl", tmp_path / ".log", count()

    def fill_the_disk(model):
        if next(calls) == 3:
            log.rename(aside)
            log.symlink_to("/dev/full")
        return {}

    with pytest.raises(RunError, match="No space left on device"):
        fit(BRIEF, tmp_path, probe=fill_the_disk, progress=False)
    aside.rename(log)
    goes_on(tmp_path, uninterrupted)


def test_a_limit_on_files_is_one_line_and_no_success(tmp_path):
    command = ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", sys.executable, "-m", "iclzoo"]
    result = subprocess.run([*command, "train", "lsa", "-o", tmp_path / "run"], capture_output=True, text=True)
    assert result.returncode == 1
    assert re.search(r"^iclzoo: cannot write to .*run: File too large; .*--resume", result.stderr, re.MULTILINE)


def test_two_processes_on_one_folder(tmp_path):
    chosen = recipe("lsa")
    with RunFolder.opened(tmp_path, chosen, resume=False):
        assert "in use by another process" in fails("train", "lsa", "-o", tmp_path, "--resume")


def test_interrupted_by_hand(tmp_path):
    """Ctrl-C: it saves, says how to go on, and what it says works."""
    main = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from iclzoo.__main__ import main; main()"
    arguments = ["train", "lsa", "-o", str(tmp_path / "a run"), "--seed", "3", "--steps", "800", "--tasks", "1000"]
    child = subprocess.Popen([sys.executable, "-c", main, *arguments], stderr=subprocess.PIPE, text=True)
    log = tmp_path / "a run" / "log.jsonl"
    while child.poll() is None and not (log.exists() and log.read_text().count("\n") >= 2):
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate()
    assert child.returncode == 130
    (again,) = re.findall(r"stopped; the state is saved. Go on with: iclzoo (.*)", said)
    assert shlex.split(again) == [*arguments, "--resume"]
    succeeds(*shlex.split(again))
    steps = [int(step) for step in re.findall(r'"step": (\d+)', log.read_text())]
    assert steps == list(recipe("lsa").log.steps(800))


@pytest.mark.parametrize(
    ("learning_rate", "log", "what", "step"),
    [(1e30, Every(30), "loss", 2), (1e30, Every(1), "half-MSE", 1)],
)
def test_what_is_not_finite_stops_and_keeps_the_last_good_state(learning_rate, log, what, step, tmp_path):
    wild = replace(TINY, optimiser=Adam(learning_rate=learning_rate), log=log)
    message = rf"the {what} of tiny is not finite at step {step}; the state of step {step - 1} is kept. .*smaller learning_rate"
    with pytest.raises(RunError, match=message):
        fit(wild, tmp_path, progress=False)
    state = from_bytes((tmp_path / "state.safetensors").read_bytes())
    assert state["step"] == step - 1
    assert all(np.isfinite(array).all() for array in state.values())
    assert not (tmp_path / "config.json").exists()


def test_weights_that_are_not_finite_stop_before_the_loss_shows_it(tmp_path, monkeypatch):
    def spoil(*_):
        def advance(state, until, seed):
            model = jax.tree.map(lambda w: w * jnp.nan, state.model)
            return replace(state, model=model, step=jnp.asarray(until, jnp.int32)), jnp.zeros(MAX_STEPS)

        return advance

    monkeypatch.setattr(run, "compile_advance", spoil)
    with pytest.raises(RunError, match="the model of tiny is not finite at step 1; the state of step 0 is kept"):
        fit(BRIEF, tmp_path, progress=False)
    assert int(from_bytes((tmp_path / "state.safetensors").read_bytes())["step"]) == 0


def test_a_probe_that_is_not_finite_is_logged_as_undefined():
    log = fit(replace(BRIEF, num_steps=8), probe=lambda model: {"a": float("nan"), "b": 1.0}, progress=False).log
    assert [(row["a"], row["b"]) for row in log] == [(None, 1.0)] * len(log)
