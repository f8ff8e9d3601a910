"""A seed decides everything, whatever the process is set to; where JAX cannot work, an error says so."""

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import warnings
from dataclasses import replace
from hashlib import sha256

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from iclzoo.inspect.report.metrics import measure, standard_probe
from iclzoo.inspect.verify import verify
from iclzoo.train.loop import initial_model
from iclzoo.train.losses import over_tasks, squared_error
from iclzoo.train.optimiser import Adam
from iclzoo.train.recipes.provenance import differing_versions, provenance
from iclzoo.train.recipes.recipe import Recipe
from iclzoo.train.run import fit
from iclzoo.train.schedule import Every
from iclzoo.train.tasks.regression import LinearRegression, PromptPool
from iclzoo.train.tasks.teachers import PooledTeacher
from iclzoo.train.tuning.baselines import best_baseline
from iclzoo.zoo.algorithms.least_squares import LeastSquares, ZeroPredictor
from iclzoo.zoo.determinism import check_jax, fixed_settings, key_of, split, typed
from iclzoo.zoo.errors import ConfigError, ZooError
from iclzoo.zoo.factory import create
from iclzoo.zoo.storage.checkpoint import checkpoint_folder, load

pytestmark = pytest.mark.bits

TASK = LinearRegression(input_dim=3, num_examples=5)
RECIPE = Recipe(
    name="determined",
    model="lsa",
    hyperparameters={"input_dim": 3, "init_scale": 0.1},
    task=replace(TASK, teacher=PooledTeacher(num_tasks=7)),
    optimiser=Adam(schedule="cosine", warmup_steps=2),
    batch_size=16,
    num_steps=6,
    log=Every(3),
    seed=2**32 - 1,
)
POOL = replace(RECIPE, task=PromptPool(task=TASK, num_tasks=9))
# Settings that other people have, each with a value that decides numbers or stops those that are not finite.
OTHERS = (
    {
        "jax_enable_x64": True,
        "jax_threefry_partitionable": False,
        "jax_numpy_dtype_promotion": "strict",
        "jax_debug_nans": True,
    },
    {
        "jax_default_prng_impl": "rbg",
        "jax_default_matmul_precision": "bfloat16",
        "jax_random_seed_offset": 5,
        "jax_numpy_rank_promotion": "raise",
        "jax_debug_infs": True,
    },
)


@pytest.fixture
def set_to():
    """A function that sets JAX as it is told, until the test is over."""
    before = {name: getattr(jax.config, name) for settings in OTHERS for name in settings}
    yield lambda settings: [jax.config.update(name, value) for name, value in settings.items()]
    for name, value in before.items():
        jax.config.update(name, value)


def digest(tree):
    return sha256(b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree))).hexdigest()


def numbers():
    """What seeds decide, of every kind."""
    trained = fit(RECIPE, progress=False, probe=standard_probe(RECIPE, num_tasks=50))
    measured = measure(load("lsa"), LinearRegression(), ("gd-1",), num_tasks=100)
    return {
        "model": digest(trained.model),
        "start": digest(initial_model(RECIPE)),
        "log": trained.log,
        "pool": digest(fit(POOL, progress=False).model),
        "tuned": digest(best_baseline("gd-1", replace(TASK, num_distractors=1))),
        "measured": measured.to_json(),
        "verified": [check.passed for check in verify("lsa", metrics=False)],
    }


@pytest.fixture(scope="module")
def plain():
    return numbers()


@pytest.mark.parametrize("settings", OTHERS, ids=["x64", "rbg"])
def test_a_seed_decides_everything(settings, plain):
    variables = {name.upper(): str(int(v) if isinstance(v, bool) else v) for name, v in settings.items()}
    script = "import json; from test_determinism import numbers; print(json.dumps(numbers()))"
    result = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **variables, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == json.loads(json.dumps(plain))


def test_the_key_of_a_seed_is_jax_s_own():
    for seed in (0, 7, 2**31, 2**32 - 1):
        assert jnp.array_equal(jr.key_data(key_of(seed)), jr.key_data(jr.key(seed)))
    assert jnp.array_equal(jr.key_data(split(key_of(3), 5)), jr.key_data(jr.split(jr.key(3), 5)))
    starts = [digest(initial_model(replace(RECIPE, seed=seed))) for seed in (0, 2**31 - 1, 2**31, 2**32 - 1)]
    assert len(set(starts)) == 4


@pytest.mark.parametrize("make", [jr.key, jr.PRNGKey])
def test_keys_of_any_generator_are_keys(make, set_to):
    set_to({"jax_default_prng_impl": "rbg"})
    key = make(0)
    assert "rbg" in str(typed(key).dtype)
    assert over_tasks(squared_error, ZeroPredictor(), TASK, num_tasks=3, key=key).shape == (3,)
    assert TASK.sample_batch(typed(key), 3)[1].shape == (3, 1)


