"""The exact loss of one linear attention layer, against quadrature that is exact, against sampling, and at the known optimum."""

from dataclasses import replace
from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_close

from iclzoo.inspect.theory import population_loss as module
from iclzoo.inspect.theory.population_loss import population_loss, population_loss_by_length, population_loss_gradient
from iclzoo.train.losses import over_tasks, squared_error
from iclzoo.train.tasks.inputs import Exponential, Gaussian, Laplace, RandomCovariance, Uniform
from iclzoo.train.tasks.regression import GaussianTeacher, LinearRegression, PromptPool, SineRegression
from iclzoo.train.tasks.teachers import PooledTeacher
from iclzoo.train.tuning.step_size import optimal_step_size
from iclzoo.zoo.constructions.gradient_descent_step import gradient_descent_lsa
from iclzoo.zoo.errors import ZooError
from iclzoo.zoo.factory import create
from iclzoo.zoo.prompt import Prompt

MATRIX = ((1.3, 0.4), (0.4, 0.6))


def dense(task, *, model="merged_lsa", query_init="learned", init_scale=0.6, seed=3, **hyperparameters):
    """A random model without any structure, W₀ included."""
    sizes = {"input_dim": task.input_dim, "output_dim": task.output_dim, **hyperparameters}
    model = create(model, **sizes, query_init=query_init, init_scale=init_scale, key=jr.key(seed))
    if query_init == "zero":
        return model
    return eqx.tree_at(lambda m: m.W_0, model, jr.normal(jr.key(seed + 1), model.W_0.shape))


def nodes(inputs, count):
    """Gauss nodes of one coordinate before any mixing, exact to degree 2 · count − 1."""
    if isinstance(inputs, Uniform):
        x, w = np.polynomial.legendre.leggauss(count)
        return inputs.half_width * x, w / 2
    if isinstance(inputs, Exponential | Laplace):
        x, w = np.polynomial.laguerre.laggauss(count)
        if isinstance(inputs, Laplace):
            x, w = np.concatenate([x, -x]), np.concatenate([w, w]) / 2
        return inputs.scale * x, w
    x, w = np.polynomial.hermite_e.hermegauss(count)
    return x, w / w.sum()


def quadrature(model, task):
    """½·MSE by product quadrature: exact, for the loss is of degree 4 in examples, teacher and noise, and 2 in the query."""
    d, p, N = task.input_dim, task.output_dim, task.num_examples
    normal, noise_nodes = nodes(Gaussian(), 3), nodes(Gaussian(), 3) if task.noise_std else (np.zeros(1), np.ones(1))
    axes = (
        [nodes(task.inputs, 3)] * (N * d) + [nodes(task.inputs, 2)] * d + [normal] * (p * d) + [noise_nodes] * (N * p)
    )
    points = np.stack([a.ravel() for a in np.meshgrid(*[x for x, _ in axes], indexing="ij")], axis=1)
    weights = np.prod([a.ravel() for a in np.meshgrid(*[w for _, w in axes], indexing="ij")], axis=0)
    mix = np.linalg.cholesky(np.array(MATRIX)) if isinstance(task.inputs, Gaussian) else np.eye(d)
    mean = np.broadcast_to(task.teacher.mean, (p, d))

    def error(point):
        xs, query, V, noise = jnp.split(point, np.cumsum([N * d, d, p * d]))
        xs, query = xs.reshape(N, d) @ mix.T, mix @ query
        W = mean + task.teacher.scale * V.reshape(p, d)
        return squared_error(model, Prompt(xs, xs @ W.T + task.noise_std * noise.reshape(N, p), query), W @ query)

    return (weights * np.asarray(jax.jit(jax.vmap(error))(points))).sum() / 2


TEACHER = GaussianTeacher(scale=0.8, mean=0.6)
EXACT = {
    "uniform with noise": LinearRegression(2, 1, 2, Uniform(1.1), GaussianTeacher(0.8), 0.7),
    "gaussian with noise and a mean": LinearRegression(2, 1, 2, Gaussian(MATRIX), TEACHER, 0.7),
    "two outputs": LinearRegression(2, 2, 2, Gaussian(MATRIX), TEACHER),
    "two outputs with noise": LinearRegression(1, 2, 2, Uniform(1.1), TEACHER, 0.7),
    "inputs with a mean": LinearRegression(2, 1, 2, Exponential(0.4), TEACHER, 0.7),
    "laplace": LinearRegression(1, 1, 2, Laplace(0.4), TEACHER, 0.7),
    "one example, one input": LinearRegression(1, 1, 1, Uniform(0.9), TEACHER, 0.7),
}


@pytest.mark.parametrize("name", EXACT)
def test_the_loss_is_that_of_exact_quadrature(name, x64):
    task = EXACT[name]
    model = dense(task, num_heads=2)
    assert_close(np.float64(population_loss(model, task)), quadrature(model, task))


@pytest.mark.parametrize(
    "task",
    [
        LinearRegression(3, 2, 5, Gaussian((0.5, 1.0, 2.0)), noise_std=0.7),
        LinearRegression(3, 2, 5, Exponential(0.4), TEACHER, 0.4, num_distractors=2),
    ],
    ids=["gaussian", "distractors"],
)
def test_the_loss_is_that_of_sampled_tasks(task):
    """Within three standard errors on a million tasks."""
    model = dense(task, num_heads=2, init_scale=0.3)
    losses = over_tasks(squared_error, model, task, num_tasks=1_000_000, key=jr.key(1)) / 2
    error = losses.std() / len(losses) ** 0.5
    assert error < 0.01 * losses.mean()  # a statement with no power would pass
    assert abs(population_loss(model, task) - losses.mean()) < 3 * error


