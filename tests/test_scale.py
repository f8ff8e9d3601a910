"""Larger than one device, one seed or one chunk: the numbers stay those of one."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import trees_equal

from iclzoo.__main__ import parse_seeds
from iclzoo.inspect.estimates.estimate import Estimate
from iclzoo.inspect.estimates.means import mean_over_tasks
from iclzoo.train import run
from iclzoo.train.devices import Team, first_devices, join
from iclzoo.train.loop import compile_advance, largest_array, start
from iclzoo.train.losses import over_tasks, squared_error
from iclzoo.train.optimiser import Adam
from iclzoo.train.recipes.recipe import Recipe
from iclzoo.train.run import fit, fit_ensemble
from iclzoo.train.schedule import Every
from iclzoo.train.stopping import GRACE_SECONDS, LOOK_SECONDS, SAVING_SECONDS
from iclzoo.train.tasks.regression import LinearRegression
from iclzoo.zoo.errors import ConfigError, RunError, ZooError
from iclzoo.zoo.storage.checkpoint import load, read_card
from iclzoo.zoo.storage.config import from_config
from iclzoo.zoo.storage.tensors import from_bytes

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

pytestmark = [pytest.mark.usefixtures("standard_promotion"), pytest.mark.slow]


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
    state, _ = advance(start(RECIPE), 1, 0)
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
        for ours, theirs in zip(rows, member.log, strict=True):
            assert ours["half_mse"] == theirs["half_mse"]
    two = fit_ensemble(RECIPE, SEEDS, devices=first_devices(2), progress=False)
    assert max(largest_difference(one.model, alone[seed].model) for seed, one in zip(SEEDS, two, strict=True)) < 1e-6


def test_an_ensemble_that_was_cut_goes_on(ensemble_folder, tmp_path):
    calls = iter(range(1000))

    def interrupt(model):
        if next(calls) == 5:  # the second member at the second logged step
            raise KeyboardInterrupt
        return {}

    with pytest.raises(KeyboardInterrupt):
        fit_ensemble(RECIPE, SEEDS, tmp_path, probe=interrupt, progress=False)
    done = (tmp_path / f"seed-{SEEDS[0]}" / "config.json").stat().st_mtime_ns
    with pytest.raises(RunError, match="holds a run already"):
        fit_ensemble(RECIPE, SEEDS, tmp_path, progress=False)
    fit_ensemble(RECIPE, SEEDS, tmp_path, resume=True, progress=False)
    assert (tmp_path / f"seed-{SEEDS[0]}" / "config.json").stat().st_mtime_ns == done
    for seed in SEEDS:
        assert trees_equal(load(tmp_path / f"seed-{seed}"), load(ensemble_folder / f"seed-{seed}"))
        logs = [(folder / f"seed-{seed}" / "log.jsonl").read_text() for folder in (tmp_path, ensemble_folder)]
        assert logs[0] == logs[1]


def test_a_run_is_no_folder_of_an_ensemble(tmp_path):
    """As those of 0.1 were, which had one state for all members."""
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(RunError, match="each run of an ensemble is a folder of its own now"):
        fit_ensemble(RECIPE, SEEDS, tmp_path, resume=True, progress=False)


def test_an_ensemble_is_one_program(monkeypatch):
    traces = []

    class Counting(LinearRegression):
        def sample(self, key):
            traces.append(key)
            return LinearRegression.sample(self, key)

    recipe = replace(RECIPE, task=Counting(input_dim=3, num_examples=5))
    advance = compile_advance(recipe, Team(first_devices()))
    traces.clear()  # the shapes of a prompt have been asked for
    losses = {seed: advance(start(replace(RECIPE, seed=seed)), 40, seed)[1] for seed in SEEDS}
    assert len(traces) == 1
    assert len(set(np.concatenate([np.asarray(one)[:40] for one in losses.values()]).tolist())) == 120
    made = []
    monkeypatch.setattr(run, "compile_advance", lambda *job: made.append(job) or advance)
    fit_ensemble(RECIPE, SEEDS, progress=False)
    assert len(made) == 1


def test_seeds():
    assert parse_seeds("0:4") == [0, 1, 2, 3]
    assert parse_seeds("7,3") == [7, 3]
    for seeds, message in (
        ((), r"seeds must be a list or a tuple of 1 to 1024, got a tuple of 0"),
        ((1, 1), "seeds that differ"),
        ((1, 2**32 + 1), r"seeds\[1\] must be a whole number from 0 to 4294967295, got 4294967297"),
        ((-1,), r"seeds\[0\] must be a whole number"),
        (range(10**11), "seeds must be a list or a tuple of 1 to 1024, got a range of 100000000000"),
    ):
        with pytest.raises(ZooError, match=message):
            fit_ensemble(RECIPE, seeds, progress=False)


def test_what_no_training_can_be_spread_over():
    for number in (0, -1, True, 100_000, 10**30):
        with pytest.raises(ConfigError, match="devices must be a whole number from 1 to 1024"):
            first_devices(number)
    for coordinator, processes, process, message in (
        ("nonsense", 2, 0, "must be HOST:PORT"),
        ("localhost:0", 2, 0, "must be HOST:PORT"),
        ("localhost:99999", 2, 0, "must be HOST:PORT"),
        ("no host:1234", 2, 0, "is not known here"),
        ("localhost:1234", 2, 2, "process must be a whole number from 0 to 1, got 2"),
        ("localhost:1234", 2, -1, "process must be a whole number from 0 to 1"),
        ("localhost:1234", 0, 0, "processes must be a whole number"),
        ("localhost:1234", None, None, "processes, process are missing"),
        (None, 2, 1, "coordinator is missing"),
        ("auto", 2, 1, "leave out processes and process"),
    ):
        with pytest.raises(ConfigError, match=message):
            join(coordinator, processes, process, devices=1)


def test_means_do_not_depend_on_the_chunks():
    model, task = start(RECIPE).model, RECIPE.task
    values = over_tasks(squared_error, model, task, num_tasks=1009, key=jr.key(0), chunk=1009)
    for chunk in (1, 97, 1009, 4096):
        mean = mean_over_tasks(squared_error, model, task, num_tasks=1009, key=jr.key(0), chunk=chunk)
        assert mean.value == pytest.approx(Estimate.of(values).value, rel=1e-6)
        assert mean.standard_error == pytest.approx(Estimate.of(values).standard_error, rel=1e-6)


def test_means_hold_no_task(monkeypatch):
    """What is held at once is one chunk, however many tasks there are."""
    from iclzoo.inspect.estimates import means

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
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from iclzoo.train.devices import first_devices, join, leave
from iclzoo.train.run import fit
from test_scale import LONG, RECIPE
address, number, folder, act = sys.argv[1:]

def probe(model):
    if act == "stop":
        print("measured", flush=True)
    return {}

join(address, 2, int(number), devices=1)
try:
    fit(LONG if act == "stop" else RECIPE, folder, probe=probe, devices=first_devices(), progress=False)
except KeyboardInterrupt:
    sys.exit(130)
leave()
"""
LONG = replace(RECIPE, num_steps=10**6, log=Every(50), optimiser=Adam(learning_rate=0.02))


