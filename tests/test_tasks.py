"""Every task is sampled, and is what it says: its stream, its labels, its pool, its noise."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_close, trees_equal

from iclzoo.train.losses import over_tasks, squared_error
from iclzoo.train.tasks.inputs import Exponential, Gaussian, Laplace, RandomCovariance, Uniform
from iclzoo.train.tasks.regression import LinearRegression, PromptPool, SineRegression, Task
from iclzoo.train.tasks.teachers import GaussianTeacher, PooledTeacher
from iclzoo.zoo.algorithms.least_squares import LeastSquares, ZeroPredictor
from iclzoo.zoo.errors import ConfigError
from iclzoo.zoo.storage import config
from iclzoo.zoo.storage.config import from_config, to_config

SIZES = {"input_dim": 3, "output_dim": 2, "num_examples": 7}
MEAN = ((0.5, -1.0, 2.0), (0.0, 1.5, -0.5))
TASKS = {
    "linear": LinearRegression(**SIZES),
    "gaussian": LinearRegression(**SIZES, inputs=Gaussian((0.3, 1.1, 2.0))),
    "exponential": LinearRegression(**SIZES, inputs=Exponential(0.5)),
    "laplace": LinearRegression(**SIZES, inputs=Laplace(0.5)),
    "random covariance": LinearRegression(**SIZES, inputs=RandomCovariance()),
    "mean": LinearRegression(**SIZES, teacher=GaussianTeacher(scale=0.5, mean=MEAN)),
    "noise": LinearRegression(**SIZES, noise_std=0.3),
    "distractors": LinearRegression(**SIZES, num_distractors=2),
    "pooled teacher": LinearRegression(**SIZES, teacher=PooledTeacher(num_tasks=5)),
    "pool": PromptPool(LinearRegression(**SIZES), num_tasks=5),
    "sine": SineRegression(num_examples=7),
}
ONE_EACH = pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))


def test_every_kind_of_task_is_here():
    kinds = {cls for cls in config.SETTINGS.items().values() if issubclass(cls, Task)}
    assert kinds == {type(task) for task in TASKS.values()}


@ONE_EACH
def test_shapes_and_dtype(task, getkey):
    prompt, target = task.sample(getkey())
    assert (prompt.num_examples, prompt.input_dim, prompt.output_dim) == (7, task.input_dim, task.output_dim)
    assert target.shape == (task.output_dim,)
    assert {array.dtype for array in jax.tree.leaves((prompt, target))} == {np.dtype("float32")}


@ONE_EACH
def test_a_key_decides_the_sample(task, getkey):
    key = getkey()
    assert trees_equal(task.sample(key), task.sample(key))
    different = [not trees_equal(task.sample(key), task.sample(getkey())) for _ in range(11)]
    assert all(different) or (isinstance(task, PromptPool) and any(different))


@ONE_EACH
def test_a_batch_is_a_loop(task, getkey):
    key = getkey()
    loop = [task.sample(k) for k in jr.split(key, 3)]
    stacked = jax.tree.map(lambda *arrays: jnp.stack(arrays), *loop)
    for batched, single in zip(jax.tree.leaves(task.sample_batch(key, 3)), jax.tree.leaves(stacked), strict=True):
        assert_close(batched, single)


@ONE_EACH
def test_settings_survive_a_file(task, getkey):
    again = from_config(json.loads(json.dumps(to_config(task))))
    assert type(again) is type(task)
    assert to_config(again) == to_config(task)
    key = getkey()
    assert trees_equal(again.sample(key), task.sample(key))


@pytest.mark.parametrize("kind", ["linear_regression", "sine_regression", "task_pool"])
def test_every_task_has_defaults(kind, getkey):
    prompt, _ = from_config({"kind": kind}).sample(getkey())
    assert prompt.num_examples == 10


def test_the_stream_of_linear_regression_is_fixed(getkey):
    """Cards recompute their figures from it: one key each for inputs, teacher and noise, whatever is added later."""
    key = getkey()
    with jax.threefry_partitionable(False):
        key_x, key_teacher, key_noise = jr.split(key, 3)
        xs = 0.5 * jr.uniform(key_x, (8, 3), minval=-1.0)
        labels = xs @ jr.normal(key_teacher, (2, 3)).T
        ys = labels[:-1] + 0.5 * jr.normal(key_noise, (7, 2))
    prompt, target = LinearRegression(**SIZES).sample(key)
    assert trees_equal((prompt.xs, prompt.query, prompt.ys, target), (xs[:-1], xs[-1], labels[:-1], labels[-1]))
    noisy, same = LinearRegression(**SIZES, noise_std=0.5).sample(key)
    assert trees_equal((noisy.ys, same), (ys, labels[-1]))


@pytest.mark.parametrize("name", ["linear", "gaussian", "exponential", "laplace", "random covariance", "mean", "pool"])
def test_linear_labels_come_from_one_teacher(name, getkey, x64):
    """With more examples than dimensions, least squares finds the teacher, and the teacher gives the target."""
    prompts, targets = TASKS[name].sample_batch(getkey(), 11)
    assert_close(jax.vmap(LeastSquares())(prompts), targets)


def residuals(prompt):
    """What no linear function explains of the labels, for each example."""
    weights, *_ = jnp.linalg.lstsq(prompt.xs, prompt.ys)
    return prompt.ys - prompt.xs @ weights


@pytest.mark.parametrize("name", ["noise", "distractors", "sine"])
def test_others_are_not_linear(name, getkey):
    prompts, _ = TASKS[name].sample_batch(getkey(), 11)
    assert (jnp.abs(jax.vmap(residuals)(prompts)).max(axis=(1, 2)) > 1e-3).all()


def test_noise_leaves_inputs_and_target_alone(getkey):
    clean, noisy, key = TASKS["linear"], TASKS["noise"], getkey()
    (prompt, target), (other, same) = clean.sample_batch(key, 5000), noisy.sample_batch(key, 5000)
    assert trees_equal((prompt.xs, prompt.query, target), (other.xs, other.query, same))
    noise = np.asarray(other.ys - prompt.ys)
    assert abs(noise.std() - 0.3) < 0.005
    assert abs(np.corrcoef(noise[:, 0, 0], noise[:, 1, 0])[0, 1]) < 0.06


@pytest.mark.parametrize("num_distractors", [0, 1, 2, 7])
def test_distractors_break_that_many_labels(num_distractors, getkey):
    key = getkey()
    clean, target = TASKS["linear"].sample_batch(key, 3000)
    prompts, same = LinearRegression(**SIZES, num_distractors=num_distractors).sample_batch(key, 3000)
    assert trees_equal((clean.xs, clean.query, target), (prompts.xs, prompts.query, same))
    broken = np.asarray(clean.ys != prompts.ys)
    assert (broken.all(axis=2) == broken.any(axis=2)).all()
    assert (broken.all(axis=2).sum(axis=1) == num_distractors).all()
    if num_distractors:
        labels = np.asarray(prompts.ys)[broken]
        assert abs(labels.mean()) < 5 / np.sqrt(len(labels))
        assert abs(labels.std() - 1) < 5 / np.sqrt(2 * len(labels))
        share = broken[:, :, 0].mean(axis=0)
        assert (np.abs(share - num_distractors / 7) < 0.04).all()


@pytest.mark.parametrize("number", [-1, 8, 1.5])
def test_an_impossible_number_of_distractors_is_refused(number):
    with pytest.raises(Exception, match="num_distractors"):
        LinearRegression(**SIZES, num_distractors=number)


@pytest.mark.parametrize("build", [lambda n: PooledTeacher(num_tasks=n), lambda n: PromptPool(num_tasks=n)])
def test_an_empty_pool_is_refused(build):
    with pytest.raises(ConfigError, match="num_tasks must be a whole number from 1 to 2147483647, got 0"):
        build(0)


def distinct(rows) -> set[tuple[float, ...]]:
    return {tuple(row) for row in np.asarray(rows).reshape(len(rows), -1).tolist()}


def test_a_pooled_teacher_repeats_and_its_inputs_do_not(getkey):
    teacher = PooledTeacher(num_tasks=5)
    drawn = jax.vmap(lambda key: teacher.sample(key, 2, 3))(jr.split(getkey(), 300))
    assert len(distinct(drawn)) == 5
    prompts, _ = LinearRegression(**SIZES, teacher=teacher).sample_batch(getkey(), 300)
    assert len(distinct(prompts.xs)) == 300
    larger = PooledTeacher(num_tasks=11)
    assert distinct(drawn) < distinct(jax.vmap(lambda key: larger.sample(key, 2, 3))(jr.split(getkey(), 300)))
    other = PooledTeacher(num_tasks=5, pool_seed=1)
    assert not distinct(drawn) & distinct(jax.vmap(lambda key: other.sample(key, 2, 3))(jr.split(getkey(), 300)))


def test_a_task_pool_repeats_whole_prompts_equally_often(getkey):
    prompts, targets = PromptPool(LinearRegression(**SIZES), num_tasks=5).sample_batch(getkey(), 5000)
    rows = jnp.concatenate([a.reshape(5000, -1) for a in jax.tree.leaves((prompts, targets))], axis=1)
    _, counts = np.unique(np.asarray(rows), axis=0, return_counts=True)
    assert len(counts) == 5
    assert (np.abs(counts - 1000) < 150).all()
    assert len(distinct(prompts.query)) == 5


def test_members_of_a_pool_are_ordinary_tasks(getkey):
    pool = PromptPool(LinearRegression(**SIZES), num_tasks=100_000)
    mean = over_tasks(squared_error, ZeroPredictor(), pool, num_tasks=5000, key=getkey()).mean()
    assert abs(mean / (2 * 3 * 0.25 / 3) - 1) < 0.1  # n_y tr Λ


def test_the_teacher_has_its_mean_and_scale(getkey):
    weights = jax.vmap(lambda key: TASKS["mean"].teacher.sample(key, 2, 3))(jr.split(getkey(), 20_000))
    assert (np.abs(np.asarray(weights).mean(axis=0) - np.asarray(MEAN)) < 5 * 0.5 / np.sqrt(20_000)).all()
    assert (np.abs(np.asarray(weights).std(axis=0) - 0.5) < 0.015).all()


def test_amplitude_and_phase_are_independent(getkey):
    """a² = y(x)² + y(x + π/2)², tan ρ = y(0)/y(π/2): read off from a wave sampled where it can be."""

    class Grid(Uniform):
        def sample(self, key, num, input_dim):
            return jnp.asarray([[0.0], [jnp.pi / 2], [1.0]])

    task = SineRegression(num_examples=2, inputs=Grid(), amplitude_min=0.2, amplitude_max=0.7)
    prompts, targets = task.sample_batch(getkey(), 20_000)
    sine, cosine = np.asarray(prompts.ys)[:, 0, 0], np.asarray(prompts.ys)[:, 1, 0]
    amplitude, phase = np.hypot(sine, cosine), np.arctan2(sine, cosine)
    for values, low, high in ((amplitude, 0.2, 0.7), (phase, 0.0, np.pi)):
        assert low - 1e-6 <= values.min() < low + 0.01 < high - 0.01 < values.max() <= high + 1e-6
        assert abs(values.mean() - (low + high) / 2) < 5 * (high - low) / np.sqrt(12 * 20_000)
    assert abs(np.corrcoef(amplitude, phase)[0, 1]) < 5 / np.sqrt(20_000)
    assert np.allclose(targets[:, 0], amplitude * np.sin(1 + phase), atol=1e-5)


ZERO_LOSSES = {  # ½ n_y α² tr Λ + ½ tr μ Λ μᵀ; ¼ E[a²]
    "linear": 2 * 3 * 0.25 / 3 / 2,
    "gaussian": 2 * 3.4 / 2,
    "exponential": 2 * 3 * 2 * 0.25 / 2,
    "laplace": 2 * 3 * 2 * 0.25 / 2,
    "random covariance": 2 * 3 / 2,
    "mean": (2 * 0.25 * 0.25 + 7.75 * 0.25 / 3) / 2,
    "noise": 2 * 3 * 0.25 / 3 / 2,
    "distractors": 2 * 3 * 0.25 / 3 / 2,
    "sine": (0.01 + 0.05 + 0.25) / 3 / 4,
}


@pytest.mark.parametrize("name", ZERO_LOSSES)
def test_the_loss_of_predicting_zero(name, getkey):
    errors = over_tasks(squared_error, ZeroPredictor(), TASKS[name], num_tasks=20_000, key=getkey()) / 2
    assert abs(errors.mean() - ZERO_LOSSES[name]) < 5 * errors.std() / np.sqrt(len(errors))


def test_a_pool_costs_no_new_trace(getkey):
    traces = []

    @eqx.filter_jit
    def sample(task, key):
        traces.append(task)
        return task.sample(key)

    for _ in range(3):
        sample(TASKS["pool"], getkey())
    assert len(traces) == 1
