"""The classical algorithms: each from its definition, and each at its best where a formula says what that is."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_close, random_prompt

from iclzoo.train.losses import half_mse, over_tasks, squared_error
from iclzoo.train.tasks.inputs import Exponential, Gaussian, Laplace, RandomCovariance, Uniform
from iclzoo.train.tasks.regression import LinearRegression, PromptPool, SineRegression
from iclzoo.train.tasks.teachers import GaussianTeacher, PooledTeacher
from iclzoo.train.tuning.baselines import best_baseline
from iclzoo.train.tuning.search import tune
from iclzoo.train.tuning.step_size import optimal_preconditioner, optimal_step_size
from iclzoo.zoo.algorithms.gradient_descent import GradientDescent, GradientDescentPlusPlus, averaging
from iclzoo.zoo.algorithms.least_squares import (
    LeastSquares,
    Ridge,
    ZeroPredictor,
    bayes_regularisation,
    fitted_regularisation,
)
from iclzoo.zoo.algorithms.one_step import fitted_preconditioner, fitted_step_size
from iclzoo.zoo.algorithms.preconditioned import PreconditionedGradientDescent
from iclzoo.zoo.algorithms.smoothing import KNearestNeighbours, NadarayaWatson, SoftmaxSmoother
from iclzoo.zoo.errors import NotApplicable, ShapeError, UnknownNameError
from iclzoo.zoo.prompt import Prompt

ALGORITHMS = {
    "gd": GradientDescent((0.4, 0.7, 0.2), num_steps=3),
    "gd from W_0": GradientDescent(0.4, num_steps=2, W_0=jnp.asarray([[1.0, -2.0, 0.5], [0.0, 1.0, 1.5]])),
    "gd++": GradientDescentPlusPlus(0.4, 0.05, num_steps=3),
    "averaging": averaging(0.7),
    "preconditioned": PreconditionedGradientDescent(jnp.diag(jnp.asarray([0.3, 0.8, 1.1])), num_steps=2),
    "ridge": Ridge(0.3),
    "least squares": LeastSquares(),
    "zero": ZeroPredictor(),
    "knn": KNearestNeighbours(3),
    "nadaraya-watson": NadarayaWatson(0.6),
    "softmax": SoftmaxSmoother(1.3),
}


def several_outputs(key, num_examples: int = 7) -> Prompt:
    return random_prompt(key, num_examples=num_examples, output_dim=2)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_one_signature(name, getkey):
    prompt, algorithm = several_outputs(getkey()), ALGORITHMS[name]
    prediction = jax.jit(lambda a, p: a(p))(algorithm, prompt)
    assert prediction.shape == (2,)
    assert jnp.isfinite(prediction).all()
    order = jr.permutation(getkey(), 7)
    assert_close(algorithm(Prompt(xs=prompt.xs[order], ys=prompt.ys[order], query=prompt.query)), prediction)


@pytest.mark.parametrize("W_0", [None, ((1.0, -2.0, 0.5), (0.0, 1.0, 1.5))], ids=["zero", "given"])
def test_gradient_descent_descends_the_gradient(W_0, getkey, x64):
    prompt, etas = several_outputs(getkey()), (0.4, 0.7, 0.2)

    def loss(W):
        return ((prompt.xs @ W.T - prompt.ys) ** 2).sum() / (2 * 7)

    start = None if W_0 is None else jnp.asarray(W_0)
    W = jnp.zeros((2, 3)) if start is None else start
    for eta in etas:
        W = W - eta * jax.grad(loss)(W)
    assert_close(GradientDescent(etas, num_steps=3, W_0=start)(prompt), W @ prompt.query)


def test_gd_plus_plus_from_its_definition(getkey, x64):
    """One row at a time, the query among the rows, its label read off with the opposite sign."""
    prompt, etas, gammas = several_outputs(getkey()), (0.4, 0.7, 0.2), (0.05, 0.02, 0.01)
    xs, ys = [*prompt.xs, prompt.query], [*prompt.ys, jnp.zeros(2)]
    for eta, gamma in zip(etas, gammas, strict=True):
        delta_W = eta / 7 * sum(jnp.outer(y, x) for x, y in zip(xs[:-1], ys[:-1], strict=True))
        hessian = sum(jnp.outer(x, x) for x in xs[:-1])
        ys = [y - delta_W @ x for x, y in zip(xs, ys, strict=True)]
        xs = [x - gamma * hessian @ x for x in xs]
    assert_close(GradientDescentPlusPlus(etas, gammas, num_steps=3)(prompt), -ys[-1])


def test_gd_plus_plus_bends_the_spectrum(getkey, x64):
    """After a step with η = 0 the Hessian has eigenvalues λ(1 − γλ)²: the second step sees them."""
    prompt, gamma = several_outputs(getkey()), 0.05
    eigenvalues, U = jnp.linalg.eigh(prompt.xs.T @ prompt.xs)
    bent = (U * (1 - gamma * eigenvalues)[None]) @ U.T
    hessian = (prompt.xs @ bent).T @ (prompt.xs @ bent)
    assert_close(jnp.sort(jnp.linalg.eigvalsh(hessian)), jnp.sort(eigenvalues * (1 - gamma * eigenvalues) ** 2))
    moved = Prompt(xs=prompt.xs @ bent, ys=prompt.ys, query=bent @ prompt.query)
    two_steps = GradientDescentPlusPlus((0.0, 0.4), (gamma, 0.0), num_steps=2)
    assert_close(two_steps(prompt), GradientDescent(0.4)(moved))


def test_averaging_is_the_mean_of_yx(getkey, x64):
    prompt = several_outputs(getkey())
    mean = sum(jnp.outer(y, x) for x, y in zip(prompt.xs, prompt.ys, strict=True)) / 7
    assert_close(averaging(0.7)(prompt), 0.7 * mean @ prompt.query)


@pytest.mark.parametrize("num_examples", [2, 3, 7], ids=["N<d", "N=d", "N>d"])
def test_ridge_solves_the_normal_equations(num_examples, getkey, x64):
    prompt, rho = several_outputs(getkey(), num_examples), 0.3
    X, Y = prompt.xs, prompt.ys
    W = jnp.linalg.solve(X.T @ X + rho * jnp.eye(3), X.T @ Y).T
    assert_close(Ridge(rho)(prompt), W @ prompt.query)
    gradient = jax.grad(lambda W: ((X @ W.T - Y) ** 2).sum() + rho * (W**2).sum())(W)
    assert jnp.abs(gradient).max() < 1e-12


@pytest.mark.parametrize("num_examples", [2, 7])
def test_ridge_tends_to_least_squares(num_examples, getkey, x64):
    prompt = several_outputs(getkey(), num_examples)
    distances = [float(jnp.abs(Ridge(rho)(prompt) - LeastSquares()(prompt)).max()) for rho in (1e-3, 1e-5, 1e-7)]
    assert distances[0] > 50 * distances[1] > 2500 * distances[2]


def test_ridge_is_bayes_optimal():
    task = LinearRegression(input_dim=5, num_examples=7, teacher=GaussianTeacher(scale=1.5), noise_std=0.3)
    assert bayes_regularisation(task.moments()) == pytest.approx(0.04)
    factors = (0.25, 0.5, 1.0, 2.0, 4.0)
    errors = [  # one after the other: on few cores, XLA can lock up on solves that run side by side
        over_tasks(squared_error, Ridge(0.04 * factor), task, num_tasks=20_000, key=jr.key(0)).mean()
        for factor in factors
    ]
    assert factors[np.argmin(errors)] == 1.0


def test_fitted_regularisation_finds_bayes():
    """Where the loss is flat at its minimum: what is near is the loss, and roughly also ρ."""
    task = LinearRegression(input_dim=5, num_examples=7, teacher=GaussianTeacher(scale=1.5), noise_std=0.3)
    prompts, targets = task.sample_batch(jr.key(0), 5000)
    rho = fitted_regularisation(prompts, targets)
    assert 0.6 < rho / 0.04 < 1.6
    assert half_mse(Ridge(rho), prompts, targets) <= half_mse(Ridge(0.04), prompts, targets) * (1 + 1e-6)


def test_least_squares_is_exact_where_it_can_be(getkey, x64):
    for num_examples in (3, 7):
        prompts, targets = LinearRegression(input_dim=3, output_dim=2, num_examples=num_examples).sample_batch(
            getkey(), 5
        )
        assert_close(jax.vmap(LeastSquares())(prompts), targets, factor=100, why="square systems are ill-conditioned")


def test_least_squares_is_shortest_where_many_fit(getkey, x64):
    prompt = several_outputs(getkey(), num_examples=2)
    W = prompt.ys.T @ jnp.linalg.inv(prompt.xs @ prompt.xs.T) @ prompt.xs
    assert_close(LeastSquares()(prompt), W @ prompt.query)


def test_nearest_neighbours(getkey, x64):
    prompt = several_outputs(getkey())
    order = np.argsort([float(jnp.linalg.norm(x - prompt.query)) for x in prompt.xs])
    for k in (1, 3, 7):
        assert_close(KNearestNeighbours(k)(prompt), prompt.ys[order[:k]].mean(axis=0))
    assert_close(KNearestNeighbours(7)(prompt), prompt.ys.mean(axis=0))


def test_too_many_neighbours(getkey):
    with pytest.raises(ShapeError, match="8 neighbours needs as many examples, but the prompt has 7"):
        KNearestNeighbours(8)(several_outputs(getkey()))
    with pytest.raises(ValueError, match="num_neighbours must be a whole number from 1 to 2147483647, got 0"):
        KNearestNeighbours(0)


def test_nadaraya_watson(getkey, x64):
    prompt, h = several_outputs(getkey()), 0.6
    kernel = jnp.exp(-(jnp.linalg.norm(prompt.xs - prompt.query[None], axis=1) ** 2) / (2 * h**2))
    assert_close(NadarayaWatson(h)(prompt), kernel @ prompt.ys / kernel.sum())
    assert_close(NadarayaWatson(1e9)(prompt), prompt.ys.mean(axis=0))


@pytest.mark.parametrize("bandwidth", [1e-3, 1e-25, 1e-30])
def test_a_narrow_kernel_is_the_nearest_neighbour(bandwidth, getkey):
    """Also where h² underflows in float32."""
    for _ in range(5):
        prompt = several_outputs(getkey())
        assert_close(NadarayaWatson(bandwidth)(prompt), KNearestNeighbours(1)(prompt))


def test_softmax_over_inner_products_is_a_kernel_only_on_a_sphere(getkey, x64):
    prompt = several_outputs(getkey())
    on_sphere = Prompt(
        xs=prompt.xs / jnp.linalg.norm(prompt.xs, axis=1, keepdims=True), ys=prompt.ys, query=prompt.query
    )
    for c in (0.3, 4.0, 50.0):
        smoother, kernel = SoftmaxSmoother(c), NadarayaWatson(c**-0.5)
        assert_close(smoother(on_sphere), kernel(on_sphere))
        assert jnp.abs(smoother(prompt) - kernel(prompt)).max() > 1e-3


def test_cold_softmax_takes_the_largest_inner_product(getkey):
    """A far example in the query's direction beats the nearest one."""
    near, far = jnp.asarray([0.9, 0.1]), jnp.asarray([5.0, 0.0])
    prompt = Prompt(xs=jnp.stack([near, far]), ys=jnp.asarray([[1.0], [2.0]]), query=jnp.asarray([1.0, 0.0]))
    assert KNearestNeighbours(1)(prompt) == NadarayaWatson(1e-3)(prompt) == 1.0
    for c in (1e3, 1e38):
        assert SoftmaxSmoother(c)(prompt) == 2.0
    assert_close(SoftmaxSmoother(0.0)(prompt), prompt.ys.mean(axis=0))


