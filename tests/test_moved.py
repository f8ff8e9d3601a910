"""What has another name or place than before is found by the old one, or says where it is."""

import json
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

import iclzoo
from iclzoo.train.run import fit
from iclzoo.train.tasks.regression import PromptPool
from iclzoo.zoo.errors import CardError, ExistsError
from iclzoo.zoo.registry import Registry
from iclzoo.zoo.storage.card import Card
from iclzoo.zoo.storage.checkpoint import copy_checkpoint, load, read_card, upgrade_card
from iclzoo.zoo.storage.config import from_config, to_config

TABLE = (Path(iclzoo.__file__).parent / "moved.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("line", TABLE)
def test_what_moved_names_its_place(line):
    old, new = (f"iclzoo.{place}" for place in line.split())
    module, _, name = old.rpartition(".")
    with pytest.raises(ImportError, match=f"has moved.*{re.escape(new)}$"):
        exec(f"from {module} import {name}")
    import_module(new)


def test_a_folder_has_nothing_else():
    weights = import_module("iclzoo.inspect.weights")
    assert not hasattr(weights, "nothing")
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'iclzoo\.inspect\.nothing'"):
        import_module("iclzoo.inspect.nothing")


@pytest.mark.parametrize(("old", "new"), [("Zero", iclzoo.ZeroPredictor), ("TaskPool", iclzoo.PromptPool)])
def test_old_names_serve_for_one_version(old, new):
    with pytest.warns(DeprecationWarning, match=f"iclzoo.{old} is now"):
        assert getattr(iclzoo, old) is new


def test_a_former_kind_is_read_and_the_new_one_written():
    config = to_config(PromptPool(num_tasks=4))
    assert config["kind"] == "prompt_pool"
    assert from_config(config | {"kind": "task_pool"}) == PromptPool(num_tasks=4)
    assert "task_pool" not in iclzoo.list_tasks()


def test_a_former_name_belongs_to_what_had_it(monkeypatch):
    monkeypatch.setattr(Registry, "every", [])  # other tests look at all registries
    registry = Registry("thing", group="iclzoo.nothing")
    registry.register("new", formerly=("old",))(dict)
    assert "old" in registry
    assert registry["old"] is registry["new"] is dict
    assert registry.names() == ["new"]
    with pytest.raises(iclzoo.ZooError, match=r"the thing 'old' already belongs to builtins\.dict"):
        registry.register("old")(list)


def old_card(card: Card) -> str:
    """The card as format 1 had it."""
    entries = json.loads(card.to_json())
    figures = entries.pop("metrics")
    if "implied_steps" in figures:
        figures["steps"] = figures.pop("implied_steps")
    return json.dumps(entries | {"figures": figures, "format": 1})


def test_a_card_of_format_1_is_read_and_written_anew(tmp_path):
    place = copy_checkpoint("lsa", tmp_path / "old")
    card = read_card("lsa")
    (place / "config.json").write_text(old_card(card), encoding="utf-8")
    assert read_card(place) == card
    assert '"figures"' in (place / "config.json").read_text(encoding="utf-8")  # reading never writes
    upgrade_card(place)
    assert (place / "config.json").read_text(encoding="utf-8") == card.to_json()
    load(place)


def test_formats_that_are_not_known_say_so(tmp_path):
    with pytest.raises(CardError, match="has format 3, this version of iclzoo reads 1 and 2"):
        Card.from_json(replace(Card(), format=3).to_json(), tmp_path)
    with pytest.raises(CardError, match="has an entry 'figures' that no card has"):
        Card.from_json('{"format": 2, "figures": {}}', tmp_path)


def test_a_copy_holds_the_checkpoint_and_no_more(tmp_path):
    place = copy_checkpoint("lsa", tmp_path / "mine")
    (place / "note.txt").write_text("mine")
    with pytest.raises(ExistsError):
        copy_checkpoint("lsa", place, overwrite=True)
    again = copy_checkpoint(place, tmp_path / "again")
    assert not (again / "note.txt").exists()
    assert copy_checkpoint("lsa-seed-2", again, overwrite=True) == again
    assert read_card(again) == read_card("lsa-seed-2")


def test_a_log_with_the_old_columns_is_not_mixed_with_new_ones(tmp_path):
    recipe = replace(iclzoo.recipe("lsa"), num_steps=4, batch_size=8)
    calls = iter(range(2))

    def probe(model):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return {"attention head 0 η/N": 1.0}

    with pytest.raises(KeyboardInterrupt):
        fit(recipe, tmp_path, probe=probe)
    with pytest.raises(iclzoo.ZooError, match="has the column 'attention head 0 η/N', whose name is plain ASCII now"):
        fit(recipe, tmp_path, resume=True)
