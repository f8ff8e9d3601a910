"""Recipes from outside: in a file, a module, as JSON, and with settings changed; bad ones are an error of one line."""

import json
from dataclasses import replace

import pytest

import iclzoo
from iclzoo.__main__ import run
from iclzoo.train.recipes.outside import changed
from iclzoo.zoo.errors import ConfigError, UnknownNameError, ZooError
from iclzoo.zoo.storage.config import to_config

SOURCE = """import iclzoo
RECIPE = iclzoo.Recipe(name="mine", model="lsa", num_steps=3, batch_size=4, baselines=())
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


def test_a_recipe_is_found_in_a_file_a_module_and_json(file, tmp_path, monkeypatch):
    there = iclzoo.recipe(f"{file}:RECIPE")
    assert there.name == "mine"
    assert iclzoo.recipe(str(file)) is there  # the only one; the file is imported once
    monkeypatch.syspath_prepend(tmp_path)
    assert to_config(iclzoo.recipe("mine:RECIPE")) == to_config(there)
    config = to_config(there)
    for number, written in enumerate((config, {"recipe": config, "seeds": None}, {"training": config})):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(written))
        assert to_config(iclzoo.recipe(str(path))) == config
    assert iclzoo.recipe("lsa").name == "lsa"


@pytest.mark.parametrize(
    ("text", "reference", "error"),
    [
        (None, "nowhere.py:RECIPE", "there is no file"),
        ("", "mine.py", "holds 0 recipes; name one"),
        (SOURCE, "mine.py:RECIPES", "unknown recipe of .*did you mean 'RECIPE'"),
        (SOURCE + "OTHER = iclzoo.recipe('lsa')\n", "mine.py", "holds 2 recipes; name one"),
        ("def", "mine.py:RECIPE", "cannot be imported: SyntaxError"),
        ("raise SystemExit(3)", "mine.py:RECIPE", "cannot be imported: SystemExit"),
        ("import nothing_of_that_name", "mine.py:RECIPE", "cannot be imported: ModuleNotFoundError"),
        (None, "nothing_of_that_name:RECIPE", "cannot be imported: ModuleNotFoundError"),
        (None, "nowhere.json", "there is no file"),
        ("{", "mine.json", "is no JSON"),
        ('{"kind": "uniform"}', "mine.json", "holds no recipe"),
        ('{"kind": "recipe", "name": "x", "model": "lsaa"}', "mine.json", "unknown model 'lsaa'; did you mean 'lsa'"),
    ],
)
def test_what_is_no_recipe_is_an_error_of_one_line(text, reference, error, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / reference.partition(":")[0]).write_text(text)
    with pytest.raises(ZooError, match=error):
        iclzoo.recipe(reference)
    assert run(["train", reference]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "Traceback" not in said
    assert not (tmp_path / "runs").exists()


def test_settings_are_changed_by_their_names():
    recipe = changed(
        iclzoo.recipe("lsa-fast"),
        [
            "optimiser.learning_rate=0.01",
            "task.num_examples=20",
            'task.inputs={"kind": "gaussian", "variance": 0.5}',
            "hyperparameters.num_heads=2",
            "name=wider",
            "seed=7",
            'baselines=["gd-2"]',
        ],
    )
    expected = replace(
        iclzoo.recipe("lsa-fast"),
        optimiser=replace(iclzoo.recipe("lsa-fast").optimiser, learning_rate=0.01),
        task=iclzoo.LinearRegression(num_examples=20, inputs=iclzoo.Gaussian(0.5)),
        hyperparameters=dict(iclzoo.recipe("lsa-fast").hyperparameters) | {"num_heads": 2},
        name="wider",
        seed=7,
        baselines=("gd-2",),
    )
    assert to_config(recipe) == to_config(expected)


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        (
            "optimizer.learning_rate=3",
            "there is no setting 'optimizer.learning_rate' of a Recipe; did you mean 'optimiser'",
        ),
        ("optimiser.learning_rat=3", "no setting 'optimiser.learning_rat' of a Adam; did you mean 'learning_rate'"),
        ("optimiser.learning_rate=fast", "learning_rate must be a finite number above 0, got 'fast'"),
        ("task.num_examples=0", "num_examples must be a whole number from 1"),
        ("task.inputs.half_width.x=1", "there is no setting 'task.inputs.half_width.x' of a float"),
        ("hyperparameters.heads=2", "model 'lsa' has no hyperparameter 'heads'"),
        ("seed", "a setting is written NAME=VALUE"),
        ("=3", "there is no setting ''"),
        ('task={"kind": "nope"}', "unknown kind of setting 'nope'"),
        ("model=lstmm", "unknown model 'lstmm'; did you mean 'lstm'"),
    ],
)
def test_settings_that_are_none_are_named(setting, error):
    with pytest.raises((ConfigError, UnknownNameError), match=error.replace("(", r"\(")):
        changed(iclzoo.recipe("lsa-fast"), [setting])
