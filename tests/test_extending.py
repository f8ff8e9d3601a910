"""Tasks and algorithms, whoever made them: each with each, and what a third party's need to be found by name."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import iclzoo
from iclzoo.inspect.identification.candidates import default_candidates
from iclzoo.inspect.identification.verdict import identify
from iclzoo.train.recipes.recipe import Recipe
from iclzoo.train.run import fit
from iclzoo.train.tasks.regression import LinearRegression, PromptPool, SineRegression
from iclzoo.train.tasks.task import Task, list_tasks, register_task
from iclzoo.train.tuning.baselines import best_baseline
from iclzoo.zoo.algorithm import ALGORITHMS, algorithm, register_algorithm
from iclzoo.zoo.algorithms.gradient_descent import GradientDescent
from iclzoo.zoo.algorithms.least_squares import LeastSquares, Ridge
from iclzoo.zoo.algorithms.smoothing import KNearestNeighbours
from iclzoo.zoo.errors import ArgumentError, ConfigError, ContractError, NotApplicable, UnknownNameError
from iclzoo.zoo.storage.config import from_config, to_config

pytestmark = pytest.mark.slow

SMALL = {  # at tiny sizes; a task that is not here comes with its defaults
    "linear_regression": LinearRegression(input_dim=2, num_examples=3),
    "sine_regression": SineRegression(num_examples=3),
    "task_pool": PromptPool(LinearRegression(input_dim=2, num_examples=3), num_tasks=17),
}
KEY = jr.key(0)


@pytest.fixture(autouse=True, scope="module")
def quick_compilation():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.mark.parametrize("kind", list_tasks())
@pytest.mark.parametrize("pattern", ALGORITHMS.names())
def test_every_algorithm_on_every_task(kind, pattern):
    """Finite predictions, or the reason why there are none."""
    task = SMALL.get(kind) or from_config({"kind": kind})
    try:
        learner = best_baseline(ALGORITHMS[pattern](2).name, task, num_tasks=50)
    except NotApplicable:
        assert pattern == "kernel-gd"  # which needs a learner
        return
    prompts, targets = task.sample_batch(KEY, 5)
    predictions = jax.vmap(learner)(prompts)
    assert predictions.shape == targets.shape
    assert jnp.isfinite(predictions).all()


@pytest.mark.parametrize("kind", list_tasks())
def test_two_steps_of_training_on_every_task(kind):
    task = SMALL.get(kind) or from_config({"kind": kind})
    recipe = Recipe(
        name="tiny",
        model="lsa",
        hyperparameters={"input_dim": task.input_dim, "output_dim": task.output_dim},
        task=task,
        batch_size=3,
        num_steps=2,
    )
    model: Any = fit(recipe).model
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_array)))


def test_names_stand_for_learners():
    task, (prompt, _) = LinearRegression(), LinearRegression().sample(KEY)
    model, step = iclzoo.load("lsa"), best_baseline("gd-1", task)
    by_name = iclzoo.alignment("lsa", "gd-1", task, num_tasks=11, key=KEY)
    assert by_name == iclzoo.alignment(model, step, task, num_tasks=11, key=KEY)
    assert jnp.array_equal(iclzoo.sensitivity("lsa", prompt), iclzoo.sensitivity(model, prompt))
    assert iclzoo.population_loss("lsa", task) == iclzoo.population_loss(model, task)
    assert iclzoo.products("lsa")[0].name == iclzoo.products(model)[0].name
    with pytest.raises(ArgumentError, match="is an algorithm, and nothing says to which task"):
        iclzoo.products("gd-1")
    with pytest.raises(
        UnknownNameError, match="unknown checkpoint or algorithm 'deep_lsa'"
    ):  # never an untrained model
        iclzoo.products("deep_lsa")


def test_a_name_is_a_path_then_a_checkpoint_then_an_algorithm(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = iclzoo.create("lsa", key=KEY)
    iclzoo.save("gd-1", model)
    (own,) = iclzoo.products(model)
    for name in ("./gd-1", "gd-1", tmp_path / "gd-1"):
        assert np.array_equal(iclzoo.products(name)[0].W_KQ, own.W_KQ)
    (tmp_path / "gd-2").mkdir()  # no checkpoint
    assert iclzoo.alignment("gd-2", model, LinearRegression(), num_tasks=3, key=KEY).num_tasks == 3


def test_objects_are_candidates_as_they_are():
    task = LinearRegression(input_dim=2, num_examples=3)
    candidates = (GradientDescent(2.0), "gd-1", KNearestNeighbours(1), GradientDescent(1.0))
    found = identify(GradientDescent(2.0), task, candidates=candidates, num_tasks=23, key=KEY)
    ranked = {candidate.name: candidate for candidate in found.ranking}
    own = "gradient_descent(step_size=2.0, num_steps=1)"
    assert ranked.keys() == {own, "gd-1", own.replace("2.0", "1.0"), "k_nearest_neighbours(num_neighbours=1)"}
    assert found.verdict == own  # as good as gd-1, and nothing was tuned
    assert ranked[own].num_parameters == 0
    assert ranked["gd-1"].num_parameters == 1


def test_baselines_are_names_and_objects():
    recipe = Recipe(name="mine", model="lsa", baselines=("gd-2", GradientDescent(0.5, num_steps=2, W_0=[[1.0, 2.0]])))
    name, written = to_config(recipe)["baselines"]
    assert name == "gd-2"
    assert written == {"kind": "gradient_descent", "step_size": 0.5, "W_0": [[1.0, 2.0]], "num_steps": 2}
    again = from_config(to_config(recipe))
    assert to_config(again) == to_config(recipe)
    for wrong in ("gd-1", (GradientDescent,), (3,)):
        with pytest.raises(ConfigError, match="a tuple, each entry the name of an algorithm"):
            Recipe(name="mine", model="lsa", baselines=wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UnknownNameError, match="did you mean 'ridge'"):
        Recipe(name="mine", model="lsa", baselines=("rigde",))


class Newton(eqx.Module):
    """`num_steps` steps of Newton and Schulz's iteration for the inverse of the Hessian."""

    num_steps: int

    def __call__(self, prompt):
        H = prompt.xs.T @ prompt.xs
        inverse = H / (H**2).sum()
        for _ in range(self.num_steps):
            inverse = 2 * inverse - inverse @ H @ inverse
        return prompt.ys.T @ prompt.xs @ inverse @ prompt.query


