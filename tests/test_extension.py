"""Models from outside: the one of docs/adding-a-model.md, installed as somebody else's package, and models that break the contract."""

import os
import re
import subprocess
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import pytest

from iclzoo.testing import check_model
from iclzoo.train.catalogue import recipe
from iclzoo.train.recipe import Recipe
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


def test_it_can_be_installed_and_used_with_no_edit_to_the_zoo(tmp_path):
    """In an environment of its own, by the command line alone."""
    package = tmp_path / "package"
    (package / "iclzoo_example").mkdir(parents=True)
    (package / "pyproject.toml").write_text((ROOT / "tests" / "third_party" / "pyproject.toml").read_text())
    (package / "iclzoo_example" / "__init__.py").touch()
    (package / "iclzoo_example" / "gated.py").write_text(EXAMPLE)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    python = tmp_path / "env" / "bin" / "python"
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    (site / "here.pth").write_text(
        f"{sysconfig.get_paths()['purelib']}\n{ROOT / 'src'}\n"
    )  # what is installed here, seen from there

    def run(*command) -> str:
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=tmp_path, env=os.environ)
        assert result.returncode == 0, result.stderr
        return result.stdout

    run(python, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index", package)
    assert "gated_lsa" in run(python, "-m", "iclzoo", "list", "gated*")
    run(python, "-m", "iclzoo", "train", "gated_lsa", "-o", "run", "--steps", 5, "--tasks", 1000)
    assert "gated_lsa(" in run(python, "-m", "iclzoo", "show", "run")
    run(python, "-m", "iclzoo", "heatmap", "run", "-o", "gated.png")
    assert (tmp_path / "gated.png").stat().st_size > 5000
    assert "step 0 is what seed 0 gives" in run(python, "-m", "iclzoo", "verify", "run", "--no-figures")


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
