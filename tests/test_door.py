"""What comes in at the door beside single settings: names, classes defined anew, plugins, threads, sizes, empty prompts."""

import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_close, random_prompt
from test_settings import ALGORITHMS

from iclzoo.inspect.report.tables import names_table
from iclzoo.train.recipes.recipe import Recipe
from iclzoo.train.tasks.inputs import Gaussian, root
from iclzoo.train.tasks.regression import LinearRegression
from iclzoo.train.tasks.teachers import AnisotropicTeacher, GaussianTeacher
from iclzoo.zoo import registry
from iclzoo.zoo.constructions.label_copying_head import copying_transformer
from iclzoo.zoo.errors import ConfigError, ContractError, ShapeError, UnknownNameError, ZooError, closest
from iclzoo.zoo.factory import MODELS, create, hyperparameters, list_models, model_name, register_model
from iclzoo.zoo.layers.attention import LinearSelfAttention, MergedLinearSelfAttention
from iclzoo.zoo.layers.mlp import MLP
from iclzoo.zoo.prompt import Prompt
from iclzoo.zoo.registry import failed_plugins
from iclzoo.zoo.storage.checkpoint import load, save
from iclzoo.zoo.storage.config import from_config, setting, to_config


@pytest.mark.parametrize("name", ["LSA", "Lsa", "lsA"])
def test_names_match_whatever_the_case(name):
    with pytest.raises(UnknownNameError, match="did you mean 'lsa'"):
        load(name)
    with pytest.raises(UnknownNameError, match="did you mean 'lsa'"):
        create(name, key=jr.key(0))


def test_a_name_far_from_all_does_not_list_them_all():
    assert closest("zzz", map(str, range(100))).endswith("and 80 more")


@pytest.mark.parametrize("name", [3, None, ["lsa"], 1.5, "ls\0a", "\ud800", True])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(ZooError, match=r"name must be a string|unknown model"):
        create(name, key=jr.key(0))


def defined_anew():
    """A model and a setting, as a cell of a notebook defines them, each time it is run."""

    @register_model("cell")
    class Cell(eqx.Module):
        W: jax.Array
        input_dim: int = eqx.field(static=True)
        output_dim: int = eqx.field(static=True)

        def __init__(self, *, input_dim: int = 3, output_dim: int = 1, key):
            self.W, self.input_dim, self.output_dim = jnp.ones(input_dim), input_dim, output_dim

        def __call__(self, prompt):
            return self.W @ prompt.query

    @setting("cell")
    @dataclass(frozen=True)
    class Setting:
        width: int = 3

    return Cell, Setting


def test_a_cell_run_twice(forgetting, tmp_path):
    Cell, Setting = defined_anew()
    model, chosen = Cell(input_dim=np.int64(2), key=jr.key(0)), Setting(5)
    again, _ = defined_anew()
    assert model_name(model) == "cell"
    assert type(load(save(tmp_path / "cell", model))) is again
    assert to_config(chosen) == {"kind": "cell", "width": 5}


def test_a_kind_is_given_once(forgetting):
    @dataclass(frozen=True)
    class Other:
        half_width: float = 1.0

    with pytest.raises(
        ContractError, match=r"the kind of setting 'uniform' already belongs to iclzoo\.train\.tasks\.inputs\.Uniform"
    ):
        setting("uniform")(Other)


@pytest.mark.parametrize("sizes", [{"input_dim": 0}, {"output_dim": -1}, {"input_dim": 1.5}, {"input_dim": True}])
def test_dimensions_of_any_model_are_sizes(sizes, forgetting):
    defined_anew()
    with pytest.raises(ConfigError, match="_dim must be a whole number from 1"):
        create("cell", key=jr.key(0), **sizes)


