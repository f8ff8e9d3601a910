"""Every published result has a claim, numbers with tolerances and a picture; the document is what the commands give."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from test_training import TINY

from iclzoo.inspect.estimates.estimate import Estimate
from iclzoo.inspect.reproduction.catalogue import list_results, result
from iclzoo.inspect.reproduction.page import cells, check_place, number, record, section, write_page
from iclzoo.inspect.reproduction.result import (
    CheckpointSource,
    Measurement,
    Outcome,
    Reproduction,
    Result,
    percent,
    reproduce,
)
from iclzoo.train.recipes.catalogue import list_recipes
from iclzoo.zoo.errors import ExistsError, UnknownNameError
from iclzoo.zoo.storage.checkpoint import list_checkpoints

PAGE = (Path(__file__).parents[1] / "docs" / "reproduction.md").read_text(encoding="utf-8")
# Results that take a second or two; the others are run by `iclzoo reproduce --all`.
QUICK = ("weights", "interpolation")


@pytest.mark.parametrize("id", list_results())
def test_each_result_is_a_claim_that_can_be_measured(id):
    one = result(id)
    assert one.claim.endswith(".")
    assert one.source
    assert set(one.checkpoints) <= set(list_checkpoints()) & set(list_recipes())


def test_the_document_holds_every_result_in_order():
    written = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    assert written == list(list_results())
    for id in written:
        assert result(id).claim in PAGE
        assert f"(reproduction/{id}.png)" in PAGE


@pytest.mark.parametrize("id", QUICK)
def test_the_document_is_what_the_command_gives(id):
    """The same rows and verdict; numbers up to what float32 leaves open between machines."""
    (written,) = re.findall(rf"^## {id}\n.*?(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    fresh = section(record(reproduce(result(id))))
    words, figures = (re.sub(r"-?\d[\d.]*", "#", text).split() for text in (written, fresh))
    assert words == figures
    for ours, theirs in zip(*(re.findall(r"-?\d[\d.]*", text) for text in (written, fresh)), strict=True):
        assert float(ours.strip(".")) == pytest.approx(float(theirs.strip(".")), rel=0.02)


def test_a_tolerance_decides():
    def one(value, low=None, high=None):
        return Measurement("a number", "1", Estimate(value, None), low, high)

    assert one(1.0, low=1.0).holds
    assert not one(0.99, low=1.0).holds
    assert one(-5.0, high=1.0).holds
    assert not one(1.01, 0.0, 1.0).holds
    assert not one(None, low=1.0).holds
    assert [one(1.0, *bounds).tolerance for bounds in ((1.0, None), (None, 0.5), (0.0, 1.0))] == [
        "≥ 1",
        "≤ 0.5",
        "0 … 1",
    ]


def outcome(*values):
    measurements = tuple(
        Measurement(f"number {i}", "1", Estimate(value, 0.01), low=1.0) for i, value in enumerate(values)
    )
    return Outcome(measurements, "no tasks", Figure())


def test_the_verdict_names_what_differs_and_why():
    one = Result(id="x", claim="It is one.", source="nobody", checkpoints=(), measure=lambda source: outcome(1.5))
    assert reproduce(one).verdict == "reproduced"
    other = replace(one, measure=lambda source: outcome(1.5, 0.5, None), explanation="It is less.")
    assert reproduce(other).verdict == "differs in: number 1; number 2. It is less."
    assert "**Verdict: differs" in section(record(Reproduction(other, outcome(0.5))))


def test_numbers_have_the_digits_that_mean_something():
    assert number(Estimate(0.206229, 0.0012)) == "0.2062 ± 0.0012"
    assert number(Estimate(12.3456, None)) == "12.35"
    assert number(Estimate(None, None)) == "undefined"
    assert number(percent(Estimate(0.0123, 0.001), of=0.5)) == "2.46 ± 0.20"
    measurement = {
        "what": "a",
        "published": "b",
        "value": 0.5,
        "standard_error": None,
        "tolerance": "≥ 1",
        "holds": False,
    }
    assert cells(measurement) == ("a", "b", "0.5", "≥ 1", "no")


def test_a_page_holds_what_was_reproduced_so_far(tmp_path):
    ids = ("first", "second", "third")
    for id in ("third", "first", "third"):
        one = Result(id=id, claim="It is one.", source="nobody", checkpoints=(), measure=lambda source: outcome(1.5))
        page = write_page(tmp_path, ids, reproduce(one)).read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == ["first", "third"]


def test_a_page_overwrites_nothing_but_a_page(tmp_path):
    one = Result(id="one", claim="It is one.", source="nobody", checkpoints=(), measure=lambda source: outcome(1.5))
    for name in ("reproduction.md", "reproduction/one.json", "reproduction/one.png"):
        folder = tmp_path / name.replace("/", "-")
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("mine")
        with pytest.raises(ExistsError, match=name):
            write_page(folder, ["one"], reproduce(one))
        assert (folder / name).read_text() == "mine"
        (folder / name).unlink()
        (folder / "reproduction").mkdir(exist_ok=True)
        (folder / "reproduction" / "two.json").write_text("{")  # of another result, and damaged: it stops nothing
        page = write_page(folder, ["one", "two"], reproduce(one))
        assert write_page(folder, ["one", "two"], reproduce(one)) == page
        assert "](reproduction/one.png)" in page.read_text(encoding="utf-8")
        assert (folder / "reproduction" / "one.png").stat().st_size > 0
    for id in list_results():
        check_place(Path(__file__).parents[1] / "docs", id)  # which is ours


def test_unknown_results_get_the_closest():
    with pytest.raises(UnknownNameError, match="one-layer"):
        result("one-layr")


@pytest.mark.usefixtures("standard_promotion")
def test_a_shelf_trains_what_it_lacks(tmp_path):
    source, recipe = CheckpointSource(tmp_path), replace(TINY, num_steps=9)
    source.train(recipe)
    written = (tmp_path / recipe.name / "config.json").stat().st_mtime_ns
    assert source.steps(recipe.name)[-1] == 9
    assert source.load(recipe.name).input_dim == 3
    source.train(recipe)
    assert (tmp_path / recipe.name / "config.json").stat().st_mtime_ns == written