def test_preconditioned_gradient_descent(getkey, x64):
    prompt, P = several_outputs(getkey()), jr.normal(getkey(), (3, 3))
    by_hand = sum(y * (x @ P @ prompt.query) for x, y in zip(prompt.xs, prompt.ys, strict=True)) / 7
    assert_close(PreconditionedGradientDescent(P)(prompt), by_hand)

    def loss(W):
        return ((prompt.xs @ W.T - prompt.ys) ** 2).sum() / (2 * 7)

    Ps, W = jr.normal(getkey(), (2, 3, 3)), jnp.zeros((2, 3))
    for P in Ps:
        W = W - jax.grad(loss)(W) @ P
    assert_close(PreconditionedGradientDescent(Ps, num_steps=2)(prompt), W @ prompt.query)
    gd = GradientDescent(0.4, num_steps=3)
    assert_close(PreconditionedGradientDescent(0.4 * jnp.eye(3), num_steps=3)(prompt), gd(prompt))


def test_wrong_shapes_of_parameters():
    with pytest.raises(
        ValueError, match=r"one square matrix or 1 \(one a step\), of finite numbers, got .* of shape \(3,\)"
    ):
        PreconditionedGradientDescent(jnp.ones(3))
    with pytest.raises(ValueError, match=r"step_size must be one number or 2"):
        GradientDescent(jnp.ones(3), num_steps=2)


