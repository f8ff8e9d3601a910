"""Which algorithm a learner runs: on learners that were made to run one, and on some that run none."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
import pytest
from helpers import Still, assert_close

from iclzoo.inspect.identification.candidates import default_candidates, fit_candidate
from iclzoo.inspect.identification.explained_variance import compare, explained_share
from iclzoo.inspect.identification.verdict import identify
from iclzoo.inspect.identification.verdict_plot import explained_variance_bars, identification_figure
from iclzoo.inspect.report.tables import identification_tables
from iclzoo.train.tasks.inputs import Gaussian, Uniform
from iclzoo.train.tasks.out_of_distribution import inside_and_outside
from iclzoo.train.tasks.regression import LinearRegression, PromptPool, SineRegression, Task
from iclzoo.train.tuning.baselines import fitted_baseline
from iclzoo.zoo.algorithm import algorithm
from iclzoo.zoo.algorithms.gradient_descent import GradientDescent, GradientDescentPlusPlus
from iclzoo.zoo.algorithms.least_squares import LeastSquares, Ridge, ZeroPredictor
from iclzoo.zoo.algorithms.smoothing import KNearestNeighbours, NadarayaWatson
from iclzoo.zoo.constructions.gd_plus_plus import gd_plus_plus_lsa
from iclzoo.zoo.constructions.gradient_descent_step import gradient_descent_lsa
from iclzoo.zoo.constructions.kernel_regression import kernel_regression_mlp_lsa
from iclzoo.zoo.constructions.preconditioned import preconditioned_gd_lsa
from iclzoo.zoo.errors import UnknownNameError, ZooError
from iclzoo.zoo.factory import create
from iclzoo.zoo.layers.mlp import MLPEmbedding

TASK = LinearRegression(input_dim=3, num_examples=5, inputs=Uniform(1.0))
SINES = SineRegression(num_examples=7, inputs=Uniform(2.0))
FEATURES = MLPEmbedding(in_dim=1, embed_dim=5, hidden_dim=7, init_scale=1.0, key=jr.key(3))
DIMS = {"num_examples": 5, "input_dim": 3}
P = jnp.array([[2.0, 0.5, 0.0], [0.0, 1.0, -0.3], [0.1, 0.0, 0.6]])
FEW = ("zero", "gd-1")


@pytest.fixture(autouse=True, scope="module")
def quick_compilation():
    """Small sizes and many programs: compiling takes longer than running, so it is told to optimise little."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