def test_what_is_64_bits_wide_stays_so(x64):
    """The model of somebody who works in 64 bits, and not one of 32 with a number of 64 beside it."""
    narrow = initial_model(RECIPE)
    wide = create("lsa", input_dim=3, key=jr.key(0))
    assert {leaf.dtype for leaf in jax.tree.leaves(narrow)} == {jnp.dtype("float32")}
    assert {leaf.dtype for leaf in jax.tree.leaves(wide)} == {jnp.dtype("float64")}
    for learners, width in (
        ((narrow, jnp.ones(2)), "float32"),
        ((wide, narrow), "float64"),
        (LeastSquares(), "float32"),
    ):
        with fixed_settings(learners, TASK) as (learners, task):
            assert task.sample(jr.key(0))[1].dtype == jnp.dtype(width)
            assert jnp.dtype(width) in {leaf.dtype for leaf in jax.tree.leaves(learners)} or not jax.tree.leaves(
                learners
            )
    assert jax.config.read("jax_enable_x64")


def test_measuring_says_what_is_not_finite_under_debug_nans(set_to):
    set_to({"jax_debug_nans": True, "jax_debug_infs": True})
    for value in (jnp.nan, jnp.inf):
        values = over_tasks(_times_target, value, TASK, num_tasks=3, key=key_of(0))
        assert not np.isfinite(values).any()


def _times_target(value, prompt, target):
    return target.sum() * value


def test_other_versions_are_told():
    assert differing_versions(provenance()) == []
    recorded = {**provenance(), "jax": "0.1.0", "platform": "abacus"}
    assert differing_versions(recorded) == [
        f"jax 0.1.0 → {jax.__version__}",
        f"platform abacus → {jax.default_backend()}",
    ]
    assert differing_versions({}, ("jax",)) == [f"jax unknown → {jax.__version__}"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_of_a_process_that_computes_is_an_error_and_no_hang():
    keys = (key_of(0), jr.PRNGKey(0))
    reader, writer = multiprocessing.Pipe(duplex=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of any fork
        child = multiprocessing.get_context("fork").Process(target=_in_child, args=(writer, keys))
        child.start()
    child.join(60)
    assert child.exitcode == 0
    assert [reader.recv() for _ in range(5)] == [True] * 5
    check_jax()


def _in_child(writer, keys):
    for act in (
        lambda: fit(RECIPE, progress=False),
        lambda: initial_model(RECIPE),
        lambda: best_baseline("gd-1", TASK),
        *(lambda key=key: over_tasks(squared_error, ZeroPredictor(), TASK, num_tasks=3, key=key) for key in keys),
    ):
        try:
            act()
            writer.send("no error")
        except ZooError as error:
            writer.send("forked after JAX had started" in str(error))


def test_a_fork_before_jax_has_started_is_none():
    script = """
import multiprocessing
from iclzoo.zoo.determinism import check_jax
child = multiprocessing.get_context("fork").Process(target=check_jax)
child.start(); child.join(60); print(child.exitcode)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.stdout == "0\n", result.stderr


def test_a_platform_that_is_not_there(monkeypatch):
    def devices():
        raise RuntimeError("Unable to initialize backend 'abacus'")

    monkeypatch.setattr(jax, "devices", devices)
    with pytest.raises(ConfigError, match=r"JAX does not start on .*abacus.*unset JAX_PLATFORMS"):
        check_jax()


@pytest.mark.parametrize(
    ("entry", "change", "message"),
    [
        ("metrics", {"num_tasks": 10**15}, "num_tasks must be a whole number from 1 to 100000000"),
        ("metrics", {"num_tasks": -1}, "num_tasks must be a whole number"),
        ("metrics", {"num_tasks": None}, "num_tasks must be a whole number"),
        ("metrics", {"seed": -1}, "seed must be a whole number"),
        ("metrics", {"seed": "0"}, "seed must be a whole number"),
        ("metrics", {"baselines": {}}, "the baselines must be those of the recipe"),
        ("metrics", {"baselines": {"gd-999": {}}}, "the baselines must be those of the recipe"),
        ("metrics", {"baselines": 7}, "the baselines must be those of the recipe"),
        ("training", {"num_steps": 10**9}, "the steps must be those that the recipe keeps"),
        ("training", {"keep": {"kind": "ends"}}, "the steps must be those that the recipe keeps"),
        ("training", {"task": {"kind": "linear_regression", "num_examples": 9}}, "trains on another task"),
        ("training", {"model": "deep_lsa"}, "trains another model"),
        ("training", {"kind": "adam"}, "the recipe on the card cannot be read"),
    ],
)
def test_verify_takes_no_card_at_its_word(entry, change, message, tmp_path):
    folder = tmp_path / "lsa"
    shutil.copytree(checkpoint_folder("lsa"), folder)
    card = json.loads((folder / "config.json").read_text())
    card[entry] |= change
    (folder / "config.json").write_text(json.dumps(card))
    failed = [check.detail for check in verify(folder, metrics=entry == "metrics") if check.passed is False]
    assert any(message in detail for detail in failed), failed
