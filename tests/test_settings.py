"""Every setting of everything, found by looking at it, meets every value: it is accepted and right, or an error says what is allowed."""

import inspect
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from helpers import random_prompt

from iclzoo.train.loop import check_prediction, initial_model
from iclzoo.train.optimiser import Adam
from iclzoo.train.recipes.recipe import Recipe
from iclzoo.train.schedule import Schedule
from iclzoo.train.tasks.inputs import Inputs
from iclzoo.train.tasks.regression import LinearRegression, Task
from iclzoo.train.tasks.teachers import Teacher
from iclzoo.zoo.checks.values import shown
from iclzoo.zoo.errors import ZooError
from iclzoo.zoo.factory import create, hyperparameters, list_models
from iclzoo.zoo.layers import attention, mlp
from iclzoo.zoo.layers.mlp import MLPEmbedding
from iclzoo.zoo.storage.config import SETTINGS, from_config, to_config
from iclzoo.zoo.token_model import TokenModel

pytestmark = pytest.mark.usefixtures("standard_promotion")

HUGE = 10**5000  # of too many digits to print
VALUES = [
    *(0, -1, 1.5, float("nan"), float("inf"), -float("inf"), 10**30, 2**32, HUGE, True, "text", "", None),
    *(np.int64(3), np.float32(0.5), np.array(0.5), np.array([1.0, 2.0]), np.array("x"), np.bool_(True), 1j),
    *([], (), {}, ("text",), {"text": "text"}, object, [[1.0, 2.0], [3.0]]),
]
# What a setting without a default is given, while another is walked; and small sizes for what has large defaults.
REQUIRED = {
    **{"name": "mine", "model": "lsa", "interval": 5, "variance": (1.0, 0.5), "features": None},
    **{"step_size": 0.5, "step_sizes": (0.5,), "gamma": 0.1, "gammas": (0.1,), "scale": 0.5, "regularisation": 0.5},
    **{"preconditioner": np.eye(2), "preconditioners": np.eye(2)[None], "num_neighbours": 2, "bandwidth": 0.5},
    **{"inverse_temperature": 2.0, "alpha": 0.3, "num_examples": 3, "input_dim": 2, "init_scale": 1.0, "in_dim": 2},
}
SMALL = {
    **{"input_dim": 2, "num_layers": 1, "num_loops": 2, "embed_dim": 4, "hidden_dim": 3, "hidden_size": 3},
    **{"head_dim": 2, "position_dim": 9, "widening_factor": 2},
}


def finite(tree: Any) -> bool:
    return all(np.isfinite(array).all() for array in jax.tree.leaves(tree) if eqx.is_array(array))


def refused(make, name: str, value: Any) -> bool:
    """Whether an error of ours refuses the value, naming it and the setting; any other error is an error."""
    try:
        make()
    except ZooError as error:
        said = str(error)
        assert name.rstrip("s") in said, said
        forms = (shown(value), str(value) if value is not HUGE else "", str(getattr(value, "shape", "'text'")))
        assert any(form in said for form in forms), said
        assert len(said) < 600
        return True
    return False


def works(setting: Any) -> None:
    """Do with a setting what it is for."""
    match setting:
        case Inputs():
            works(LinearRegression(input_dim=2, num_examples=3, inputs=setting))
        case Teacher():
            works(LinearRegression(input_dim=2, num_examples=3, teacher=setting))
        case Task():
            assert finite(setting.sample(jr.key(0)))
        case Adam():
            optimiser, parameters = setting.build(setting.warmup_steps + 10), jnp.ones(3)
            state = optimiser.init(parameters)
            for gradient in (jnp.asarray([0.0, 1.0, -1e3]), jnp.zeros(3)):
                updates, state = optimiser.update(gradient, state)
                parameters = optax.apply_updates(parameters, updates)
                assert finite(parameters)
        case Recipe():
            setting.optimiser.build(setting.num_steps)
            check_prediction(eqx.filter_eval_shape(lambda: initial_model(setting)), setting)
        case eqx.Module():
            assert setting(random_prompt(jr.key(0), num_examples=3, input_dim=2)).shape == (1,)
        case _:
            assert isinstance(setting, Schedule)
            assert {0, 10} <= set(setting.steps(10))


def settings() -> Iterator[tuple[type, str]]:
    for cls in SETTINGS.items().values():
        if cls.__module__.startswith("iclzoo."):
            yield from ((cls, entry.name) for entry in fields(cls))


def required(cls: type) -> dict[str, Any]:
    """The settings of a class that have no default, each with a right value."""
    parameters = list(inspect.signature(cls).parameters.values())
    return {p.name: REQUIRED[p.name] for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD}


