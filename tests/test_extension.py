"""Models from outside: the one of docs/adding-a-model.md, installed as somebody else's package, and models that break the contract."""

import re
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import pytest

from iclzoo.testing import check_model
from iclzoo.train.recipes.catalogue import recipe
from iclzoo.train.recipes.recipe import Recipe
from iclzoo.train.run import fit
from iclzoo.zoo.errors import ContractError
from iclzoo.zoo.factory import MODELS, create, register_model

ROOT = Path(__file__).parents[1]
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "adding-a-model.md").read_text(), re.DOTALL)


@pytest.fixture
def documented(forgetting):
    exec(compile(EXAMPLE, "docs/adding-a-model.md", "exec"), {"__name__": "documented"})
    return "gated_lsa"


def test_the_example_is_one_short_file():
    assert len(EXAMPLE.splitlines()) < 40


def test_the_example_keeps_the_contract(documented):
    check_model(documented)


def test_a_model_s_name_stands_for_the_default_protocol(documented):
    chosen = recipe(documented)
    assert (chosen.model, chosen.task.input_dim) == ("gated_lsa", 10)
    assert recipe("lsa").optimiser.b2 == 0.98  # where there is a recipe of that name, it is meant


class Good(eqx.Module):
    input_dim: int = eqx.field(static=True)
    output_dim: int = eqx.field(static=True)

    def __init__(self, *, input_dim: int = 3, output_dim: int = 1, key):
        self.input_dim, self.output_dim = input_dim, output_dim

    def __call__(self, prompt):
        return prompt.ys.mean(axis=0)


class NoModule:
    pass


class Silent(eqx.Module):
    def __init__(self, *, input_dim: int = 3, output_dim: int = 1, key):
        pass


class Keyless(Good):
    def __init__(self, *, input_dim: int = 3, output_dim: int = 1):
        self.input_dim, self.output_dim = input_dim, output_dim


class Positional(Good):
    def __init__(self, input_dim: int = 3, *, output_dim: int = 1, key):
        self.input_dim, self.output_dim = input_dim, output_dim


class Demanding(Good):
    def __init__(self, *, input_dim: int, output_dim: int = 1, key):
        self.input_dim, self.output_dim = input_dim, output_dim


class Forgetful(Good):
    def __init__(self, *, input_dim: int = 3, output_dim: int = 1, width: int = 7, key):
        self.input_dim, self.output_dim = input_dim, output_dim


class Swallowing(Good):
    def __init__(self, *, input_dim: int = 3, output_dim: int = 1, key, **rest):
        self.input_dim, self.output_dim = input_dim, output_dim


class Dimensionless(eqx.Module):
    def __init__(self, *, key):
        pass

    def __call__(self, prompt):
        return prompt.ys[0]


@pytest.mark.parametrize(
    ("cls", "clause"),
    [
        (NoModule, "must be an equinox.Module"),
        (Silent, r"must define __call__\(prompt\)"),
        (Keyless, "must take a keyword-only `key`"),
        (Positional, "`input_dim` is not"),
        (Demanding, "`input_dim` has none"),
        (Forgetful, "`width` must be a field or property"),
        (Swallowing, "`rest` is not"),
        (Dimensionless, "must take a keyword-only `input_dim`"),
    ],
)
def test_a_broken_clause_is_named_when_the_model_is_registered(cls, clause, forgetting):
    with pytest.raises(ContractError, match=clause):
        register_model("broken")(cls)
    assert "broken" not in MODELS._things


def test_a_name_is_given_once(forgetting):
    register_model("good")(Good)
    register_model("good")(Good)  # a module that is reloaded registers again
    with pytest.raises(ContractError, match="'lsa' already belongs to"):
        register_model("lsa")(Good)


def test_a_hyperparameter_that_reads_back_otherwise_is_named_when_the_model_is_created(forgetting):
    @register_model("lying")
    class Lying(Good):
        def __init__(self, *, input_dim: int = 3, output_dim: int = 1, key):
            self.input_dim, self.output_dim = 3, output_dim

    with pytest.raises(ContractError, match="`input_dim` was given as 5 and reads back as 3"):
        create("lying", input_dim=5, key=jr.key(0))


def test_a_prediction_of_another_shape_is_named_when_training_starts(forgetting):
    @register_model("flat")
    class Flat(Good):
        def __call__(self, prompt):
            return jnp.zeros(())

    short = Recipe(name="flat", model="flat", num_steps=3)
    short = replace(short, hyperparameters={"input_dim": 10})
    with pytest.raises(ContractError, match=r"prediction must have shape \(1,\).*has got \(\)"):
        fit(short, progress=False)
