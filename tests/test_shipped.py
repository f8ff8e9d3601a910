"""The shipped checkpoints are what their cards say, and meet the bars of their recipes."""

import pytest

from iclzoo.inspect.figures import measure
from iclzoo.inspect.verify import verify
from iclzoo.train.recipe import Recipe
from iclzoo.train.recipe_book import recipe
from iclzoo.zoo.checkpoint import checkpoint_folder, list_checkpoints, load, read_card
from iclzoo.zoo.config import from_config, to_config

# Tasks to measure on here; `iclzoo verify --all` measures on the million of the cards.
NUM_TASKS = 50_000


@pytest.fixture(params=list_checkpoints())
def name(request):
    return request.param


def test_files_steps_and_start(name):
    for check in verify(name, figures=False):
        assert check.passed is not False, check
    assert not list(checkpoint_folder(name).glob("*.tmp"))


def test_the_recipe_on_the_card_is_the_recipe_of_that_name(name):
    assert to_config(from_config(dict(read_card(name).training))) == to_config(recipe(name))


def test_golden_values(name):
    """The card's figures, on the first of its tasks: within five standard errors, paired where there is a pair."""
    card = read_card(name)
    task = from_config(dict(card.task))
    fresh = measure(load(name), task, tuple(card.figures["baselines"]), num_tasks=NUM_TASKS, seed=card.figures["seed"])
    assert fresh.half_mse.value == pytest.approx(
        card.figures["half_mse"]["value"], abs=5 * fresh.half_mse.standard_error
    )
    for baseline, comparison in fresh.baselines.items():
        on_card = card.figures["baselines"][baseline]
        assert comparison.excess.value == pytest.approx(
            on_card["excess"]["value"], abs=5 * comparison.excess.standard_error
        )
        cosine = comparison.alignment.sensitivity_cosine
        assert cosine.value == pytest.approx(
            on_card["alignment"]["sensitivity_cosine"]["value"], abs=5 * cosine.standard_error
        )


def figures(name):
    return read_card(name).figures


def excess(name, baseline):
    """How much higher the checkpoint's loss is than the baseline's, on the same million tasks, relative to it."""
    comparison = figures(name)["baselines"][baseline]
    return comparison["excess"]["value"] / comparison["half_mse"]["value"]


@pytest.mark.parametrize("name", ["lsa", "lsa-fast"])
def test_one_layer_takes_one_step_of_gradient_descent(name):
    assert figures(name)["num_tasks"] == 1_000_000
    assert 0 < excess(name, "gd-1") < 0.003
    assert figures(name)["baselines"]["gd-1"]["alignment"]["sensitivity_cosine"]["value"] >= 0.9990
    (reading,) = figures(name)["steps"]
    assert reading["step_size_over_num_examples"] == pytest.approx(0.606, rel=0.015)
    assert reading["largest_other"] < 0.1


def test_two_loops_take_two_steps_of_gd_plus_plus():
    assert excess("recurrent-lsa-2", "gd-2") < 0
    assert 0 < excess("recurrent-lsa-2", "gd++-2") < 0.03
    assert figures("recurrent-lsa-2")["baselines"]["gd++-2"]["alignment"]["sensitivity_cosine"]["value"] >= 0.997


def test_two_layers_take_two_free_steps_of_gd_plus_plus():
    assert excess("deep-lsa-2", "gd++-2") < 0
    assert 0 < excess("deep-lsa-2", "gd++-2-free") < 0.01
    assert figures("deep-lsa-2")["baselines"]["gd++-2-free"]["alignment"]["sensitivity_cosine"]["value"] >= 0.999


def test_every_checkpoint_has_its_recipe(name):
    assert isinstance(from_config(dict(read_card(name).training)), Recipe)