@pytest.mark.parametrize(("cls", "name"), list(settings()), ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_settings(cls, name):
    given = required(cls)
    for value in VALUES:
        if refused(lambda v=value: works(cls(**given | {name: v})), name, value):
            continue
        setting = cls(**given | {name: value})
        again = from_config(json.loads(json.dumps(to_config(setting))))
        assert to_config(again) == to_config(setting)
        assert type(getattr(again, name)) is type(getattr(setting, name))


@pytest.mark.parametrize("name", list_models())
def test_hyperparameters(name):
    small = {known: size for known, size in SMALL.items() if known in defaults(name)}
    for hyperparameter in defaults(name):
        for value in VALUES:
            built = []
            chosen = small | {hyperparameter: value}
            if refused(lambda c=chosen, b=built: b.append(skeleton(name, c)), hyperparameter, value):
                continue
            stored = hyperparameters(built[0])
            prompt = random_prompt(
                jr.key(1), num_examples=3, input_dim=built[0].input_dim, output_dim=built[0].output_dim
            )
            if isinstance(stored[hyperparameter], float):
                assert finite(create(name, key=jr.key(0), **chosen)(prompt)), (hyperparameter, value)
            elif not isinstance(stored[hyperparameter], str):
                assert eqx.filter_eval_shape(lambda m, p: m(p), built[0], prompt).shape == (built[0].output_dim,)
            again = skeleton(name, json.loads(json.dumps(stored)))
            assert hyperparameters(again) == stored
            assert jax.tree.structure(again) == jax.tree.structure(built[0])


def skeleton(name: str, chosen: Mapping[str, Any]) -> Any:
    return eqx.filter_eval_shape(lambda: create(name, key=jr.key(0), **chosen))


def defaults(name: str) -> Mapping[str, Any]:
    return hyperparameters(skeleton(name, {}))


def modules(package: str) -> Iterator[Any]:
    folder = Path(import_module("iclzoo.zoo.errors").__file__).parent / package
    yield from (import_module(f"iclzoo.zoo.{package}.{file.stem}") for file in sorted(folder.glob("*.py")))


def own(module: Any) -> list[Any]:
    """What a module defines, for others to use."""
    return [x for n, x in vars(module).items() if getattr(x, "__module__", "") == module.__name__ and n[0] != "_"]


def makes_a_model(function: Any) -> bool:
    made = inspect.signature(function).return_annotation
    return isinstance(made, type) and issubclass(made, TokenModel)


def takes(make: Any, name: str) -> bool:
    return name in inspect.signature(make).parameters


ALGORITHMS = [x for module in modules("algorithms") for x in own(module) if isinstance(x, type) and SETTINGS.name_of(x)]
CONSTRUCTIONS = [
    x
    for module in modules("constructions")
    for x in own(module)
    if inspect.isfunction(x) and makes_a_model(x) and x.__name__ != "stack_layers"
]
PARTS = [x for module in (attention, mlp) for x in own(module) if isinstance(x, type) and takes(x, "embed_dim")]


def test_all_are_found():
    names = {make.__name__ for make in ALGORITHMS + CONSTRUCTIONS + PARTS}
    assert {"GradientDescent", "NadarayaWatson", "gradient_descent_lsa", "copying_transformer", "MLP"} < names
    assert {"linear_regression", "uniform", "gaussian_teacher", "adam", "every", "recipe"} <= SETTINGS.items().keys()


@pytest.mark.parametrize("make", ALGORITHMS + CONSTRUCTIONS + PARTS, ids=lambda make: make.__name__)
def test_algorithms_constructions_and_parts(make):
    parameters = {name: p for name, p in inspect.signature(make).parameters.items() if name != "key"}
    given = {name: (SMALL | REQUIRED)[name] for name, p in parameters.items() if p.default is p.empty}
    if "features" in given:
        given["features"] = MLPEmbedding(in_dim=2, embed_dim=3, hidden_dim=2, init_scale=1.0, key=jr.key(0))
    key = {"key": jr.key(0)} if takes(make, "key") else {}
    for name in parameters:
        for value in VALUES:
            chosen = given | {name: value} | key
            if isinstance(value, np.int64):  # another size: the shapes are enough
                refused(lambda c=chosen: eqx.filter_eval_shape(lambda: prediction(make(**c))), name, value)
            else:
                refused(lambda c=chosen: finite(prediction(make(**c))) or 1 / 0, name, value)


def prediction(made: Any) -> Any:
    """What a learner predicts; of a part, its weights."""
    if type(made) in PARTS:
        return made
    sizes = {"input_dim": getattr(made, "input_dim", 2), "output_dim": getattr(made, "output_dim", 1)}
    return made(random_prompt(jr.key(1), num_examples=3, **sizes))


DAMAGES = [
    None,
    True,
    -1,
    0,
    1e308,
    10**400,
    "x",
    "\ud800",
    [],
    {},
    {"kind": "nope"},
    {"kind": 3},
    [[]],
    {"kind": "every"},
]


@pytest.mark.parametrize(
    "cls", [cls for cls in SETTINGS.items().values() if cls.__module__.startswith("iclzoo.")], ids=lambda c: c.__name__
)
def test_damaged_settings_on_a_card(cls):
    intact = to_config(cls(**required(cls)))
    for name in (*intact, "unknown"):
        for damage in DAMAGES:
            with suppress(ZooError):
                from_config(intact | {name: damage})
