"""The gates of public functions: whatever is given, the answer is right or an error that names the parameter."""

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import isfunction, signature
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import iclzoo
from iclzoo.inspect.behaviour.landscapes import landscapes
from iclzoo.inspect.behaviour.rollouts import rollouts
from iclzoo.inspect.behaviour.shifts import shift
from iclzoo.inspect.estimates.errors_on_tasks import half_squared_errors
from iclzoo.inspect.theory.gradient_flow import gradient_flow
from iclzoo.inspect.theory.risk import risk
from iclzoo.inspect.weights.interpolation import interpolation
from iclzoo.inspect.weights.weight_path import weight_path
from iclzoo.train.losses import over_tasks, squared_error
from iclzoo.train.tuning.baselines import fitted_baseline
from iclzoo.zoo.checks.gate import PARAMETERS
from iclzoo.zoo.errors import ArgumentError, ConfigError, ShapeError, ZooError

KEY = jr.key(0)
TASK = iclzoo.LinearRegression(input_dim=3, num_examples=4)
GD = iclzoo.GradientDescent(1.0)
LSA = iclzoo.create("lsa", input_dim=3, key=KEY)
PROMPT, TARGET = TASK.sample(KEY)
PROMPTS, TARGETS = TASK.sample_batch(KEY, 5)
RECIPE = iclzoo.recipe("lsa-fast")
(LAYER,) = iclzoo.products(LSA)

# What passes at each gate, by the name of the parameter.
RIGHT: dict[str, Any] = {
    **dict.fromkeys(("learner", "other", "baseline", "model", "start", "end", "beside", "algorithm"), LSA),
    **{"learners": {"lsa": LSA}, "others": {"lsa": LSA}},
    **{
        "task": TASK,
        "key": KEY,
        "prompt": PROMPT,
        "prompts": PROMPTS,
        "target": TARGET,
        "layer": LAYER,
        "recipe": RECIPE,
    },
    **dict.fromkeys(("targets", "predictions"), TARGETS),
    **dict.fromkeys(("name", "pattern", "kind", "distribution", "path", "folder"), "a name"),
    **{"candidates": ["gd-1"], "baselines": ("gd-1",), "steps": {0: LSA}, "training": {0: LSA}},
    **dict.fromkeys(("measure", "probe"), squared_error),
    **dict.fromkeys(("num_tasks", "chunk", "num_examples", "num_points", "num_prompts"), 3),
    **{"num_applications": 3, "resolution": 3, "seed": 0, "step": 0, "step_size": 1.0, "duration": 1.0, "scale": 1.0},
    **dict.fromkeys(("dampings", "t"), (1.0,)),
    **{"seeds": (0, 1), "devices": jax.devices()},
    **dict.fromkeys(("overwrite", "resume", "progress", "metrics", "fixed_gauge"), True),
}
WRONG = [object(), dict, 1j, b"lsa", ..., np.array([1j]), [object()], jnp.zeros((2, 2, 2, 2))]
# Where a name means something else, or anything.
OTHERWISE: dict[tuple[str, str], Any] = {
    **{(function, "other"): LAYER for function in ("product_distance", "match_heads")},
    **{(function, "num_examples"): [3] for function in ("risk", "population_loss_by_length")},
}
ANYTHING = {(name, "learners") for name in ("in_chunks", "over_tasks", "mean_over_tasks")}
ANYTHING |= {("exact_half_mse", "num_examples")}
# Behind the gates: what these are given comes from functions that have one, or they are pictures and pages.
BEHIND = (
    r"inspect\.(\w+\.\w+_plot|report\.(page|tables)|pictures\.|reproduction\.(page|results\.))"
    r"|inspect\.activations\.softmax_heads\.softmax_parts"
    r"|train\.(devices|loop|progress|tasks\.teachers|tuning\.(fitting|search)|recipes\.(?!catalogue|recipe\b))"
    r"|train\.tuning\.baselines\.(fitted|baseline_name)$"
    r"|zoo\.(checks\.(arguments|values|memory)|layers\.(attention|mlp)|storage\.(config|files|reading|folders|official|origins|tensors))"
    r"|zoo\.(determinism|errors|frozen|minimise|names|spectrum|token_model|models\.|registry\.|algorithm\.average)"
    r"|zoo\.storage\.checkpoint\.(?!(load|save|read_card|write_card|checkpoint_folder|list_checkpoints|copy_checkpoint|upgrade_card)$)"
    r"|zoo\.factory\.(check_contract|check_hyperparameters|model_name|hyperparameters)"
    r"|zoo\.(algorithms|constructions)\."
)