TABLE = [  # N, d, inputs, η*, ½·MSE*
    (10, 10, Uniform(0.5), 6.06061, 0.206229),
    (10, 10, Uniform(1.0), 1.51515, 0.824916),
    (20, 10, Uniform(0.5), 8.053691, 0.137025),
    (5, 2, Uniform(1.0), 2.205882, 0.088235),
    (20, 5, Gaussian(1.0), 0.769231, 0.576923),
]


@pytest.mark.parametrize(("N", "d", "inputs", "eta", "loss"), TABLE)
def test_optimal_step_size_is_the_published_one(N, d, inputs, eta, loss, x64):
    found = optimal_step_size(LinearRegression(num_examples=N, input_dim=d, inputs=inputs))
    assert found.step_size == pytest.approx(eta, rel=1e-6, abs=5e-6)
    assert found.half_mse == pytest.approx(loss, abs=5e-7)


MATRIX = ((1.3, 0.4, -0.2), (0.4, 0.7, 0.1), (-0.2, 0.1, 0.5))
TASKS = {
    "uniform": LinearRegression(input_dim=3, num_examples=5),
    "exponential": LinearRegression(input_dim=3, num_examples=5, inputs=Exponential(0.5)),
    "laplace": LinearRegression(input_dim=3, num_examples=5, inputs=Laplace(0.5)),
    "noise": LinearRegression(input_dim=3, num_examples=5, noise_std=0.4, teacher=GaussianTeacher(scale=1.5)),
    "all": LinearRegression(
        input_dim=3, output_dim=2, num_examples=5, inputs=Gaussian(MATRIX), noise_std=0.4, num_distractors=2
    ),
}