@pytest.mark.parametrize(
    "error", [ImportError("no torch"), SystemExit(0), ZeroDivisionError(), GeneratorExit(), RecursionError()]
)
def test_a_plugin_that_raises_is_named_once_and_stops_nothing(error, forgetting, monkeypatch, capfd):
    class Plugin(EntryPoint):
        def load(self):
            raise error

    monkeypatch.setattr(MODELS, "_discovered", False)
    monkeypatch.setattr(registry, "entry_points", lambda group: [Plugin("mine", "my_package.mine", group)])
    assert "lsa" in list_models()
    assert create("lsa", key=jr.key(0)) is not None
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(
        f"iclzoo: the plugin 'mine' (my_package.mine) adds no models; it raised {type(error).__name__}"
    )
    assert failed_plugins().keys() == {"mine"}
    *_, (kind, name, reason) = names_table("mine").rows
    assert (kind, name) == ("plugin", "mine")
    assert reason.startswith(f"failed: {type(error).__name__}")


def test_a_plugin_may_ask_for_the_models_while_it_is_found(forgetting, monkeypatch):
    seen = []

    class Plugin(EntryPoint):
        def load(self):
            seen.append(list_models())

    monkeypatch.setattr(MODELS, "_discovered", False)
    monkeypatch.setattr(registry, "entry_points", lambda group: [Plugin("mine", "my_package.mine", group)])
    assert list_models() == seen[0]


def test_eight_threads_first_thing():
    """In a process of its own, where nothing has been found yet."""
    script = """if True:
        from concurrent.futures import ThreadPoolExecutor
        from threading import Barrier
        import iclzoo, jax
        together = Barrier(8)
        def first(n):
            together.wait()
            return type(iclzoo.load("lsa") if n % 2 else iclzoo.create("deep_lsa", key=jax.random.key(n))).__name__
        with ThreadPoolExecutor(8) as threads:
            print(sorted(threads.map(first, range(8))))
    """
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.stdout.strip() == str(["DeepLSA"] * 4 + ["LSA"] * 4), result.stderr


@pytest.mark.parametrize(
    "make",
    [
        lambda: create("lsa", key=jr.key(0), input_dim=10**6),
        lambda: create("transformer", key=jr.key(0), widening_factor=10**7, num_layers=1),
        lambda: create("lstm", key=jr.key(0), hidden_size=2**31 - 1),
        lambda: create("lsa", key=jr.key(0), num_heads=2**31 - 1, head_dim=2**31 - 1),
        lambda: copying_transformer(num_examples=10**6, input_dim=3),
        lambda: LinearRegression(input_dim=10**6, output_dim=10**6),
        lambda: LinearRegression(num_examples=2**31 - 1),
        lambda: LinearSelfAttention(embed_dim=10**6, init_scale=1.0, key=jr.key(0)),
        lambda: MergedLinearSelfAttention(embed_dim=10**6, init_scale=1.0, key=jr.key(0)),
        lambda: MLP(embed_dim=10**6, hidden_dim=10**6, init_scale=1.0, key=jr.key(0)),
    ],
)
def test_sizes_are_held_against_the_memory_before_any_is_taken(make):
    with pytest.raises(ConfigError, match=r"would take .* GB, but this machine has"):
        make()


def test_numpy_s_whole_numbers_are_sizes(getkey, tmp_path):
    model = create("lsa", key=getkey(), input_dim=np.int64(3), num_heads=np.uint8(2), init_scale=np.float32(0.5))
    stored = hyperparameters(load(save(tmp_path / "x", model)))
    assert (stored["input_dim"], stored["num_heads"], stored["init_scale"]) == (3, 2, 0.5)
    assert {type(stored[name]) for name in ("input_dim", "num_heads", "init_scale")} == {int, float}


EMPTY = {"xs": jnp.zeros((0, 5)), "ys": jnp.zeros((0, 1)), "query": jnp.ones(5)}


@pytest.mark.parametrize("learner", [*list_models(), *ALGORITHMS], ids=str)
def test_an_empty_prompt_is_refused_for_all_learners_alike(learner):
    with pytest.raises(ShapeError, match="a prompt needs at least one example"):
        learner(Prompt(**EMPTY))