def public_functions() -> Iterator[tuple[str, Callable]]:
    root = Path(__file__).parents[1]
    for file in (file for room in ("zoo", "train", "inspect") for file in sorted((root / room).rglob("*.py"))):
        module = ".".join(file.relative_to(root).with_suffix("").parts)
        for name, function in vars(import_module(f"iclzoo.{module}")).items():
            own = getattr(function, "__module__", "") == f"iclzoo.{module}" and hasattr(function, "__wrapped__")
            behind = re.match(BEHIND, f"{module}.{name}")
            if own and name[0] != "_" and not isinstance(function, type) and not behind:
                yield name, function


GATED = {name: function for name, function in public_functions() if PARAMETERS.keys() & signature(function).parameters}


def right(function: str, parameter: str) -> Any:
    return OTHERWISE.get((function, parameter), RIGHT.get(parameter))


def test_the_walk_finds_the_public_functions():
    assert {
        "alignment",
        "half_mse",
        "fit",
        "create",
        "best_baseline",
        "population_loss",
        "fitted_steps",
        "shift",
    } <= GATED.keys()
    assert len(GATED) > 80
    assert RIGHT.keys() == PARAMETERS.keys() - {"test"}


@pytest.mark.parametrize("name", GATED)
def test_every_argument_is_checked_at_the_door(name):
    parameters = signature(GATED[name]).parameters
    arguments = {p.name: right(name, p.name) for p in parameters.values() if p.kind is not p.VAR_KEYWORD}
    for parameter in PARAMETERS.keys() & parameters:
        if (name, parameter) not in ANYTHING:
            for wrong in WRONG:
                with pytest.raises(ZooError, match=rf"^(a key of )?{parameter}\b"):
                    GATED[name](**(arguments | {parameter: wrong}))


