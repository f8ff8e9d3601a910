"""Larger than one device, one seed or one chunk: the numbers stay those of one."""

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import trees_equal

from iclzoo.__main__ import parse_seeds
from iclzoo.inspect.alignment import Mean
from iclzoo.inspect.means import mean_over_tasks
from iclzoo.train.devices import Team, first_devices
from iclzoo.train.loop import compile_advance, largest_array, start
from iclzoo.train.losses import over_tasks, squared_error
from iclzoo.train.optimiser import Adam
from iclzoo.train.recipe import Recipe
from iclzoo.train.run import fit, fit_ensemble
from iclzoo.train.schedule import Every
from iclzoo.train.tasks import LinearRegression
from iclzoo.zoo.checkpoint import load, read_card
from iclzoo.zoo.config import from_config
from iclzoo.zoo.errors import ConfigError, RunError

RECIPE = Recipe(
    name="scale",
    model="lsa",
    hyperparameters={"input_dim": 3, "init_scale": 0.05},
    task=LinearRegression(input_dim=3, num_examples=5),
    optimiser=Adam(learning_rate=0.02, schedule="cosine", warmup_steps=3),
    batch_size=64,
    num_steps=60,
    log=Every(20),
    keep=Every(30),
)
SEEDS = (0, 3, 11)

pytestmark = pytest.mark.usefixtures("standard_promotion")


def largest_difference(left, right):
    """Over all arrays of two models of the same structure."""
    assert jax.tree.structure(left) == jax.tree.structure(right)
    differences = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), left, right)
    return max(jax.tree.leaves(differences))


@pytest.fixture(scope="module")
def alone(standard_promotion):
    """Each seed trained by itself, on one device."""
    return {seed: fit(replace(RECIPE, seed=seed), progress=False) for seed in SEEDS}