@pytest.mark.parametrize(
    "covariance", [((1.0, 1.0), (1.0, 1.0)), ((2.0, 0.0), (0.0, 0.0)), ((1.0, -2.0), (-2.0, 4.0))], ids=str
)
def test_a_singular_covariance_is_sampled(covariance, getkey):
    for sample in (Gaussian(covariance).sample, AnisotropicTeacher(covariance).sample):
        with jax.debug_nans(True):
            xs = np.asarray(sample(getkey(), 20_000, 2))
        assert np.abs(xs.T @ xs / len(xs) - np.asarray(covariance)).max() < 0.15
    assert_close(
        root(jnp.asarray(covariance)) @ root(jnp.asarray(covariance)).T, jnp.asarray(covariance), factor=10, why="eigh"
    )


@pytest.mark.parametrize(
    "variance",
    [
        ((1, 0.8), (0, 1)),
        ((1, 2), (2, 1)),
        -1.0,
        0.0,
        (0.0, 0.0),
        (1.0, -1e-3),
        float("nan"),
        ((1.0, 0.0),),
        ((0.0,),),
        1e30,
    ],
    ids=str,
)
@pytest.mark.parametrize("array", [False, True])
def test_impossible_covariances_are_refused(variance, array):
    with pytest.raises(ConfigError, match="variance must be"):
        Gaussian(jnp.asarray(variance) if array else variance)


def test_sizes_of_a_distribution_are_those_of_the_task():
    for wrong in ({"inputs": Gaussian((1.0, 2.0))}, {"teacher": AnisotropicTeacher((1.0, 2.0))}):
        with pytest.raises(ConfigError, match="for each of the 3 coordinates, got one for 2"):
            LinearRegression(input_dim=3, **wrong)
    with pytest.raises(ConfigError, match=r"mean must be .* got shape \(1, 2\)"):
        LinearRegression(input_dim=3, teacher=GaussianTeacher(mean=((1.0, 2.0),)))


def test_a_traced_task_samples(getkey):
    """Its numbers have no value and no shape that NumPy sees, in tuples neither."""
    task = LinearRegression(
        input_dim=2,
        inputs=Gaussian(((1.0, 0.5), (0.5, 1.0))),
        teacher=GaussianTeacher(mean=((1.0, 2.0),)),
    )
    key = getkey()
    _, target = task.sample(key)
    assert_close(jax.jit(lambda task: task.sample(key)[1])(task), target)


@pytest.mark.parametrize("seed", [-1, 2**32, 4294967297, 1.0, True, "1"])
def test_seeds(seed):
    with pytest.raises(ConfigError, match="seed must be a whole number from 0 to 4294967295"):
        Recipe(name="mine", model="lsa", seed=seed)


def test_a_baseline_that_is_not_there_is_refused_before_training():
    with pytest.raises(UnknownNameError, match="unknown algorithm 'nope'"):
        Recipe(name="mine", model="lsa", baselines=("nope",))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a\nb", "a\0b", "\x1b[31m", "x" * 300, "\ud800"])
def test_a_recipe_s_name_can_be_a_folder(name):
    with pytest.raises(ConfigError, match="name must be a name of"):
        Recipe(name=name, model="lsa")


def test_the_choices_are_named_with_the_closest():
    with pytest.raises(
        ConfigError,
        match="query_init must be one of 'zero', 'known', 'learned', got 'Zero'; did you mean 'zero'",
    ):
        create("deep_lsa", key=jr.key(0), query_init="Zero")


def test_settings_of_another_kind_are_no_settings_of_this_one():
    with pytest.raises(ConfigError, match=r"inputs must be of type Uniform or .*, got GaussianTeacher"):
        from_config({"kind": "linear_regression", "inputs": {"kind": "gaussian_teacher"}})


def test_weights_of_another_size_than_the_prompt_are_named(getkey):
    prompt = random_prompt(getkey(), output_dim=2)
    descent = ALGORITHMS[0](0.5, W_0=np.ones((1, 3)))
    with pytest.raises(ShapeError, match=r"W_0 is \[1, 3\], but the prompt has \[output_dim, input_dim\] = \[2, 3\]"):
        descent(prompt)