@pytest.mark.parametrize(
    "learner",
    [
        *(
            GD,
            iclzoo.GradientDescentPlusPlus(1.0, 0.1),
            iclzoo.LeastSquares(),
            iclzoo.Ridge(1.0),
            iclzoo.ZeroPredictor(),
        ),
        *(iclzoo.PreconditionedGradientDescent(jnp.eye(3)), iclzoo.KNearestNeighbours(1), iclzoo.NadarayaWatson(1.0)),
        iclzoo.SoftmaxSmoother(1.0),
        *(eqx.filter_eval_shape(lambda name=name: iclzoo.create(name, key=KEY)) for name in iclzoo.list_models()),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_learners_read_one_prompt(learner):
    with pytest.raises(
        ShapeError,
        match=r"^prompt must be one prompt, got a batch of 5 prompts; use jax.vmap",
    ):
        learner(PROMPTS)
    for wrong in (
        *WRONG,
        None,
        "lsa",
        (PROMPT, TARGET),
        np.zeros((11, 11)),
        eqx.tree_at(lambda p: p.ys, PROMPT, TARGETS),
    ):
        with pytest.raises(ShapeError, match=r"^prompt must be one prompt"):
            learner(wrong)
    if getattr(learner, "input_dim", None) is not None:
        wide = iclzoo.LinearRegression(input_dim=7, num_examples=4).sample(KEY)[0]
        with pytest.raises(
            ShapeError,
            match=f"{type(learner).__name__} reads prompts of input_dim {learner.input_dim}, but prompt.xs has 7",
        ):
            learner(wide)


MISTAKES = {
    "a name of nothing": (
        lambda: iclzoo.alignment("lsaa", GD, TASK, key=KEY),
        r"^unknown checkpoint or algorithm 'lsaa'; did you mean 'lsa'",
    ),
    "a name of an untrained model": (
        lambda: iclzoo.heatmap("deep_lsa"),
        r"^unknown checkpoint or algorithm 'deep_lsa'",
    ),
    "an algorithm without a task": (
        lambda: iclzoo.heatmap("gd-1"),
        r"^'gd-1' is an algorithm, and nothing says to which task",
    ),
    "a path of nothing": (lambda: iclzoo.products(Path("runs/x")), r"^no checkpoint or folder is called 'runs/x'"),
    "a name for a recipe": (
        lambda: iclzoo.fit("lsa-fast"),
        r"^recipe must be a recipe, got the string 'lsa-fast'; write .*recipe\('",
    ),
    "a recipe for a model": (lambda: iclzoo.heatmap(RECIPE), r"write iclzoo.fit\(recipe\).model"),
    "a class for a model": (
        lambda: iclzoo.alignment(iclzoo.LeastSquares, GD, TASK, key=KEY),
        r"write LeastSquares\(…\)",
    ),
    "a class for a task": (
        lambda: iclzoo.optimal_step_size(iclzoo.LinearRegression),
        r"^task .* write LinearRegression\(…\)",
    ),
    "no task": (lambda: iclzoo.alignment(LSA, GD, None, key=KEY), r"^task must be a task, got None"),
    "inputs for a task": (lambda: iclzoo.alignment(LSA, GD, iclzoo.Uniform(), key=KEY), r"^task must be a task"),
    "task and learner": (
        lambda: iclzoo.alignment(LSA, TASK, LSA, key=KEY),
        r"^other must be a learner, got a task .*; the order is alignment\(learner, other, task, \*, num_tasks, key\)$",
    ),
    "three exchanged": (
        lambda: iclzoo.alignment(TASK, LSA, GD, key=KEY),
        r"the order is alignment\(learner, other, task",
    ),
    "task and name": (
        lambda: iclzoo.best_baseline(TASK, "gd-1"),
        r"^name .*the order is best_baseline\(name, task, \*, num_tasks, seed\)",
    ),
    "folder and recipe": (lambda: iclzoo.fit("runs/x", RECIPE), r"the order is fit\(recipe, folder, "),
    "prompt and model": (lambda: iclzoo.sensitivity(PROMPT, LSA), r"the order is sensitivity\(learner, prompt\)"),
    "kind and learners": (
        lambda: shift({"a": LSA}, "half_width", TASK, key=KEY),
        r"the order is shift\(kind, learners, task",
    ),
    "number and key": (lambda: TASK.sample_batch(3, KEY), r"^key .*; the order is sample_batch\(key, num_tasks\)"),
    "a seed for a key": (lambda: TASK.sample(0), r"^key must be a random key, got 0; write jax.random.key\(0\)"),
    "several keys": (
        lambda: TASK.sample(jr.split(KEY, 5)),
        r"^key must be a random key, got a batch of 5 random keys; use jax.vmap",
    ),
    "a seed for a model's key": (lambda: iclzoo.create("lsa", key=0), r"^key must be a random key, got 0"),
    "one prompt for a batch": (
        lambda: iclzoo.half_mse(LSA, PROMPT, TARGET),
        r"^prompts must be a batch of prompts, got one prompt",
    ),
    "a batch for one prompt": (
        lambda: iclzoo.trace(LSA, PROMPTS),
        r"^prompt must be one prompt, got a batch of 5 prompts; use jax.vmap",
    ),
    "no layers": (lambda: iclzoo.trace(GD, PROMPT), r"^model must have layers over tokens"),
    "targets of others": (lambda: iclzoo.half_mse(LSA, PROMPTS, TARGETS[:3]), r"^targets must have the shape \(5, 1\)"),
    "targets without their axis": (
        lambda: iclzoo.half_mse(LSA, PROMPTS, TARGETS[:, 0]),
        r"^targets must have the shape \(5, 1\)",
    ),
    "whole numbers for targets": (
        lambda: fitted_baseline("gd-1", PROMPTS, TARGETS.astype(int)),
        r"^targets must be an array of float",
    ),
    "another dimension": (
        lambda: iclzoo.alignment(LSA, GD, iclzoo.LinearRegression(), key=KEY),
        "LSA reads prompts of input_dim 3",
    ),
    "a label for each example": (
        lambda: half(lambda prompt: prompt.ys),
        r"shape \[output_dim\] = \[1\], but .* of shape \(4, 1\)",
    ),
    "a number": (lambda: half(lambda prompt: prompt.ys.sum()), r"of shape \(\)"),
    "a list": (lambda: half(lambda prompt: [0.0]), r"predicts a list of 1"),
    "whole numbers": (
        lambda: half(lambda prompt: jnp.zeros(1, int)),
        r"must predict floating-point numbers .* and dtype int32",
    ),
    "another W₀": (
        lambda: iclzoo.gradient_descent_lsa([1.0], num_examples=4, input_dim=3, W_0=jnp.zeros((2, 2))),
        r"^W_0 must have the shape \[output_dim, input_dim\] = \[1, 3\], got \[2, 2\]",
    ),
    "another preconditioner": (lambda: risk(TASK, preconditioner=np.eye(2)), r"^preconditioner must be"),
    "no width": (
        lambda: shift("half_width", {"a": LSA}, TASK, values=[-1.0], key=KEY),
        r"^values\[0\] must be .* above 0, got -1",
    ),
    "too long": (
        lambda: shift("num_examples", {"a": LSA}, TASK, values=[10**12], key=KEY),
        r"^values\[0\] .* from 1 to 100000",
    ),
    "a method for a learner": (lambda: half(TASK.sample), r"^key must be a random key, got one prompt"),
    "one learner for several": (
        lambda: half_squared_errors(LSA, TASK, num_tasks=3, key=KEY),
        r"write {\"mine\": model}",
    ),
    "a name among learners": (
        lambda: half_squared_errors({"a": "lsa"}, TASK, num_tasks=3, key=KEY),
        r"^LSA reads prompts of input_dim 10, but task has 3",
    ),
    "one name for several": (
        lambda: iclzoo.identify(LSA, TASK, candidates="gd-1", key=KEY),
        "^candidates must be a list or a tuple",
    ),
    "all products for one": (
        lambda: iclzoo.product_distance((LAYER,), LAYER),
        r"^layer .* got a tuple of 1; write iclzoo.pr",
    ),
    "a model for products": (
        lambda: iclzoo.product_distance(LAYER, LSA),
        r"^other must be the products of a layer, got a learner \(LSA\)",
    ),
    "a model for a training": (
        lambda: weight_path(LSA),
        r"^training must be a string or a path or a mapping, got a learner",
    ),
    "a step that is none": (
        lambda: weight_path({-1: LSA}),
        "^a key of training must be a whole number of at least 0, got -1",
    ),
    "no steps": (
        lambda: iclzoo.gradient_descent_lsa([], num_examples=4, input_dim=3),
        r"^step_sizes must be a list of numbers, one a step, of finite numbers, got \[\]",
    ),
    "NaN": (
        lambda: iclzoo.gradient_descent_lsa([float("nan")], num_examples=4, input_dim=3),
        "^step_sizes must be a list of numbers, one a step, of finite numbers, got",
    ),
    "no points": (lambda: interpolation(LSA, LSA, TASK, t=[], key=KEY), r"^t must be"),
    "infinite": (
        lambda: interpolation(LSA, LSA, TASK, t=[0.5, float("inf")], key=KEY),
        r"^t\[1\] must be a finite number",
    ),
    "no damping": (lambda: rollouts(LSA, TASK, dampings=(), key=KEY), r"^dampings must be"),
    "a fine landscape": (
        lambda: landscapes(LSA, TASK, resolution=10**30, key=KEY),
        "^resolution must be a whole number from 1 to 10000",
    ),
    "no time": (lambda: gradient_flow(LSA, TASK, duration=0.0), r"^duration must be a finite number above 0"),
    "part of an example": (
        lambda: shift("num_examples", {"a": LSA}, TASK, values=[1.5], key=KEY),
        r"^values\[0\] must be a whole number",
    ),
    "half a half-width": (
        lambda: shift("half_width", {"a": LSA}, TASK, values=["a"], key=KEY),
        r"^values\[0\] must be a finite number",
    ),
    "a length of 0": (
        lambda: risk(TASK, num_examples=[0]),
        r"^num_examples\[0\] must be a whole number from 1",
    ),
    "a word for a truth value": (lambda: iclzoo.fit(RECIPE, resume="no"), r"^resume must be True or False, got 'no'"),
}


def half(learner: Any) -> Any:
    return iclzoo.half_mse(learner, PROMPTS, TARGETS)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_answered_with_what_to_write(mistake):
    attempt, message = MISTAKES[mistake]
    with pytest.raises(ZooError, match=message):
        attempt()


@pytest.mark.parametrize(
    "num_tasks", [0, -1, 1.5, True, float("nan"), float("inf"), "5", 10**30, None, np.zeros(2), np.float32(3)]
)
def test_numbers_of_tasks_that_are_none(num_tasks):
    with pytest.raises(ConfigError, match=r"^num_tasks must be a whole number from 1 to"):
        iclzoo.alignment(LSA, GD, TASK, num_tasks=num_tasks, key=KEY)


def test_what_is_of_the_right_kind_passes():
    """NumPy's numbers, keys of the old form, learners that are functions, arrays of NumPy: each gives what the plain one gives."""
    plain = over_tasks(squared_error, GD, TASK, num_tasks=5, key=KEY)
    old = jr.PRNGKey(0)
    for num_tasks, key in ((np.int64(5), KEY), (np.uint8(5), old), (jnp.asarray(5), np.asarray(old))):
        assert np.array_equal(over_tasks(squared_error, GD, TASK, num_tasks=num_tasks, key=key), plain)
    assert np.array_equal(over_tasks(squared_error, lambda prompt: GD(prompt), TASK, num_tasks=5, key=KEY), plain)
    assert iclzoo.half_mse(GD, PROMPTS, np.asarray(TARGETS)) == iclzoo.half_mse(GD, PROMPTS, TARGETS)
    assert iclzoo.optimal_step_size(iclzoo.PromptPool(TASK).population) == iclzoo.optimal_step_size(TASK)


def test_gates_let_traced_values_through():
    loss = jax.jit(iclzoo.half_mse)(LSA, PROMPTS, TARGETS)
    assert jnp.allclose(loss, jax.vmap(lambda p, y: squared_error(LSA, p, y))(PROMPTS, TARGETS).mean() / 2)
    assert jnp.isfinite(jax.grad(lambda eta: half(iclzoo.GradientDescent(eta)))(1.0))
    assert jax.vmap(iclzoo.sensitivity, in_axes=(None, 0))(LSA, PROMPTS).shape == (5, 1, 3)
    assert jax.vmap(iclzoo.trace, in_axes=(None, 0))(LSA, PROMPTS).predictions.shape == (5, 2, 1)
    assert jnp.array_equal(jax.jit(TASK.sample)(KEY)[1], TARGET)
    assert jax.vmap(TASK.sample)(jr.split(KEY, 5))[1].shape == (5, 1)

    def built(eta):
        return half(iclzoo.gradient_descent_lsa(eta[None], num_examples=4, input_dim=3))

    assert jnp.allclose(
        jax.grad(built)(jnp.asarray(1.0)), jax.grad(lambda eta: half(iclzoo.GradientDescent(eta)))(jnp.asarray(1.0))
    )


def test_a_gate_hides_nothing():
    assert isfunction(iclzoo.alignment)
    assert list(signature(iclzoo.alignment).parameters) == ["learner", "other", "task", "num_tasks", "key"]
    assert iclzoo.alignment.__doc__.startswith("Compare two learners")
    with pytest.raises(TypeError, match=r"missing a required argument|missing 1 required"):
        iclzoo.sensitivity(LSA)
    with pytest.raises(TypeError, match="unexpected keyword"):
        iclzoo.alignment(LSA, GD, TASK, key=KEY, keys=KEY)
    assert issubclass(ArgumentError, TypeError)
