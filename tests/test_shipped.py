"""The shipped checkpoints are what their cards say, and meet the bars of their recipes."""

import math

import jax.random as jr
import pytest

from iclzoo.inspect.estimates.means import mean_over_tasks
from iclzoo.inspect.report.metrics import measure
from iclzoo.inspect.verify import verify
from iclzoo.train.losses import squared_error
from iclzoo.train.recipes.catalogue import list_recipes, recipe
from iclzoo.train.recipes.recipe import Recipe
from iclzoo.zoo.storage.checkpoint import checkpoint_folder, list_checkpoints, load, read_card
from iclzoo.zoo.storage.config import from_config, to_config

pytestmark = [pytest.mark.bits, pytest.mark.slow]

# Tasks to measure on here; `iclzoo verify --all` measures on those of the cards.
NUM_TASKS = 4096


@pytest.fixture(params=list_checkpoints())
def name(request):
    return request.param


def test_files_steps_and_start(name):
    for check in verify(name, metrics=False):
        assert check.passed is not False, check
    assert not list(checkpoint_folder(name).glob("*.tmp"))


def test_the_recipe_on_the_card_is_the_recipe_of_that_name(name):
    assert to_config(from_config(dict(read_card(name).training))) == to_config(recipe(name))


def test_golden_values(name):
    """The card's loss, on the first of its tasks: within five standard errors, by the spread over all tasks of the card."""
    card = read_card(name)
    task, on_card = from_config(dict(card.task)).population, card.metrics["half_mse"]
    loss = mean_over_tasks(_half_error, load(name), task, num_tasks=NUM_TASKS, key=jr.key(card.metrics["seed"]))
    standard_error = on_card["standard_error"] * math.sqrt(card.metrics["num_tasks"] / NUM_TASKS)
    assert loss.value == pytest.approx(on_card["value"], abs=5 * standard_error)


def test_golden_values_beside_the_baselines():
    """All metrics of a card, on the first of its tasks: within five standard errors, paired where there is a pair."""
    card = read_card("deep-lsa-2")
    task = from_config(dict(card.task))
    fresh = measure(
        load("deep-lsa-2"), task, tuple(card.metrics["baselines"]), num_tasks=50_000, seed=card.metrics["seed"]
    )
    for baseline, comparison in fresh.baselines.items():
        on_card = card.metrics["baselines"][baseline]
        assert comparison.excess.value == pytest.approx(
            on_card["excess"]["value"], abs=5 * comparison.excess.standard_error
        )
        cosine = comparison.alignment.sensitivity_cosine
        assert cosine.value == pytest.approx(
            on_card["alignment"]["sensitivity_cosine"]["value"], abs=5 * cosine.standard_error
        )


def _half_error(learner, prompt, target):
    return squared_error(learner, prompt, target) / 2


def metrics(name):
    return read_card(name).metrics


def excess(name, baseline):
    """How much higher the checkpoint's loss is than the baseline's, on the same tasks, relative to it."""
    comparison = metrics(name)["baselines"][baseline]
    return comparison["excess"]["value"] / comparison["half_mse"]["value"]


def nearest_cosine(name):
    """The sensitivity cosine with the nearest baseline of the card."""
    return max(c["alignment"]["sensitivity_cosine"]["value"] for c in metrics(name)["baselines"].values())


def test_every_recipe_is_shipped_with_figures():
    assert set(list_recipes()) == set(list_checkpoints())
    assert all(metrics(name)["num_tasks"] >= 100_000 for name in list_checkpoints())
    folder = checkpoint_folder("lsa").parent
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < 25 * 2**20


@pytest.mark.parametrize("name", ["lsa", "lsa-seed-2", "lsa-seed-3", "lsa-fast"])
def test_one_layer_takes_one_step_of_gradient_descent(name):
    assert 0 < excess(name, "gd-1") < 0.003
    assert metrics(name)["baselines"]["gd-1"]["alignment"]["sensitivity_cosine"]["value"] >= 0.9990
    (step,) = metrics(name)["implied_steps"]
    assert step["step_size_over_num_examples"] == pytest.approx(0.606, rel=0.015)
    assert step["largest_other"] < 0.1


@pytest.mark.parametrize("name", [*list_checkpoints("lsa-100-examples*"), "lsa-half-width-1", "lsa-3-outputs"])
def test_one_layer_elsewhere(name):
    assert 0 < excess(name, "gd-1") < 0.003


@pytest.mark.parametrize("name", list_checkpoints("recurrent-lsa-2*"))
def test_two_loops_take_two_steps_of_gd_plus_plus(name):
    assert excess(name, "gd-2") < 0
    assert 0 < excess(name, "gd++-2") < 0.015
    assert metrics(name)["baselines"]["gd++-2"]["alignment"]["sensitivity_cosine"]["value"] >= 0.997


@pytest.mark.parametrize("num_layers", [2, 3, 4, 5])
def test_layers_do_better_than_steps_of_gd_plus_plus(num_layers):
    name = f"deep-lsa-{num_layers}"
    assert excess(name, f"gd-{num_layers}") < 0
    assert excess(name, f"gd++-{num_layers}") < 0


def test_two_layers_take_two_free_steps_of_gd_plus_plus():
    assert excess("deep-lsa-2", "gd++-2") < 0
    assert 0 < excess("deep-lsa-2", "gd++-2-free") < 0.01
    assert metrics("deep-lsa-2")["baselines"]["gd++-2-free"]["alignment"]["sensitivity_cosine"]["value"] >= 0.999


def test_two_softmax_heads_are_closer_to_gradient_descent_than_one():
    assert excess("softmax-2-heads-1", "gd-1") < excess("softmax-1-head-1", "gd-1")
    assert nearest_cosine("softmax-2-heads-1") > nearest_cosine("softmax-1-head-1")


def test_every_checkpoint_has_its_recipe(name):
    assert isinstance(from_config(dict(read_card(name).training)), Recipe)


@pytest.mark.parametrize("name", ["copying", "copying-seed-1", "copying-seed-2"])
def test_copied_tokens_take_one_step_of_gradient_descent(name):
    assert 0 < excess(name, "gd-1") < 0.03
