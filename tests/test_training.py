"""The trainer: one compiled loop, runs that can be cut anywhere, and a log without gaps."""

import json
import signal
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import trees_equal

from iclzoo.train.devices import Team, first_devices
from iclzoo.train.loop import compile_advance, initial_model, start
from iclzoo.train.optimiser import Adam
from iclzoo.train.recipes.catalogue import list_recipes, recipe
from iclzoo.train.recipes.recipe import Recipe
from iclzoo.train.run import MAX_STEPS, fit, next_chunk
from iclzoo.train.schedule import Ends, Every, Logarithmic
from iclzoo.train.tasks.regression import LinearRegression
from iclzoo.zoo.errors import ConfigError, RunError, UnknownNameError
from iclzoo.zoo.factory import create
from iclzoo.zoo.frozen import Frozen, trainable
from iclzoo.zoo.storage.checkpoint import load, read_card
from iclzoo.zoo.storage.config import from_config, to_config

TINY = Recipe(
    name="tiny",
    model="lsa",
    hyperparameters={"input_dim": 3, "init_scale": 0.2},
    task=LinearRegression(input_dim=3, num_examples=5),
    optimiser=Adam(learning_rate=0.05, schedule="cosine", warmup_steps=7),
    batch_size=64,
    num_steps=200,
    log=Every(30),
    keep=Logarithmic(3),
)


# A recipe for a few steps.
SHORT = replace(TINY, optimiser=Adam(), num_steps=3)


pytestmark = pytest.mark.usefixtures("standard_promotion")


@pytest.fixture(scope="module")
def uninterrupted(standard_promotion):
    return fit(TINY, progress=False)


@pytest.mark.parametrize(
    ("schedule", "num_steps", "steps"),
    [
        (Every(300), 1000, (0, 300, 600, 900, 1000)),
        (Every(250), 1000, (0, 250, 500, 750, 1000)),
        (Every(250, until=600), 1000, (0, 250, 500, 1000)),
        (Every(200, since=500, until=800), 1000, (0, 600, 800, 1000)),
        (Logarithmic(3), 100, (0, 1, 2, 5, 10, 22, 46, 100)),
        (Logarithmic(5), 1, (0, 1)),
        (Ends(), 7, (0, 7)),
    ],
)
def test_schedules_keep_the_first_and_the_last_step(schedule, num_steps, steps):
    assert schedule.steps(num_steps) == steps


def test_training_lowers_the_loss(uninterrupted):
    assert uninterrupted.log[-1]["half_mse"] < 0.75 * uninterrupted.log[0]["half_mse"]
    assert [row["step"] for row in uninterrupted.log] == [0, 30, 60, 90, 120, 150, 180, 200]
    assert sorted(uninterrupted.steps) == [0, 1, 2, 5, 10, 22, 46, 100, 200]
    assert trees_equal(uninterrupted.steps[0], initial_model(TINY))
    assert trees_equal(uninterrupted.steps[200], uninterrupted.model)


def test_the_loop_equals_single_steps_bit_for_bit():
    advance = compile_advance(TINY, Team(first_devices()))
    state, losses = advance(start(TINY), 20, 0)
    assert np.isfinite(losses[:20]).all()
    assert not losses[20:].any()
    single, single_losses = start(TINY), []
    for step in range(1, 21):
        single, loss = advance(single, step, 0)
        single_losses.append(loss[0])
    assert trees_equal(state, single)
    assert jnp.array_equal(losses[:20], jnp.stack(single_losses))


def test_a_run_is_compiled_once_and_its_batches_differ():
    traces = []

    class Counting(LinearRegression):
        def sample(self, key):
            traces.append(key)
            return LinearRegression.sample(self, key)

    advance = compile_advance(replace(TINY, task=Counting(input_dim=3, num_examples=5)), Team(first_devices()))
    traces.clear()  # the shapes of a prompt have been asked for
    state, losses = advance(start(TINY), 1, 0)
    for until in (2, 10, 11, 100):
        state, losses = advance(state, until, 0)
    assert len(traces) == 1
    assert len(set(np.asarray(losses)[:89].tolist())) == 89


def test_cut_and_resumed_equals_uninterrupted(uninterrupted, tmp_path):
    """200 steps = 100 + an interruption + 100, bit for bit, with one log."""

    calls = iter(range(100))

    def interrupt(model):
        if next(calls) == 4:
            raise KeyboardInterrupt
        return {}

    with pytest.raises(KeyboardInterrupt):
        fit(TINY, tmp_path, probe=interrupt, progress=False)
    assert not (tmp_path / "config.json").exists()
    resumed = fit(TINY, tmp_path, resume=True, progress=False)
    assert trees_equal(resumed.model, uninterrupted.model)
    assert resumed.log == uninterrupted.log
    assert [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()] == uninterrupted.log
    assert read_card(tmp_path).steps == tuple(sorted(uninterrupted.steps))
    for step, model in uninterrupted.steps.items():
        assert trees_equal(load(tmp_path, step=step), model)