CASES = {
    "gd-1": (gradient_descent_lsa([1.3], **DIMS), TASK, ("preconditioned-gd",), {"step_size": 1.3}),
    "gd-2": (gradient_descent_lsa([1.1, 1.1], **DIMS), TASK, ("gd++-2", "gd-2-free"), {"step_size": 1.1}),
    "gd-5": (gradient_descent_lsa([0.9] * 5, **DIMS), TASK, ("gd-2",), {"step_size": 0.9}),
    "gd++-2": (gd_plus_plus_lsa([2.0, 2.0], [0.1, 0.1], **DIMS), TASK, ("gd-2",), {"step_size": 2.0, "gamma": 0.1}),
    "gd++-2-free": (
        gd_plus_plus_lsa([0.7, 3.0], [0.15, 0.0], **DIMS),
        TASK,
        ("gd++-2",),
        {"step_size": [0.7, 3.0], "gamma": [0.15, None]},
    ),
    "preconditioned-gd": (preconditioned_gd_lsa(P[None], num_examples=5), TASK, (), {"preconditioner": P.tolist()}),
    "kernel-gd": (kernel_regression_mlp_lsa(FEATURES, 0.2, num_examples=7), SINES, (), {"step_size": 0.2}),
    "ridge": (Ridge(0.3), TASK, ("least-squares",), {"regularisation": 0.3}),
    "least-squares": (LeastSquares(), TASK, (), {}),
    "knn-1": (KNearestNeighbours(1), TASK, ("knn-3", "nadaraya-watson"), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_learner_made_to_run_an_algorithm_is_said_to_run_it(name):
    learner, task, rivals, parameters = CASES[name]
    candidates = dict.fromkeys((*FEW, *rivals, name))
    found = identify(learner, task, candidates=tuple(candidates), num_tasks=701, key=jr.key(1))
    assert found.verdict == found.ranking[0].name == name
    first = found.ranking[0]
    for explained in first.explained:
        assert explained.prediction.value == pytest.approx(1.0, abs=1e-4)
        if name != "knn-1":
            assert explained.sensitivity.value == pytest.approx(1.0, abs=1e-4)
    fitted, put_in = jax.tree.leaves(first.parameters), jax.tree.leaves(parameters)
    assert fitted == pytest.approx(put_in, abs=1e-3)


@pytest.mark.parametrize("name", ["transformer", "lstm"])
def test_an_untrained_network_runs_none_of_them(name):
    options = {"num_layers": 1, "init_scale": 1.0} if name == "transformer" else {"hidden_size": 11}
    learner = create(name, input_dim=3, key=jr.key(5), **options)
    found = identify(learner, TASK, candidates=(*FEW, "gd-2"), num_tasks=101, key=jr.key(0))
    assert found.verdict is None
    assert found.ranking[0].score.value < 0.9
    assert "is asked for" in found.reason
    assert not found.best_for_task


class Constant(eqx.Module):
    value: float

    def __call__(self, prompt):
        return jnp.full(prompt.output_dim, self.value) + 0 * prompt.query.sum()


def test_learners_that_ignore_the_prompt():
    zero = identify(ZeroPredictor(), TASK, key=jr.key(0))
    assert (zero.verdict, zero.ranking, zero.relative_power) == ("zero", (), 0.0)
    constant = identify(Constant(0.25), TASK, key=jr.key(0))
    assert (constant.verdict, constant.reason) == (None, "it predicts 0.25 whatever the prompt")
    broken = identify(Constant(np.nan), TASK, key=jr.key(0))
    assert (broken.verdict, broken.reason) == (None, "its predictions are not finite on any task")
    for found in (zero, constant, broken):
        assert len(identification_tables(found)) == 1
        assert isinstance(identification_figure(found).axes[0].texts[0].get_text(), str)


def test_predictions_that_are_nearly_nothing_are_called_zero_unless_an_algorithm_explains_them():
    small = create("transformer", input_dim=3, num_layers=1, init_scale=1e-5, key=jr.key(5))
    assert identify(small, TASK, candidates=FEW, num_tasks=101, key=jr.key(0)).verdict == "zero"
    assert identify(GradientDescent(1e-4), TASK, candidates=FEW, num_tasks=101, key=jr.key(0)).verdict == "gd-1"


class SometimesBroken(eqx.Module):
    """Two steps of gradient descent, but NaN for some queries."""

    def __call__(self, prompt):
        return jnp.where(prompt.query[0] > 0.9, jnp.nan, 1.0) * GradientDescent(1.1, num_steps=2)(prompt)


def test_tasks_without_a_finite_prediction_are_left_out_and_counted():
    found = identify(SometimesBroken(), TASK, candidates=("zero", "gd-2"), num_tasks=211, key=jr.key(0))
    assert found.verdict == "gd-2"
    assert found.ranking[0].parameters["step_size"] == pytest.approx(1.1, abs=1e-3)
    assert 0 < found.ranking[0].explained[0].num_not_finite < 211


@pytest.mark.parametrize(
    "task",
    [
        LinearRegression(input_dim=2, num_examples=1, output_dim=3),
        LinearRegression(input_dim=1, num_examples=3, inputs=Gaussian(0.7)),
    ],
    ids=["one example, three outputs", "one input"],
)
def test_small_tasks(task):
    found = identify(
        GradientDescent(0.8), task, num_tasks=53, candidates=("gd-1", "preconditioned-gd", "knn-3"), key=jr.key(0)
    )
    assert found.verdict == "gd-1"
    assert ("knn-3" in found.skipped) == (task.num_examples < 3)


def test_a_task_with_no_variation():
    task = LinearRegression(input_dim=3, num_examples=5, inputs=Still())
    assert identify(GradientDescent(0.8), task, key=jr.key(0)).verdict == "zero"


def test_the_explained_share_and_its_standard_error():
    """½ of a learner leaves a quarter; the error of a ratio of means is that of many repetitions."""

    class Half(eqx.Module):
        def __call__(self, prompt):
            return GradientDescent(0.5)(prompt)

    (measured,) = compare(
        GradientDescent(1.0), {"half": Half()}, TASK, distribution="", num_tasks=101, key=jr.key(0)
    ).values()
    assert measured.explained.prediction.value == pytest.approx(0.75)
    assert measured.explained.sensitivity.value == pytest.approx(0.75)
    assert measured.explained.prediction.standard_error < 1e-6  # the same share of every task
    rng = np.random.default_rng(0)
    power = rng.exponential(size=(2000, 101))
    error = power * rng.uniform(size=power.shape)
    values = [explained_share(e, p) for e, p in zip(error, power, strict=True)]
    spread = np.std([share.value for share in values])
    assert np.mean([share.mean.standard_error for share in values]) == pytest.approx(
        spread, rel=0.06
    )  # 4 standard errors


class Exploding(eqx.Module):
    """One step of gradient descent, and something enormous where the query is large."""

    size: float
    sign: float = 1.0

    def __call__(self, prompt):
        step = GradientDescent(1.0)(prompt)
        return jnp.where(prompt.query[0] > 0.95, self.sign * self.size, step)


def test_a_few_tasks_that_explode_decide_nothing():
    """What one learner does on tasks where it explodes counts no more than the cap, and nothing where both explode."""
    step = GradientDescent(1.0)
    others = {"finite": Exploding(1e3), "huge": Exploding(1e30), "infinite": Exploding(np.inf)}
    found = compare(step, others, TASK, distribution="", num_tasks=400, key=jr.key(0))
    shares = [one.explained.prediction.value for one in found.values()]
    assert shares[0] == shares[1] == shares[2] > -20
    assert found["huge"].explained.num_other_diverging == found["infinite"].explained.num_other_diverging > 0
    assert found["huge"].explained.num_both_diverging == 0
    both = compare(
        Exploding(1e30), {"other": Exploding(1e30, -1.0)}, TASK, distribution="", num_tasks=400, key=jr.key(0)
    )
    explained = both["other"].explained
    assert explained.num_both_diverging == found["huge"].explained.num_other_diverging
    assert explained.prediction.value == pytest.approx(1.0)


@pytest.mark.parametrize(("num_steps", "scale"), [(2, 1.5), (4, 0.5)])
def test_a_ladder_is_said_to_be_gd_plus_plus_with_free_steps(num_steps, scale):
    """η_k/N = γ_k = (4/3s)·9^(k−1), also with inputs three times as large, where many tasks explode without the cap."""
    task = LinearRegression(input_dim=5, num_examples=5, inputs=Uniform(scale))
    rates = 4 / (3 * 8 * scale**2) * 9.0 ** np.arange(num_steps)
    ladder = GradientDescentPlusPlus(5 * rates, rates, num_steps=num_steps)
    name = f"gd++-{num_steps}-free"
    candidates = (name, f"gd++-{num_steps}", f"gd-{num_steps}", "ridge", "least-squares")
    found = identify(ladder, task, candidates=candidates, num_tasks=500, key=jr.key(0))
    assert found.verdict == name
    assert found.ranking[0].least > 0.999


def test_distributions_outside(getkey):
    tasks = inside_and_outside(TASK)
    assert list(tasks) == ["training", "inputs × 1.5", "normal inputs"]
    prompt, target = TASK.sample(key := getkey())
    same, same_target = tasks["training"].sample(key)
    assert_close(same.xs, prompt.xs)
    assert_close(same_target, target)
    assert_close(tasks["inputs × 1.5"].sample(key)[0].xs, 1.5 * prompt.xs)
    assert_close(tasks["normal inputs"].inputs.covariance(3), TASK.inputs.covariance(3))
    A = jr.normal(getkey(), (3, 3))
    assert_close(tasks["inputs × 1.5"].inputs.fourth_moment(A), Uniform(1.5).fourth_moment(A))
    variance = jnp.array([[2.0, 0.5], [0.5, 1.0]])
    uniform = inside_and_outside(LinearRegression(input_dim=2, inputs=Gaussian(variance)))["uniform inputs"].inputs
    assert_close(uniform.covariance(2), variance)
    xs = uniform.sample(getkey(), 100_000, 2)
    assert np.allclose(np.cov(xs.T), variance, atol=0.05)  # 5 standard errors
    assert abs(xs @ np.linalg.inv(np.linalg.cholesky(variance)).T).max() < 3.0  # bounded, as no normal inputs are

    pool = inside_and_outside(PromptPool(TASK, num_tasks=13))
    assert isinstance(pool["training"], PromptPool)  # a pool of prompts cannot be changed, but the task behind it can
    assert isinstance(pool["inputs × 1.5"], LinearRegression)

    class Odd(Task):
        input_dim: int = 1
        output_dim: int = 1
        num_examples: int = 1

        def draw(self, key):
            raise NotImplementedError

    assert list(inside_and_outside(Odd())) == ["training"]


def contains(general: str, special: str) -> bool:
    return algorithm(general).imitates(algorithm(special))


def parameters(name: str, learner) -> dict:
    return algorithm(name).parameters(learner)


def test_which_algorithms_can_imitate_which():
    pairs = [
        ("preconditioned-gd", "gd-1"),
        ("gd++-2", "gd-2"),
        ("gd-3-free", "gd-2"),
        ("gd++-5-free", "gd++-2"),
        ("ridge", "zero"),
    ]
    assert all(contains(general, special) for general, special in pairs)
    assert not any(contains(special, general) for general, special in pairs)
    assert not contains("gd-2", "gd-1")
    assert not contains("gd++-3", "gd-2")
    assert not contains("ridge", "gd-1")


def test_candidates_suit_the_learner():
    one = default_candidates(create("lsa", key=jr.key(0)))
    assert "gd-1" in one
    assert not any("-2" in name or name == "kernel-gd" for name in one)
    assert {"gd-2", "gd++-3", "gd-3-free", "gd++-3-free"} <= set(
        default_candidates(create("deep_lsa", num_layers=3, key=jr.key(0)))
    )
    assert "gd++-5-free" in default_candidates(Ridge(1.0))
    assert "kernel-gd" in default_candidates(create("mlp_gradient_descent", key=jr.key(0)))
    with pytest.raises(UnknownNameError, match="did you mean 'ridge'"):
        identify(Ridge(1.0), TASK, candidates=("rigde",), key=jr.key(0))
    with pytest.raises(ZooError, match=r"no candidate applies.*has none that are known"):
        identify(Ridge(1.0), TASK, candidates=("kernel-gd",), key=jr.key(0))


def test_features_of_a_control_are_read_with_its_initial_weights(getkey):
    model = create("mlp_gradient_descent", embed_dim=5, hidden_dim=7, init_scale=1.0, key=getkey())
    model = eqx.tree_at(lambda m: (m.step_size, m.W_0), model, (jnp.array(0.3), jr.normal(getkey(), (1, 5))))
    prompts, _ = jax.jit(SINES.sample_batch, static_argnums=1)(getkey(), 101)
    predictions = jax.jit(jax.vmap(model))(prompts)
    fit = fit_candidate("kernel-gd", model, prompts, predictions)
    assert fit.parameters["step_size"] == pytest.approx(0.3, rel=1e-4)
    assert_close(jax.jit(jax.vmap(fit.algorithm))(prompts), predictions, factor=10, why="η is fitted")


def test_parameters_that_do_not_matter_are_none():
    assert parameters("gd++-1", GradientDescentPlusPlus(1.0, 0.5))["gamma"] is None
    assert parameters("gd++-2", GradientDescentPlusPlus(1.0, 0.5, num_steps=2))["gamma"] == 0.5
    free = GradientDescentPlusPlus([1.0, 2.0], [0.5, 0.25], num_steps=2)
    assert parameters("gd++-2-free", free)["gamma"] == [0.5, None]


def test_fits_to_predictions_that_cannot_be_met_are_the_best_there_are(x64, getkey):
    """The fitted bandwidth has a lower loss than its neighbours."""
    prompts, targets = jax.jit(TASK.sample_batch, static_argnums=1)(getkey(), 500)
    fitted: Any = fitted_baseline("nadaraya-watson", prompts, targets)

    @jax.jit
    def loss(h):
        return ((jax.vmap(NadarayaWatson(h))(prompts) - targets) ** 2).mean()

    best = fitted.bandwidth
    assert loss(best) < min(loss(best * factor) for factor in (0.5, 0.99, 1.01, 2.0))


def test_pictures_and_tables_read_the_numbers():
    found = identify(GradientDescent(1.3), TASK, candidates=("zero", "gd-1", "knn-1"), num_tasks=53, key=jr.key(0))
    figure = identification_figure(found, name="one step")
    assert figure._suptitle.get_text() == "one step runs gd-1"
    left = figure.axes[0]
    assert [label.get_text() for label in left.get_yticklabels()] == [c.name for c in found.ranking]
    bars = [bar.get_width() for bar in left.patches]
    assert bars[:3] == pytest.approx([max(c.explained[0].prediction.value, -0.1) for c in found.ranking])
    assert "<" in [text.get_text() for text in left.texts]  # knn-1 is worse than nothing
    knn = identify(KNearestNeighbours(1), TASK, candidates=("knn-1",), num_tasks=53, key=jr.key(0))
    assert knn.ranking[0].explained[0].sensitivity.value is None
    assert [text.get_text() for text in explained_variance_bars(knn, measure="sensitivity").texts] == ["–"] * 3
    verdict, ranking = identification_tables(found)
    assert verdict.rows[0][0] == "runs"
    assert [row[0] for row in ranking.rows] == [c.name for c in found.ranking]
    assert plt.get_fignums() == []
