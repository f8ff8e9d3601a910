"""The distributions of inputs: their samples have the moments they state, and a sweep over them compiles once."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_close

from iclzoo.train.losses import over_tasks
from iclzoo.train.tasks.inputs import Exponential, Gaussian, Inputs, Laplace, RandomCovariance, Uniform, root
from iclzoo.train.tasks.regression import LinearRegression, SineRegression
from iclzoo.train.tasks.teachers import GaussianTeacher
from iclzoo.zoo.errors import ConfigError
from iclzoo.zoo.storage.config import from_config, to_config

DIM = 3
MATRIX = ((1.3, 0.4, -0.2), (0.4, 0.7, 0.1), (-0.2, 0.1, 0.5))
INPUTS = [
    Uniform(),
    Uniform(1.7),
    Gaussian(),
    Gaussian((0.3, 1.1, 2.0)),
    Gaussian(MATRIX),
    Exponential(0.6),
    Laplace(0.4),
    RandomCovariance(0.8),
]
NUM_SAMPLES = 200_000


def name(inputs: Inputs) -> str:
    return f"{type(inputs).__name__}-{np.asarray(next(iter(vars(inputs).values()))).ndim}d"


@eqx.filter_jit
def samples(inputs: Inputs, key) -> jax.Array:
    """One input of each of many prompts."""
    return jax.vmap(lambda k: inputs.sample(k, 1, DIM)[0])(jr.split(key, NUM_SAMPLES))


def assert_mean(values: jax.Array, expected: jax.Array) -> None:
    """The mean over the first axis is the expected one within five standard errors of each entry."""
    found = np.asarray(values, np.float64)
    error = found.std(axis=0) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - np.asarray(expected)) <= 5 * error).all()


@pytest.mark.parametrize("inputs", INPUTS, ids=name)
def test_second_moment(inputs, getkey):
    xs = samples(inputs, getkey())
    assert_mean(xs[:, :, None] * xs[:, None, :], inputs.covariance(DIM))


@pytest.mark.parametrize("inputs", INPUTS, ids=name)
def test_fourth_moment_map(inputs, getkey):
    A = jr.normal(getkey(), (DIM, DIM))  # not symmetric
    xs = samples(inputs, getkey())
    quadratic = jnp.einsum("na,ab,nb->n", xs, A, xs)
    assert_mean(quadratic[:, None, None] * xs[:, :, None] * xs[:, None, :], inputs.fourth_moment(A))


def test_only_exponential_inputs_have_a_mean(getkey):
    for inputs in INPUTS:
        mean = inputs.scale * jnp.ones(DIM) if isinstance(inputs, Exponential) else jnp.zeros(DIM)
        assert_mean(samples(inputs, getkey()), mean)


def test_uniform_inputs_fill_their_half_width(getkey):
    xs = Uniform(0.5).sample(getkey(), 10_000, DIM)
    assert 0.499 < xs.max() <= 0.5
    assert -0.5 <= xs.min() < -0.499


@pytest.mark.parametrize("inputs", INPUTS, ids=name)
def test_inputs_of_a_prompt_are_independent_where_they_say_so(inputs, getkey):
    """The squares of the same coordinate of two inputs correlate only where the prompt has a covariance of its own."""
    pairs = jax.vmap(lambda k: inputs.sample(k, 2, DIM)[:, 0] ** 2)(jr.split(getkey(), NUM_SAMPLES))
    correlation = np.corrcoef(np.asarray(pairs).T)[0, 1]
    if inputs.independent:
        assert abs(correlation) < 0.01
    else:  # Var λ = v², Var x² = E[x⁴] − (E[x²])² = 5v²
        assert abs(correlation - 1 / 5) < 0.02


@pytest.mark.parametrize("inputs", INPUTS, ids=name)
def test_settings_survive_a_file(inputs, getkey):
    again = from_config(json.loads(json.dumps(to_config(inputs))))
    assert to_config(again) == to_config(inputs)
    key = getkey()
    assert jnp.array_equal(again.sample(key, 5, DIM), inputs.sample(key, 5, DIM))


def test_a_matrix_that_is_not_square_is_refused():
    with pytest.raises(ConfigError, match="square matrix"):
        Gaussian(((1.0, 0.0),))


def test_width_scales_the_inputs(getkey):
    key = getkey()
    assert_close(Uniform(1.5).sample(key, 7, DIM), 3 * Uniform(0.5).sample(key, 7, DIM))
    assert_close(Exponential(1.5).sample(key, 7, DIM), 3 * Exponential(0.5).sample(key, 7, DIM))
    assert_close(Laplace(1.5).sample(key, 7, DIM), 3 * Laplace(0.5).sample(key, 7, DIM))
    assert_close(RandomCovariance(4.5).sample(key, 7, DIM), 3 * RandomCovariance(0.5).sample(key, 7, DIM))
    assert_close(Gaussian(4.5).sample(key, 7, DIM), Gaussian(4.5 * jnp.eye(DIM)).sample(key, 7, DIM))


SWEEPS = {
    "half_width": lambda value: LinearRegression(inputs=Uniform(value)),
    "variance": lambda value: LinearRegression(inputs=Gaussian(value)),
    "exponential": lambda value: LinearRegression(inputs=Exponential(value)),
    "laplace": lambda value: LinearRegression(inputs=Laplace(value)),
    "random_covariance": lambda value: LinearRegression(inputs=RandomCovariance(value)),
    "teacher": lambda value: LinearRegression(teacher=GaussianTeacher(scale=value)),
    "teacher_mean": lambda value: LinearRegression(teacher=GaussianTeacher(mean=value * jnp.ones((1, 10)))),
    "noise_std": lambda value: LinearRegression(noise_std=value),
    "sine_width": lambda value: SineRegression(inputs=Uniform(value)),
    "amplitude": lambda value: SineRegression(amplitude_max=value),
}


@pytest.mark.parametrize("shift", SWEEPS)
def test_a_sweep_compiles_once(shift, getkey):
    traces, key = [], getkey()

    def measure(learner, prompt, target):
        traces.append(shift)
        return (target**2).sum() + (prompt.ys**2).sum()

    values = [
        over_tasks(measure, None, SWEEPS[shift](jnp.asarray(value)), num_tasks=11, key=key).mean()
        for value in (0.5, 1.0, 2.0)
    ]
    assert len(traces) == 1
    assert len(set(values)) == 3


def test_a_batch_of_widths_is_a_batch_of_tasks(getkey):
    widths, key = jnp.asarray([0.5, 1.0]), getkey()
    tasks = eqx.filter_vmap(lambda width: LinearRegression(inputs=Uniform(width)).sample(key)[0].xs)(widths)
    assert_close(tasks[1], 2 * tasks[0])


@pytest.mark.parametrize(
    "covariance", [jnp.eye(3), jnp.diag(jnp.array([1.0, 1.0, 2.0])), jnp.ones((3, 3)), jnp.diag(jnp.arange(3.0))]
)
def test_the_root_of_a_covariance_has_a_derivative(covariance):
    """Also where eigenvalues are equal or zero."""
    drawn = jax.grad(lambda variance: (root(variance) ** 2).sum())(covariance)
    assert jnp.isfinite(drawn).all()


def test_what_is_no_covariance_gives_nothing_that_looks_like_one():
    """Under `vmap` a setting has no value that could be refused."""
    matrices = jnp.array([[[1.0, 0.8], [0.8, 1.0]], [[1.0, 2.0], [2.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]])
    roots = jax.vmap(root)(matrices)
    assert np.allclose(roots[0] @ roots[0].T, matrices[0], atol=1e-6)
    assert jnp.isnan(roots[1]).all()
    assert np.allclose(roots[2] @ roots[2].T, matrices[2], atol=1e-6)