def test_a_finished_run_resumes_to_itself(tmp_path):
    first = fit(TINY, tmp_path, progress=False)
    again = fit(TINY, tmp_path, resume=True, progress=False)
    assert trees_equal(first.model, again.model)
    assert first.log == again.log


def test_a_run_is_not_overwritten_mixed_or_shared(tmp_path):
    fit(SHORT, tmp_path / "run", progress=False)
    with pytest.raises(RunError, match="--resume"):
        fit(SHORT, tmp_path / "run", progress=False)
    with pytest.raises(RunError, match="another recipe: num_steps, seed differ"):
        fit(replace(SHORT, num_steps=5, seed=7), tmp_path / "run", resume=True, progress=False)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match=r"not empty \(notes\.txt\)"):
        fit(TINY, tmp_path / "other", progress=False)

    def second(model):
        with pytest.raises(RunError, match="in use by another process"):
            fit(TINY, tmp_path / "shared", progress=False)
        return {}

    fit(SHORT, tmp_path / "shared", probe=second, progress=False)


def test_frozen_arrays_are_saved_but_not_trained():
    model = create("lsa", input_dim=3, query_init="known", key=jr.key(0))
    model = eqx.tree_at(lambda m: m.W_0, model, Frozen(jnp.ones((1, 3))))
    assert trainable(model).W_0.value is False
    known = fit(replace(SHORT, hyperparameters={"input_dim": 3, "query_init": "known"}), progress=False)
    learned = fit(
        replace(SHORT, hyperparameters={"input_dim": 3, "query_init": "learned", "init_scale": 1.0}), progress=False
    )
    assert not known.model.W_0.value.any()
    assert learned.model.W_0.any()


def test_weights_shared_over_loops_stay_one_set(tmp_path):
    looped = replace(SHORT, model="recurrent_lsa", hyperparameters={"input_dim": 3, "num_loops": 5})
    model = fit(looped, tmp_path, progress=False).model
    assert len(jax.tree.leaves(model)) == 4
    assert len(jax.tree.leaves(load(tmp_path))) == 4


def test_recipes_are_found_by_name_and_come_back_from_their_cards():
    for name in list_recipes():
        chosen = recipe(name)
        assert chosen.name == name
        assert to_config(from_config(json.loads(json.dumps(to_config(chosen))))) == to_config(chosen)
    with pytest.raises(UnknownNameError, match="did you mean 'lsa-fast'"):
        recipe("lsa-fats")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"kind": "adam", "learning_rte": 0.1}, "did you mean 'learning_rate'"),
        ({"kind": "adamm"}, "did you mean 'adam'"),
        ({"kind": "every"}, "needs the setting 'interval'"),
        ({"kind": "every", "interval": 0}, "from 1 to 2147483647"),
        ({"kind": "linear_regression", "num_examples": 0}, "from 1 to 2147483647"),
        ({"kind": "recipe", "name": "x", "model": "lsa", "batch_size": 0}, "from 1 to 2147483647"),
        (
            {
                "kind": "recipe",
                "name": "x",
                "model": "lsa",
                "num_steps": 7,
                "optimiser": {"kind": "adam", "warmup_steps": 7},
            },
            "fewer",
        ),
    ],
)
def test_bad_settings(config, message):
    with pytest.raises((ConfigError, UnknownNameError), match=message):
        from_config(config)


@pytest.mark.parametrize("name", list_recipes())
def test_every_recipe_can_be_trained(name):
    """All that happens before the first step is compiled."""
    assert callable(compile_advance(recipe(name), Team(first_devices())))


def test_a_coarse_clock_sees_no_time():
    assert next_chunk(10, 0.0) == MAX_STEPS
    assert next_chunk(10, 5.0) == 2


@pytest.mark.skipif(not hasattr(signal, "SIGTERM"), reason="there is no such signal here")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_the_state_and_a_second_one_changes_nothing(number, uninterrupted, tmp_path):
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    calls = iter(range(100))

    def asked_to_stop(model):
        if next(calls) == 4:
            try:
                signal.raise_signal(number)
            finally:
                signal.raise_signal(number)
        return {}

    with pytest.raises(KeyboardInterrupt):
        fit(TINY, tmp_path, probe=asked_to_stop, progress=False)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
    assert trees_equal(fit(TINY, tmp_path, resume=True, progress=False).model, uninterrupted.model)


def test_known_values_stay():
    known = replace(
        SHORT,
        model="lsa",
        hyperparameters={"query_init": "known", **SHORT.hyperparameters},
        initial_values={"W_0.value": 2.0},
    )
    model = fit(known, progress=False).model
    assert np.all(np.asarray(model.W_0.value) == known.initial_values["W_0.value"])
