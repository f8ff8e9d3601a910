"""The command line, as a person meets it: in a process of its own."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from iclzoo.zoo.checkpoint import checkpoint_folder, read_card, write_card


def iclzoo(*arguments, cwd=None, **environment):
    return subprocess.run(
        [sys.executable, "-m", "iclzoo", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | environment,
    )


def succeeds(*arguments, **options):
    result = iclzoo(*arguments, **options)
    assert result.returncode == 0, result.stderr
    return result


def fails(*arguments, **options) -> str:
    """The one line a failure prints."""
    result = iclzoo(*arguments, **options)
    assert result.returncode not in (0, None)
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("iclzoo: ")
    return line


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(checkpoint_folder("lsa-fast"), tmp_path / "mine")
    return tmp_path / "mine"


def test_list_and_show():
    listed = succeeds("list").stdout
    assert all(name in listed for name in ("recurrent-lsa-2", "deep_lsa", "checkpoint", "recipe", "model"))
    assert "recurrent" not in succeeds("list", "lsa*").stdout
    shown = succeeds("show", "lsa").stdout
    assert "half_width=0.5" in shown
    assert "on 1,000,000 tasks" in shown
    assert "baselines=[gd-1]" in shown


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_heatmap(suffix, tmp_path):
    output = tmp_path / "new folder" / f"lsa.{suffix}"
    succeeds("heatmap", "lsa", "-o", output, "--step", 100, "--beside", "lsa-fast")
    assert output.stat().st_size > 5000


def test_train_and_verify(tmp_path):
    run = tmp_path / "run"
    trained = succeeds("train", "lsa", "-o", run, "--steps", 3, "--tasks", 1000)
    assert "'b2': 0.98" in trained.stderr  # every optimiser setting is printed
    assert "half-MSE" in trained.stdout
    verified = succeeds("verify", run).stdout
    assert verified.count("pass") == 5
    assert "holds a run already" in fails("train", "lsa", "-o", run, "--steps", 3)


DAMAGES = {
    "empty": lambda f: (f / "model.safetensors").write_bytes(b""),
    "truncated": lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-4]),
    "flipped": lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-1] + b"\x55"),
    "pointer": lambda f: (f / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n"),
    "directory": lambda f: ((f / "model.safetensors").unlink(), (f / "model.safetensors").mkdir()),
    "edited": lambda f: (f / "config.json").write_text(
        (f / "config.json").read_text().replace('"input_dim": 10', '"input_dim": 12')
    ),
}


def test_eight_kinds_of_damage_give_eight_messages_and_write_nothing(folder, tmp_path):
    picture = tmp_path / "picture.png"
    messages = {
        "unknown": fails("heatmap", "lsaa", "-o", picture),
        "step": fails("heatmap", folder, "-o", picture, "--step", 7),
    }
    for damage, act in DAMAGES.items():
        damaged = tmp_path / damage
        shutil.copytree(folder, damaged)
        act(damaged)
        messages[damage] = fails("heatmap", damaged, "-o", picture).replace(str(damaged), "")
    assert len(set(messages.values())) == 8
    assert not picture.exists()
    assert "did you mean" in messages["unknown"]
    assert "attention.W_K is [1, 11, 11], expected [1, 11, 13]" in messages["edited"]


def test_wrong_arguments(folder, tmp_path):
    assert "did you mean 'lsa-fast'" in fails("train", "lsa-fats", "-o", tmp_path / "x")
    assert "must end in one of" in fails("heatmap", "lsa", "-o", tmp_path / "lsa.docx")
    assert "heads 0 … 0, got head 3" in fails("heatmap", "lsa", "-o", tmp_path / "lsa.png", "--head", 3)
    assert "different heads" in fails("heatmap", "lsa", "-o", tmp_path / "lsa.png", "--beside", "deep-lsa-2")
    assert not list(tmp_path.glob("*.png"))
    assert iclzoo("heatmap", "lsa", "--hea", "3").returncode == 2


def test_debug_shows_the_traceback():
    assert "Traceback" in iclzoo("--debug", "show", "lsaa").stderr


def test_verify_says_what_is_wrong(folder):
    (folder / "steps" / "100.safetensors").write_bytes((folder / "steps" / "63.safetensors").read_bytes())
    result = iclzoo("verify", folder, "--no-figures")
    assert result.returncode == 1
    assert "FAIL files" in " ".join(result.stdout.split())
    assert "1 check failed" in result.stderr


def test_the_demo(tmp_path):
    result = succeeds("demo", "-o", tmp_path / "demo.png")
    assert "closed form" in result.stdout
    assert (tmp_path / "demo.png").stat().st_size > 10_000


def test_a_read_only_folder_is_an_error_of_one_line():
    assert "cannot write" in fails("train", "lsa", "-o", "/proc/iclzoo", "--steps", 3)


def test_output_that_cannot_be_written():
    assert fails("heatmap", "lsa", "-o", "/proc/iclzoo/lsa.png")


def test_figures_of_another_form(folder):
    for figures in ({"num_tasks": "many", "baselines": {}}, {"baselines": {"gd-1": 3}}, {"num_tasks": 5}):
        write_card(folder, replace(read_card(folder), figures=figures))
        assert "the figures on the card" in fails("show", folder)


def test_paths_work_from_anywhere(folder, tmp_path):
    succeeds("show", Path("mine"), cwd=tmp_path)