@pytest.mark.parametrize("name", ["uniform", "exponential", "all"])
def test_optimal_steps_are_where_the_loss_is_least(name):
    """On many tasks: the stated loss within five standard errors, the optimum flat (its slope in any direction is noise)."""
    task = TASKS[name]
    eta, P = optimal_step_size(task), optimal_preconditioner(task)
    assert P.half_mse <= eta.half_mse * (1 + 1e-6)

    def measure(parameters, prompt, target):
        step_size, preconditioner = parameters
        value_and_grad = jax.value_and_grad(lambda a: squared_error(a, prompt, target) / 2)
        return value_and_grad(GradientDescent(step_size)), value_and_grad(PreconditionedGradientDescent(preconditioner))

    (gd, gd_slope), (pgd, pgd_slope) = over_tasks(
        measure, (jnp.asarray(eta.step_size), P.preconditioner), task, num_tasks=100_000, key=jr.key(0)
    )
    for values, expected in (
        (gd, eta.half_mse),
        (gd_slope.step_size, 0),
        (pgd, P.half_mse),
        (pgd_slope.preconditioner, 0),
    ):
        error = values.std(axis=0) / np.sqrt(len(values))
        assert (np.abs(values.mean(axis=0) - expected) <= 5 * error).all()


def test_optimal_preconditioner_is_gamma_inverse(x64):
    for N in (2, 5, 11):
        covariance = jnp.asarray(MATRIX)
        gamma = (1 + 1 / N) * covariance + jnp.trace(covariance) / N * jnp.eye(3)
        found = optimal_preconditioner(LinearRegression(input_dim=3, num_examples=N, inputs=Gaussian(MATRIX)))
        assert_close(found.preconditioner, jnp.linalg.inv(gamma))
        eigenvalues = jnp.linalg.eigvalsh(covariance)
        trace = eigenvalues.sum()
        risk = (eigenvalues * (eigenvalues + trace) / ((N + 1) * eigenvalues + trace)).sum()
        assert found.half_mse == pytest.approx(float(risk) / 2, rel=1e-10)


@pytest.mark.parametrize("name", ["uniform", "laplace", "noise"])
def test_optimal_preconditioner_of_isotropic_inputs_is_the_step_size(name, x64):
    eta, P = optimal_step_size(TASKS[name]), optimal_preconditioner(TASKS[name])
    assert_close(P.preconditioner, eta.step_size * jnp.eye(3))
    assert P.half_mse == pytest.approx(eta.half_mse, rel=1e-10)