@contextmanager
def two_processes(tmp_path, act):
    """Two processes that meet through `jax.distributed`; one of them writes the folder."""
    script = tmp_path / "process.py"
    script.write_text(PROCESS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    processes = [
        subprocess.Popen(
            [sys.executable, script, address, str(i), tmp_path / "run", act],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for i in range(2)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_two_processes_give_the_numbers_of_one(alone, tmp_path):
    with two_processes(tmp_path, "train") as processes:
        for process in processes:
            _, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors.decode()
    folder = tmp_path / "run"
    assert largest_difference(load(folder), alone[0].model) < 1e-6
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [row["step"] for row in alone[0].log]


def test_the_grace_of_several_processes_is_within_ten_seconds():
    """The last of them ends after all of these."""
    assert LOOK_SECONDS + GRACE_SECONDS + SAVING_SECONDS + 4 * LOOK_SECONDS + 2 * LOOK_SECONDS < 10


@pytest.mark.parametrize(("asked", "number"), [(0, signal.SIGINT), (1, signal.SIGTERM), (1, signal.SIGKILL)])
def test_one_process_that_is_asked_to_stop_stops_both(asked, number, tmp_path):
    """Within their grace; the deadline here is that of a busy machine. A process that is killed is missed by the other."""
    folder = tmp_path / "run"
    with two_processes(tmp_path, "stop") as processes:
        rows = (line for line in processes[0].stdout or () if line == b"measured\n")  # Gloo has its say there, too
        assert len(list(islice(rows, 3))) == 3  # those of steps 0, 50 and 100
        processes[asked].send_signal(number)
        for process in processes:
            process.communicate(timeout=120)
            assert process.returncode != 0
    step = int(from_bytes((folder / "state.safetensors").read_bytes())["step"])
    assert step >= 50
    short = replace(LONG, num_steps=step + 10)
    rewrite_num_steps(folder, short.num_steps)
    resumed = fit(short, folder, resume=True, progress=False)
    assert largest_difference(resumed.model, fit(short, progress=False).model) < 1e-5


def rewrite_num_steps(folder, num_steps):
    """A shorter recipe, whose first steps are those of the run's."""
    run = json.loads((folder / "run.json").read_text())
    run["recipe"]["num_steps"] = num_steps
    (folder / "run.json").write_text(json.dumps(run))
