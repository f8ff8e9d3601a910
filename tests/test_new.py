"""`iclzoo new` writes a file that keeps the contract of its kind, and nothing over anything."""

import subprocess
import sys

import pytest

from iclzoo import new
from iclzoo.__main__ import run
from iclzoo.zoo.errors import ConfigError

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", new.kinds())
def test_what_is_written_keeps_its_contract(kind, tmp_path):
    path = new.write(kind, "my-own", tmp_path / "folder" / "mine.py")
    result = subprocess.run([sys.executable, path], capture_output=True, text=True)
    assert result.stdout == "my-own keeps the contract\n", result.stderr


def test_every_kind_of_thing_has_a_template():
    assert new.kinds() == ["algorithm", "instrument", "model", "task"]


def test_the_command_names_the_file_and_overwrites_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["new", "model", "my_model"]) == 0
    assert "wrote my_model.py" in capsys.readouterr().err
    before = (tmp_path / "my_model.py").read_text()
    assert run(["new", "model", "my_model"]) == 1
    assert "my_model.py is there already" in capsys.readouterr().err
    assert (tmp_path / "my_model.py").read_text() == before


@pytest.mark.parametrize("name", ["3x", "", "a b", "../x", "ä", "x" * 200 + "/", "a\nb", "{{ 1 }}"])
def test_names_that_make_no_class_are_refused(name):
    with pytest.raises(ConfigError, match="NAME must be made of"):
        new.source("model", name)


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(ConfigError, match="'lsa' already belongs to a model"):
        new.source("task", "lsa")
