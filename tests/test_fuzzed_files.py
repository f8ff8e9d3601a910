"""Files that are damaged, by accident or by malice: a clear error each time, or what the file holds."""

import inspect
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from damage import BYTE_CHANGES, damage
from fuzz import examine, intact_checkpoints, write
from helpers import trees_equal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_training import TINY

from iclzoo.train.run import fit
from iclzoo.train.run_folder import LOG_FILE, RUN_FILE, STATE_FILE, RunFolder
from iclzoo.train.schedule import Every
from iclzoo.zoo.errors import (
    CardError,
    ConfigError,
    ContractError,
    NotACheckpointError,
    RunError,
    UnknownNameError,
    said_by,
)
from iclzoo.zoo.factory import create
from iclzoo.zoo.storage.card import Card
from iclzoo.zoo.storage.checkpoint import checkpoint_folder, load, read_card, save

ROOT = Path(__file__).parents[1]
BRIEF = replace(TINY, num_steps=8, log=Every(2))
SEEDS = st.integers(0, 2**32 - 1)
# Each example leaves nothing behind that the next one reads; the examples are the same in every run.
often = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


pytestmark = [pytest.mark.usefixtures("standard_promotion"), pytest.mark.slow]


@pytest.fixture(scope="module")
def intact(standard_promotion, tmp_path_factory):
    return intact_checkpoints(tmp_path_factory.mktemp("intact"))


@settings(often, max_examples=250)
@given(seed=SEEDS, which=st.integers(0, 3), verified=st.integers(0, 9))
def test_damaged_checkpoints(seed, which, verified, intact, tmp_path):
    files = damage(intact[which], Random(seed))
    write(files, tmp_path, {})
    examine(tmp_path, files, verified=not verified)


def test_damage_depends_on_its_seed_alone(intact):
    """Also where little is left of the stack: how deep a tree Python follows then is another matter."""

    def damaged(seed, frames):
        return damaged(seed, frames - 1) if frames else damage(intact[seed % 4], Random(seed))

    left = sys.getrecursionlimit() - len(inspect.stack(0)) - 550
    for seed in range(1000):
        assert damaged(seed, 0) == damaged(seed, left)


def test_the_fuzzer():
    """The short form of `python tests/robustness/fuzz.py --files 100000`, with its watch on memory, time and what is opened."""
    command = [
        sys.executable,
        ROOT / "tests" / "robustness" / "fuzz.py",
        "--files",
        "500",
        "--workers",
        "1",
        "--first",
        "1000000",
    ]
    alone = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    result = subprocess.run(command, capture_output=True, text=True, env=alone)  # it may open nothing but its files
    assert result.returncode == 0, result.stdout + result.stderr
    assert "500 damaged checkpoints read: 0 failures" in result.stdout


@settings(often, max_examples=150)
@given(seed=SEEDS, file=st.sampled_from([RUN_FILE, LOG_FILE, STATE_FILE]), change=st.sampled_from(BYTE_CHANGES))
def test_damaged_runs(seed, file, change, run_files, tmp_path):
    """A run goes on from the state it had, or not at all."""
    state, files = run_files
    damaged = files | {file: change(files[file], Random(seed))}
    write(damaged, tmp_path, {})
    refused = (
        re.escape(f"{tmp_path} ")
        + "holds a run of another|"
        + re.escape(f"{tmp_path / file} ")
        + "cannot be resumed from"
    )
    try:
        resumed = RunFolder(tmp_path).resume(BRIEF)
    except RunError as error:
        resumed = state if re.match(refused, str(error)) else error
    assert trees_equal(resumed, state)


@pytest.fixture(scope="module")
def run_files(standard_promotion, tmp_path_factory):
    """The last state of a run, and its files."""
    folder = tmp_path_factory.mktemp("run")
    fit(BRIEF, folder, progress=False)
    with RunFolder.opened(folder, BRIEF, resume=True) as (_, state):
        steps = [str(path.relative_to(folder)) for path in folder.glob("steps/*")]
        return state, {name: (folder / name).read_bytes() for name in (RUN_FILE, LOG_FILE, STATE_FILE, *steps)}


@pytest.mark.parametrize(
    ("model", "hyperparameters", "message"),
    [
        ("deep_lsa", {"num_layers": 10**8}, "num_layers is 100000000, but the card lists 8 tensors"),
        ("deep_lsa", {"input_dim": 10**9}, r"layers.0.W_K is \[1, 4, 4\], expected \[1, 4, 1000000001\]"),
        ("recurrent_lsa", {"num_loops": 10**12}, "num_loops must be a whole number from 1 to 10000, got 1000000000000"),
        ("deep_lsa", {"clip": "ten"}, "clip must be a finite number above 0 or None, got 'ten'"),
        ("deep_lsa", {"num_layers": 2.0}, "num_layers must be a whole number from 1 to 10000, got 2.0"),
    ],
)
def test_a_card_cannot_ask_for_more_than_its_tensors(model, hyperparameters, message, tmp_path, getkey):
    saved = create(model, key=getkey(), input_dim=3)
    save(tmp_path / "x", saved)
    card = read_card(tmp_path / "x")
    altered = replace(card, hyperparameters=card.hyperparameters | hyperparameters)
    (tmp_path / "x" / "config.json").write_text(altered.to_json())
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": 1, "files": {"../../x": {}}}', "must record files of the checkpoint, got '../../x'"),
        ('{"format": 1, "files": {"/dev/zero": {}}}', "must record files of the checkpoint"),
        ('{"format": ' + "9" * 5000 + "}", "not valid JSON"),
        ('{"format": 1, "description": "\\ud800"}', "surrogates not allowed"),
        ('{"format": 1, "figures": {"a": NaN}}', "not JSON compliant"),
        ('{"format": 1, "task": ' + '{"a":' * 40 + "0" + "}" * 41, "more than 32 levels"),
        ('{"format": 1, "task": ' + "[" * 10**5, "recursion"),
    ],
)
def test_hostile_cards(text, message):
    with pytest.raises(CardError, match=message):
        Card.from_json(text, Path("config.json"))


def test_hostile_paths(tmp_path):
    for name in ("a\0b", "x" * 5000, "\ud800", "../" * 50 + "x"):
        with pytest.raises(UnknownNameError):
            checkpoint_folder(name)


def test_devices_are_not_read(tmp_path, getkey):
    folder = save(tmp_path / "x", create("lsa", key=getkey(), input_dim=3))
    for device in (folder / "model.safetensors", folder / "config.json"):
        device.unlink()
        os.mkfifo(device)
        with pytest.raises(NotACheckpointError, match=f"{device.name} is a device or a pipe"):
            load(folder)


def test_hyperparameters_are_of_the_type_they_have(getkey):
    with pytest.raises(ConfigError, match="input_dim must be a whole number from 1 to 2147483647, got 'ten'"):
        create("lsa", key=getkey(), input_dim="ten")


def test_layers_without_arrays_are_no_layers(getkey, monkeypatch):
    monkeypatch.setattr(
        "iclzoo.zoo.models.recurrent_lsa.RecurrentLSA.num_layers", property(lambda self: 5), raising=False
    )
    with pytest.raises(ContractError, match="call repetitions num_loops"):
        create("recurrent_lsa", key=getkey())


def test_what_another_library_says_is_one_short_line():
    assert said_by(ValueError("no such file")) == "no such file"
    long = said_by(ValueError("a\x7f\n" + "b" * 5000))
    assert long.isprintable()
    assert long.startswith(r"a\x7f\nb")
    assert len(long) < 310