@pytest.fixture(scope="module")
def ensemble_folder(standard_promotion, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ensemble")
    fit_ensemble(RECIPE, SEEDS, folder, progress=False)
    return folder


def test_two_devices_give_the_numbers_of_one(alone):
    split = fit(RECIPE, devices=first_devices(2), progress=False)
    assert largest_difference(split.model, alone[0].model) < 1e-6
    for ours, theirs in zip(split.log, alone[0].log, strict=True):
        assert ours["half_mse"] == pytest.approx(theirs["half_mse"], abs=1e-6)


def test_a_batch_is_split_between_devices():
    """Each device holds its part of the tasks: the compiled step sums the gradients over both."""
    team = Team(first_devices(2))
    advance = compile_advance(RECIPE, team)
    state, _ = advance(start(RECIPE), 1)
    assert {len(leaf.sharding.device_set) for leaf in jax.tree.leaves(state)} == {2}
    with pytest.raises(ConfigError, match="a batch of 64 tasks cannot be split evenly between 3 devices"):
        Team((*team.devices, team.devices[0])).check_batch(64)
    with pytest.raises(ConfigError, match="9 devices were asked for, but JAX has 2"):
        first_devices(9)


def test_a_batch_in_parts_is_the_batch(alone, monkeypatch):
    """Parts that fit a cache, one after the other: as many as divide the batch evenly."""
    from iclzoo.train import devices

    team = Team(first_devices())
    assert largest_array(RECIPE) == 4 * 6 * 4  # the tokens: six of four numbers
    assert team.num_parts(64, 96) == 1
    monkeypatch.setattr(devices, "CPU_CACHE", 96 * 20)
    assert team.num_parts(64, 96) == 4
    assert team.num_parts(63, 96) == 7
    assert largest_difference(fit(RECIPE, progress=False).model, alone[0].model) < 1e-6


def test_an_ensemble_equals_its_members(alone, ensemble_folder):
    for seed in SEEDS:
        folder, member = ensemble_folder / f"seed-{seed}", alone[seed]
        assert trees_equal(load(folder), member.model)
        assert from_config(dict(read_card(folder).training)) == replace(RECIPE, seed=seed)
        assert read_card(folder).steps == tuple(member.steps)
        assert trees_equal(load(folder, step=0), member.steps[0])
        rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        assert [row["step"] for row in rows] == [row["step"] for row in member.log]
        assert {row["seed"] for row in rows} == {seed}
        for ours, theirs in zip(rows, member.log, strict=True):
            assert ours["half_mse"] == theirs["half_mse"]
    two = fit_ensemble(RECIPE, SEEDS, devices=first_devices(2), progress=False)
    assert max(largest_difference(one.model, alone[seed].model) for seed, one in zip(SEEDS, two, strict=True)) < 1e-6


def test_an_ensemble_that_was_cut_goes_on(ensemble_folder, tmp_path):
    calls = iter(range(1000))

    def interrupt(model):
        if next(calls) == 4:  # the second member at the second logged step
            raise KeyboardInterrupt
        return {}

    with pytest.raises(KeyboardInterrupt):
        fit_ensemble(RECIPE, SEEDS, tmp_path, probe=interrupt, progress=False)
    with pytest.raises(RunError, match="another recipe: seeds differ"):
        fit_ensemble(RECIPE, SEEDS[:2], tmp_path, resume=True, progress=False)
    fit_ensemble(RECIPE, SEEDS, tmp_path, resume=True, progress=False)
    for seed in SEEDS:
        assert trees_equal(load(tmp_path / f"seed-{seed}"), load(ensemble_folder / f"seed-{seed}"))
        logs = [(folder / f"seed-{seed}" / "log.jsonl").read_text() for folder in (tmp_path, ensemble_folder)]
        assert logs[0] == logs[1]


def test_an_ensemble_is_one_program():
    traces = []

    class Counting(LinearRegression):
        def sample(self, key):
            traces.append(key)
            return LinearRegression.sample(self, key)

    recipe = replace(RECIPE, task=Counting(input_dim=3, num_examples=5))
    advance = compile_advance(recipe, Team(first_devices()), SEEDS)
    state = start(RECIPE, SEEDS)
    traces.clear()  # the shapes of a prompt have been asked for
    for until in (1, 2, 10, 50):
        state, losses = advance(state, until)
    assert len(traces) == 1
    assert losses.shape == (1000, len(SEEDS))
    assert len(set(np.asarray(losses)[:40].reshape(-1).tolist())) == 120


def test_seeds():
    assert parse_seeds("0:4") == [0, 1, 2, 3]
    assert parse_seeds("7,3") == [7, 3]
    for seeds in ((), (1, 1)):
        with pytest.raises(ConfigError, match="seeds that differ"):
            fit_ensemble(RECIPE, seeds, progress=False)


def test_means_do_not_depend_on_the_chunks():
    model, task = start(RECIPE).model, RECIPE.task
    values = over_tasks(squared_error, model, task, num_tasks=1009, key=jr.key(0), chunk=1009)
    for chunk in (1, 97, 1009, 4096):
        mean = mean_over_tasks(squared_error, model, task, num_tasks=1009, key=jr.key(0), chunk=chunk)
        assert mean.value == pytest.approx(Mean.of(values).value, rel=1e-6)
        assert mean.standard_error == pytest.approx(Mean.of(values).standard_error, rel=1e-6)


def test_means_hold_no_task(monkeypatch):
    """What is held at once is one chunk, however many tasks there are."""
    from iclzoo.inspect import means

    sizes, in_chunks = [], means.in_chunks

    def watched(*args, **kwargs):
        for values in in_chunks(*args, **kwargs):
            sizes.append(len(values))
            yield values

    monkeypatch.setattr(means, "in_chunks", watched)
    mean_over_tasks(squared_error, start(RECIPE).model, RECIPE.task, num_tasks=1009, key=jr.key(0), chunk=100)
    assert sizes == [100] * 10 + [9]


PROCESS = """
import sys
from iclzoo.train.devices import first_devices, join, leave
from iclzoo.train.run import fit
from test_scale import RECIPE
join(sys.argv[1], 2, int(sys.argv[2]), devices=1)
fit(RECIPE, sys.argv[3], devices=first_devices(), progress=False)
leave()
"""


def test_two_processes_give_the_numbers_of_one(alone, tmp_path):
    """Two processes that meet through `jax.distributed`; one of them writes the folder."""
    script = tmp_path / "process.py"
    script.write_text(PROCESS)
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    folder = tmp_path / "run"
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    processes = [
        subprocess.Popen([sys.executable, script, address, str(i), folder], env=environment, stderr=subprocess.PIPE)
        for i in range(2)
    ]
    try:
        for process in processes:
            _, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors.decode()
    finally:
        for process in processes:
            process.send_signal(signal.SIGKILL)
    assert largest_difference(load(folder), alone[0].model) < 1e-6
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [row["step"] for row in alone[0].log]
