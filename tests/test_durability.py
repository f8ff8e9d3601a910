"""Trainings that are killed, starved of disk, interrupted or driven to infinity: the last good state stays, and they go on."""

import errno
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import count
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import trees_equal
from test_cli import fails, succeeds
from test_training import TINY

from iclzoo.train import run
from iclzoo.train.loop import MAX_STEPS
from iclzoo.train.optimiser import Adam
from iclzoo.train.recipe_book import recipe
from iclzoo.train.run import fit
from iclzoo.train.run_folder import RunFolder
from iclzoo.train.schedule import Every
from iclzoo.zoo.checkpoint import list_checkpoints, load, save
from iclzoo.zoo.errors import RunError
from iclzoo.zoo.tensors import from_bytes

ROOT = Path(__file__).parents[1]
BRIEF = replace(TINY, num_steps=23, log=Every(5), keep=Every(10))


pytestmark = pytest.mark.usefixtures("standard_promotion")


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
    """The short form of `python benchmarks/kills.py --kills 500`."""
    command = [sys.executable, ROOT / "benchmarks" / "kills.py", "--kills", "8"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "8 kills" in result.stdout
    assert "0 lost" in result.stdout


def test_killed_before_its_first_state(tmp_path, uninterrupted):
    """Between any two files that a new run writes."""
    with RunFolder.opened(tmp_path, BRIEF, resume=False):
        pass
    (tmp_path / "state.safetensors").rename(tmp_path / ".state.safetensors.x.unfinished")
    goes_on(tmp_path, uninterrupted)


def test_what_a_killed_save_leaves_is_not_listed(tmp_path, monkeypatch, uninterrupted):
    monkeypatch.setattr("iclzoo.zoo.checkpoint.files", lambda package: tmp_path)
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
        def advance(state, until):
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