def test_fitted_step_size_is_near_the_optimal_one():
    fit = jax.jit(lambda key: fitted_step_size(*LinearRegression().sample_batch(key, 5000)))
    fits = np.asarray([fit(key) for key in jr.split(jr.key(0), 8)])
    error = fits.std(ddof=1) / np.sqrt(len(fits))
    assert abs(fits.mean() - 6.0606061) < 4 * error < 0.3


def test_fitted_preconditioner_is_near_the_optimal_one():
    task = TASKS["all"]
    fit = jax.jit(lambda key: fitted_preconditioner(*task.sample_batch(key, 10_000)))
    fits = np.stack([fit(key) for key in jr.split(jr.key(0), 8)])
    error = fits.std(axis=0, ddof=1) / np.sqrt(len(fits))
    assert (np.abs(fits.mean(axis=0) - optimal_preconditioner(task).preconditioner) < 5 * error).all()


def test_one_covariance_a_prompt_is_not_inverted():
    """With Exponential(1) variances and many examples P → I·E[λ²]/E[λ³] = I/3. Zhang et al. 2024, section 5."""
    task = LinearRegression(input_dim=3, num_examples=5, inputs=RandomCovariance())
    N, d, moments = 5, 3, (1, 1, 2, 6)  # E[λᵏ]
    same = (3 * moments[3] + (d - 1) * moments[1] * moments[2]) / N
    P = moments[2] / ((1 - 1 / N) * moments[3] + same)
    labelled = jax.jit(lambda key: task.sample_batch(key, 100_000))(jr.key(0))
    assert abs(jax.jit(fitted_step_size)(*labelled) / P - 1) < 0.1
    assert np.abs(np.asarray(jax.jit(fitted_preconditioner)(*labelled)) / P - np.eye(3)).max() < 0.2


@pytest.mark.parametrize(
    "task",
    [
        SineRegression(),
        PromptPool(),
        LinearRegression(teacher=PooledTeacher()),
        LinearRegression(teacher=GaussianTeacher(mean=1.0)),
        LinearRegression(inputs=RandomCovariance()),
    ],
    ids=["sine", "pool", "pooled teacher", "mean", "random covariance"],
)
def test_no_closed_form_where_it_would_be_wrong(task):
    for optimum in (optimal_step_size, optimal_preconditioner):
        with pytest.raises(NotApplicable, match="use fitted_"):
            optimum(task)


def test_tuning_finds_the_better_optimum_of_gd_plus_plus():
    """From the starts that `gd++-2-free` begins with; a poorer local optimum at 0.1033 catches local search."""
    prompts, targets = LinearRegression().sample_batch(jr.key(0), 3000)
    start = GradientDescentPlusPlus(6.06 * jnp.ones(2), 0.15 * jnp.ones(2), num_steps=2)
    tuned = tune(start, prompts, targets, key=jr.key(1))
    errors = over_tasks(squared_error, tuned, LinearRegression(), num_tasks=20_000, key=jr.key(2))
    assert errors.mean() / 2 <= 0.0935


BEST = {  # on LinearRegression(input_dim=2, num_examples=5, noise_std=0.3), with the parameters they must have
    "zero": ZeroPredictor,
    "least-squares": LeastSquares,
    "ridge": Ridge,
    "averaging": GradientDescent,
    "gd-1": GradientDescent,
    "preconditioned-gd": PreconditionedGradientDescent,
    "knn-3": KNearestNeighbours,
}


@pytest.mark.parametrize("name", BEST)
def test_baselines_in_closed_form(name, getkey):
    task = LinearRegression(input_dim=2, num_examples=5, noise_std=0.3)
    learner = best_baseline(name, task)
    assert type(learner) is BEST[name]
    if isinstance(learner, Ridge):
        assert_close(learner.regularisation, jnp.asarray(0.09))
    if isinstance(learner, GradientDescent):
        assert_close(learner.step_size, jnp.asarray(optimal_step_size(task).step_size))
    if isinstance(learner, KNearestNeighbours):
        assert learner.num_neighbours == 3


def test_ridge_without_noise_is_least_squares():
    assert isinstance(best_baseline("ridge", LinearRegression()), LeastSquares)