def test_an_algorithm_of_one_s_own_is_found_everywhere(forgetting):
    register_algorithm("newton-K")(Newton)
    register_algorithm("newton-K")(Newton)  # a cell that is run twice
    assert algorithm("newton-12").number == 12
    assert "newton-K" in iclzoo.list_algorithms("new*")
    assert "newton-3" in default_candidates(iclzoo.create("deep_lsa", num_layers=3, key=KEY))
    assert "newton-4" not in default_candidates(iclzoo.create("deep_lsa", num_layers=3, key=KEY))
    task = LinearRegression(input_dim=2, num_examples=3)
    found = identify(Newton(2), task, candidates=(Newton(2), "gd-1", "newton-1"), num_tasks=23, key=KEY)
    assert found.verdict == "newton-K(num_steps=2)"
    recipe = Recipe(name="mine", model="lsa", baselines=("newton-2", Newton(3)))
    assert from_config(to_config(recipe)).baselines == recipe.baselines
    with pytest.raises(ContractError, match=r"'newton-K' already belongs to .*Newton"):
        register_algorithm("newton-K")(Ridge)
    with pytest.raises(ContractError, match="must be an equinox"):
        register_algorithm("odd")(type("Odd", (), {}))


@pytest.mark.parametrize("name", ["newton-2", "gd-0", "gd-1000", "gd-", "gd-K", "knn"])
def test_what_is_no_algorithm(name):
    with pytest.raises(UnknownNameError, match="unknown algorithm"):
        algorithm(name)


def test_a_task_of_one_s_own(forgetting):
    @register_task("constant")
    class Constant(Task):
        level: float = 1.0
        input_dim: int = eqx.field(default=2, static=True)
        output_dim: int = eqx.field(default=1, static=True)
        num_examples: int = eqx.field(default=3, static=True)

        def draw(self, key):
            xs = jr.normal(key, (self.num_examples + 1, 2))
            ys = jnp.full((self.num_examples + 1, 1), self.level)
            return iclzoo.Prompt(xs[:-1], ys[:-1], xs[-1]), ys[-1]

    assert "constant" in list_tasks("con*")
    task = from_config({"kind": "constant", "level": 2.0})
    assert best_baseline("gd-2", task, num_tasks=50)(task.sample(KEY)[0]).shape == (1,)
    assert not task.sweeps()
    for ask in (task.moments, task.bayes_predictor):
        with pytest.raises(NotApplicable, match="Constant"):
            ask()
    with pytest.raises(ContractError, match="'constant' already belongs to"):
        register_task("constant")(LinearRegression)
    with pytest.raises(ConfigError, match="must be a dataclass"):
        register_task("plain")(type("Plain", (), {}))


def test_bayes_predictors():
    noisy = LinearRegression(noise_std=0.5, teacher=iclzoo.GaussianTeacher(scale=2.0))
    assert noisy.bayes_predictor().regularisation == pytest.approx(0.0625)
    assert isinstance(LinearRegression().bayes_predictor(), LeastSquares)
    unknown = (
        PromptPool(),
        SineRegression(),
        LinearRegression(teacher=iclzoo.PooledTeacher()),
        LinearRegression(num_distractors=1),
        LinearRegression(teacher=iclzoo.GaussianTeacher(mean=1.0)),
    )
    for task in unknown:
        with pytest.raises(NotApplicable):
            task.bayes_predictor()
