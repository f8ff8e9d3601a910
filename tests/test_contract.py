"""What everything of a kind keeps, whoever wrote it: see `iclzoo.testing`. A new one is under test as soon as it is registered."""

from inspect import unwrap

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import pytest

from iclzoo.inspect.instrument import INSTRUMENTS
from iclzoo.testing import MODEL, check_algorithm, check_instrument, check_model, check_task
from iclzoo.train.tasks.inputs import Inputs
from iclzoo.train.tasks.regression import Task
from iclzoo.train.tasks.teachers import Teacher
from iclzoo.zoo.algorithm import list_algorithms
from iclzoo.zoo.checks.gate import gated
from iclzoo.zoo.errors import ConfigError, ContractError, UnknownNameError
from iclzoo.zoo.factory import create, list_models, register_model
from iclzoo.zoo.prompt import Prompt
from iclzoo.zoo.storage.config import SETTINGS, setting

SHIPPED_SETTINGS = {name: cls for name, cls in SETTINGS.items().items() if cls.__module__.startswith("iclzoo.")}
KINDS = [name for name, cls in SHIPPED_SETTINGS.items() if issubclass(cls, Task | Inputs | Teacher)]
SETTINGS_WITHOUT_DEFAULTS = {"anisotropic_teacher": {"variance": (1.0, 2.0, 0.5)}}


@pytest.mark.parametrize("clause", MODEL.clauses.values(), ids=list(MODEL.clauses))
@pytest.mark.parametrize("name", list_models())
def test_every_model_keeps(name, clause):
    clause(name)


@pytest.mark.parametrize("kind", KINDS)
def test_every_task_keeps_its_contract(kind):
    check_task(kind, **SETTINGS_WITHOUT_DEFAULTS.get(kind, {}))


@pytest.mark.parametrize("name", list_algorithms())
def test_every_algorithm_keeps_its_contract(name):
    check_algorithm(name)


@pytest.mark.parametrize("name", sorted({*INSTRUMENTS.names()} - {"identification", "shifts"}))  # they take a minute
def test_every_instrument_keeps_its_contract(name):
    check_instrument(name)


def test_no_two_models_are_the_same_class():
    classes = [type(eqx.filter_eval_shape(lambda n=n: create(n, key=jr.key(0)))) for n in list_models()]
    assert len(set(classes)) == len(classes)


class Good(eqx.Module):
    """It averages labels, weighted by one parameter."""

    weight: jnp.ndarray
    input_dim: int = eqx.field(static=True)
    output_dim: int = eqx.field(static=True)

    def __init__(self, *, input_dim: int = 3, output_dim: int = 1, key):
        self.weight = jr.normal(key, ())
        self.input_dim, self.output_dim = input_dim, output_dim

    @gated
    def __call__(self, prompt: Prompt):
        return self.weight.astype(prompt.ys.dtype) * prompt.ys.mean(axis=0)


def squeezed(self, prompt):
    return (self.weight * prompt.ys.mean(axis=0)).squeeze()


def dividing(self, prompt):
    return self.weight * prompt.ys.std(axis=0) / (prompt.num_examples - 1)


def forgetful(self, prompt):
    return prompt.ys.mean(axis=0)


def summing_the_batch(self, prompt):
    return self.weight * jnp.asarray([float(y) for y in prompt.ys.mean(axis=0)])


def in_order(self, prompt):
    return self.weight.astype(prompt.ys.dtype) * prompt.ys[0]


def promoting(self, prompt):
    return self.weight * prompt.ys.mean(axis=0) * jnp.arange(1, 2)


@pytest.mark.parametrize(
    ("call", "clause"),
    [
        (squeezed, r"predicts one number for each output .*shape \(\)"),
        (dividing, r"finite for one example"),
        (forgetful, r"Every array that is trained .*\.?weight gets no gradient"),
        (summing_the_batch, r"can be compiled by jax\.jit"),
        (in_order, r"Shuffled examples .*order_sensitive = True"),
        (promoting, r"predicts one number for each output .*[Pp]romotion"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_broken_clause_is_named_with_what_mends_it(call, clause, forgetting):
    register_model("broken")(type("Broken", (Good,), {"__call__": gated(call), "__module__": __name__}))
    with pytest.raises(ContractError, match=clause):
        check_model("broken")


def test_a_model_without_a_gate_is_named(forgetting):
    register_model("broken")(type("Ungated", (Good,), {"__call__": unwrap(Good.__call__), "__module__": __name__}))
    with pytest.raises(ContractError, match=r"is a ShapeError that says which .*Decorate __call__ with iclzoo\.gated"):
        check_model("broken")


def test_a_whole_model_passes(forgetting):
    register_model("good")(Good)
    check_model("good")


def test_what_is_not_there_is_no_broken_contract():
    with pytest.raises(UnknownNameError, match="did you mean 'lsa'"):
        check_model("lsaa")
    with pytest.raises(UnknownNameError, match="did you mean 'uniform'"):
        check_task("unifrom")
    with pytest.raises(ConfigError, match="'adam' is no task, inputs or teacher"):
        check_task("adam")


def broken_inputs(**methods):
    body = {
        "sample": lambda self, key, num, input_dim: jr.normal(key, (num, input_dim)),
        "covariance": lambda self, input_dim: jnp.eye(input_dim),
        "fourth_moment": lambda self, A: A + A.T + jnp.trace(A) * jnp.eye(len(A)),
    }
    return type("Mine", (Inputs,), body | methods | {"__module__": __name__})


@pytest.mark.parametrize(
    ("methods", "clause"),
    [
        ({}, None),
        ({"covariance": lambda self, input_dim: 2 * jnp.eye(input_dim)}, "moments it gives are those .*Λ is"),
        ({"fourth_moment": lambda self, A: A}, r"moments it gives are those .*M\(A\) is"),
        ({"sample": lambda self, key, num, input_dim: jnp.ones((num, input_dim))}, "moments it gives"),
        ({"sample": lambda self, key, num, input_dim: jr.normal(key, (input_dim, num))}, "draws a finite prompt"),
    ],
    ids=["whole", "covariance", "fourth moment", "constant", "transposed"],
)
def test_inputs_are_what_they_say(methods, clause, forgetting):
    setting("mine")(broken_inputs(**methods))
    if clause is None:
        check_task("mine")
    else:
        with pytest.raises(ContractError, match=clause):
            check_task("mine")