@pytest.mark.parametrize(
    ("name", "parameter"), [("nadaraya-watson", "bandwidth"), ("softmax-smoother", "inverse_temperature")]
)
def test_baselines_that_are_tuned(name, parameter, monkeypatch):
    """No parameter a tenth larger or smaller is better, on the tasks it was tuned on."""
    monkeypatch.setattr("iclzoo.train.tuning.baselines.TUNING_TASKS", 5000)
    task = SineRegression(num_examples=5) if name == "nadaraya-watson" else LinearRegression(input_dim=2)
    learner = best_baseline(name, task)
    prompts, targets = task.sample_batch(jr.key(0), 5000)
    value = getattr(learner, parameter)
    best = half_mse(learner, prompts, targets)
    for factor in (0.9, 1.1):
        assert best < half_mse(type(learner)(factor * value), prompts, targets)


@pytest.mark.parametrize("name", ["ridge", "preconditioned-gd", "gd-1"])
def test_baselines_are_fitted_where_no_formula_holds(name, monkeypatch):
    monkeypatch.setattr("iclzoo.train.tuning.baselines.TUNING_TASKS", 5000)
    task = LinearRegression(input_dim=2, num_examples=3, teacher=GaussianTeacher(mean=0.5))
    learner = best_baseline(name, task)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(learner))
    errors = over_tasks(squared_error, learner, task, num_tasks=5000, key=jr.key(3))
    zero = over_tasks(squared_error, ZeroPredictor(), task, num_tasks=5000, key=jr.key(3))
    assert errors.mean() < 0.7 * zero.mean()


def test_equal_tasks_are_tuned_once():
    task, same = (LinearRegression(input_dim=2, inputs=Exponential(0.5)) for _ in range(2))
    assert best_baseline("gd-1", task) is best_baseline("gd-1", same)


@pytest.mark.parametrize(
    ("name", "hint"), [("gd+-3", r"'gd\+\+-K'"), ("gd-0", "'gd-K'"), ("nadaraya", "'nadaraya-watson'"), ("?", "known:")]
)
def test_unknown_baselines(name, hint):
    with pytest.raises(UnknownNameError, match=f"unknown algorithm.*{hint}"):
        best_baseline(name, LinearRegression())


@pytest.mark.parametrize("half_width", [1e-9, 1e-7, 1e-3, 0.5, 1e3, 1e7, 1e9])
def test_the_best_step_scales_with_the_inputs(half_width):
    """η* half_width² and half-MSE/half_width² are the same at every width, at the ends of the range too."""
    at_one, here = (LinearRegression(inputs=Uniform(width)) for width in (1.0, half_width))
    best, scaled = optimal_step_size(at_one), optimal_step_size(here)
    assert scaled.step_size * half_width**2 == pytest.approx(best.step_size, rel=1e-5)
    assert scaled.half_mse / half_width**2 == pytest.approx(best.half_mse, rel=1e-5)
    matrix = optimal_preconditioner(here)
    assert np.allclose(matrix.preconditioner * half_width**2, best.step_size * np.eye(10), rtol=1e-4, atol=1e-4)
    assert matrix.half_mse / half_width**2 == pytest.approx(best.half_mse, rel=1e-5)


def test_no_step_is_best_for_teachers_that_are_zero():
    task = LinearRegression(teacher=GaussianTeacher(scale=0.0), noise_std=1.0)
    assert optimal_step_size(task) == (0.0, 0.0)
    assert optimal_preconditioner(task).half_mse == 0.0
    assert optimal_step_size(LinearRegression(teacher=GaussianTeacher(scale=0.0))) == (0.0, 0.0)
    assert not np.any(optimal_preconditioner(LinearRegression(teacher=GaussianTeacher(scale=0.0))).preconditioner)


@pytest.mark.parametrize("variance", [(1.0, 0.0), ((1.0, 1.0), (1.0, 1.0))])
def test_the_best_matrix_for_inputs_that_do_not_fill_the_space(variance):
    """The smallest of the best: no worse than the best of inputs that are all but those."""
    task = LinearRegression(input_dim=2, inputs=Gaussian(variance))
    near = LinearRegression(input_dim=2, inputs=Gaussian(np.array(task.inputs.covariance(2)) + 1e-4 * np.eye(2)))
    best = optimal_preconditioner(task)
    assert jnp.isfinite(best.preconditioner).all()
    assert best.half_mse == pytest.approx(optimal_preconditioner(near).half_mse, rel=1e-2)