def test_the_known_optimum():
    task = LinearRegression()
    assert optimal_step_size(task).step_size == pytest.approx(6.060606)
    model = gradient_descent_lsa([200 / 33], num_examples=10, input_dim=10)
    assert population_loss(model, task) == pytest.approx(0.206229, abs=5e-7)
    gradient = population_loss_gradient(model, task)
    assert max(np.abs(gradient.W_KQ).max(), np.abs(gradient.W_PV).max()) < 1e-6  # the weights are float32


def test_a_wider_input_range_multiplies_the_loss():
    """At twice the half-width the same layer with a quarter of the step size has four times the loss."""
    task, model = LinearRegression(3, 1, 5), gradient_descent_lsa([4.0], num_examples=5, input_dim=3)
    wider = gradient_descent_lsa([1.0], num_examples=5, input_dim=3)
    loss = population_loss(model, task)
    assert population_loss(wider, replace(task, inputs=Uniform(1.0))) == pytest.approx(4 * loss, rel=1e-7)


def test_the_gradient_is_the_slope_of_the_loss(x64, getkey):
    task = EXACT["gaussian with noise and a mean"]
    model = dense(task, num_heads=2)
    gradient = population_loss_gradient(model, task)
    where = lambda m: (m.layers[0].W_KQ, m.layers[0].W_PV)  # noqa: E731
    direction = [jr.normal(getkey(), leaf.shape) for leaf in where(model)]

    def loss(t):
        return population_loss(
            eqx.tree_at(where, model, [w + t * v for w, v in zip(where(model), direction, strict=True)]), task
        )

    slope = sum((g * v).sum() for g, v in zip(gradient, direction, strict=True))
    # the loss is of degree 4 along a line, for which this rule is exact
    h = 0.1
    rule = (8 * (loss(h) - loss(-h)) - (loss(2 * h) - loss(-2 * h))) / (12 * h)
    assert_close(np.float64(rule), np.float64(slope), factor=100, why="differences of large losses")


def test_the_loss_at_other_lengths(x64):
    task = LinearRegression(3, 2, 5, Exponential(0.4), TEACHER, 0.4, num_distractors=2)
    model = dense(task, num_heads=2)
    known = [population_loss(model, replace(task, num_examples=N)) for N in (2, 11)]
    assert_close(population_loss_by_length(model, task, [2, 11]), np.array(known))
    with pytest.raises(ZooError, match="at least num_distractors = 2"):
        population_loss_by_length(model, task, [1])


def test_every_kind_of_single_layer_has_the_same_loss():
    task = LinearRegression(3, 2, 5)
    lsa = dense(task, model="lsa", num_heads=2)
    deep = create("deep_lsa", num_layers=1, num_heads=2, input_dim=3, output_dim=2, query_init="learned", key=jr.key(0))
    deep = eqx.tree_at(lambda m: (m.layers[0], m.W_0), deep, (lsa.attention, lsa.W_0))
    recurrent = create(
        "recurrent_lsa",
        num_loops=1,
        damping=0.5,
        num_heads=2,
        input_dim=3,
        output_dim=2,
        query_init="learned",
        key=jr.key(0),
    )
    doubled = eqx.tree_at(lambda a: a.W_P, lsa.attention, 2 * lsa.attention.W_P)
    recurrent = eqx.tree_at(lambda m: (m.attention, m.W_0), recurrent, (doubled, lsa.W_0))
    losses = [population_loss(m, task) for m in (lsa, deep, recurrent)]
    assert losses == pytest.approx([losses[0]] * 3)


def test_zero_and_broken_weights():
    task = LinearRegression(3, 2, 5)
    model = dense(task, query_init="zero")
    assert population_loss(jax.tree.map(jnp.zeros_like, model), task) == pytest.approx(2 * 3 / 12 / 2)
    assert np.isnan(population_loss(jax.tree.map(lambda w: w * jnp.nan, model), task))


def test_a_sweep_over_settings_compiles_once(monkeypatch):
    traces = []
    exact = module.exact_half_mse
    monkeypatch.setattr(module, "exact_half_mse", lambda *arguments: traces.append(1) or exact(*arguments))
    task = LinearRegression(3, 1, 7)  # sizes no other test has
    model = dense(task, query_init="zero")
    losses = [
        population_loss(model, replace(task, inputs=Uniform(half_width), noise_std=noise))
        for half_width, noise in product([0.3, 0.5], [0.0, 0.1])
    ]
    assert len(set(losses)) == 4
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("model", "task", "reason"),
    [
        ("lsa", SineRegression(), "SineRegression"),
        ("lsa", PromptPool(), "PromptPool"),
        ("lsa", LinearRegression(teacher=PooledTeacher()), "PooledTeacher"),
        ("lsa", LinearRegression(inputs=RandomCovariance()), "depend on each other"),
        ("lsa", LinearRegression(input_dim=7), "input_dim 10, but task has 7"),
        ("recurrent_lsa", LinearRegression(), "applies 2 layers"),
        ("softmax_attention", LinearRegression(), "its layer is SoftmaxSelfAttention"),
        ("lstm", LinearRegression(), r"does not read \(x, y\) tokens"),
    ],
)
def test_where_it_does_not_apply_it_says_why(model, task, reason):
    with pytest.raises(ZooError, match=reason):
        population_loss(create(model, key=jr.key(0)), task)


def test_a_query_among_the_keys_and_clipped_tokens_are_refused():
    with pytest.raises(ZooError, match="the query is among"):
        population_loss(create("lsa", query_in_context=True, key=jr.key(0)), LinearRegression())
    with pytest.raises(ZooError, match="does more to its tokens"):
        population_loss(create("deep_lsa", num_layers=1, clip=10.0, key=jr.key(0)), LinearRegression())
