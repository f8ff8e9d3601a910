"""The command line, as a person meets it: in a process of its own, and, where that is no matter, in this one."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from iclzoo.__main__ import run
from iclzoo.inspect.report import tables
from iclzoo.train.progress import training_bar
from iclzoo.zoo.storage.checkpoint import checkpoint_folder, read_card, write_card

pytestmark = [pytest.mark.bits, pytest.mark.slow]


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
        (f / "config.json").read_text(encoding="utf-8").replace('"input_dim": 10', '"input_dim": 12'), encoding="utf-8"
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
    result = iclzoo("verify", folder, "--no-metrics")
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
    for metrics in ({"num_tasks": "many", "baselines": {}}, {"baselines": {"gd-1": 3}}, {"num_tasks": 5}):
        write_card(folder, replace(read_card(folder), metrics=metrics))
        assert "the metrics on the card" in fails("show", folder)


def test_paths_work_from_anywhere(folder, tmp_path):
    succeeds("show", Path("mine"), cwd=tmp_path)


def test_the_version_and_names_that_nothing_fits(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("iclzoo 0.")
    assert run(["list", "nope*"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("iclzoo: no checkpoint, recipe or model has a name that fits 'nope*'")


WRONG = {
    "--seed 9223372036854775808": "4294967295",
    "--seed -1": "--seed",
    "--steps 100000000000": "--steps",
    "--seeds 0:100000000000": "1,024 seeds",
    "--seeds 0:1000000000000000000000": "1,024 seeds",
    "--seeds 3:3": "1,024 seeds",
    "--seeds 0,4294967296": "from 0 to 4294967295",
    "--seeds -1:1": "from 0 to 4294967295",
    "--seeds x": "a list as in 0,3,7",
    "--tasks 1": "--tasks",
    "--tasks 1000000000000000": "--tasks",
    "--devices 100000": "--devices",
    "--process 1 --processes 2": "--coordinator",
    "--process 0": "--coordinator",
    "--nope": "--nope",
}


@pytest.mark.parametrize("arguments", WRONG)
def test_wrong_settings_are_one_line_and_nothing_is_written(arguments, tmp_path, capsys):
    assert run(["train", "lsa", "-o", str(tmp_path / "run"), *arguments.split()]) in (1, 2)
    out, err = capsys.readouterr()
    (line,) = err.splitlines()
    assert out == ""
    assert line.startswith("iclzoo: ")
    assert WRONG[arguments] in line
    assert not (tmp_path / "run").exists()


def test_whatever_is_raised_is_one_line(monkeypatch, capsys):
    for error, status, said in (
        (KeyError("x"), 1, "iclzoo: KeyError: 'x' (iclzoo --debug shows where)\n"),
        (MemoryError(), 1, "iclzoo: MemoryError:"),
        (OSError("two\nlines \x1b[31m"), 1, "iclzoo: two lines \\x1b[31m\n"),
        (KeyboardInterrupt(), 130, ""),
    ):

        def raised(pattern, error=error):
            raise error

        monkeypatch.setattr(tables, "names_table", raised)
        assert run(["list"]) == status
        assert capsys.readouterr().err.startswith(said)
        assert status != 130 or capsys.readouterr().err == ""


def test_one_bad_card_stops_neither_the_list_nor_the_others_to_verify(tmp_path, folder, monkeypatch, capsys):
    def damaged(name):
        return read_card(tmp_path) if name == "lsa" else read_card(name)

    monkeypatch.setattr(tables, "read_card", damaged)
    assert run(["list", "lsa*"]) == 0
    listed = capsys.readouterr().out
    assert "damaged: " in listed
    assert "lsa-fast" in listed
    assert run(["verify", str(tmp_path / "no[red]thing"), str(folder), "--no-metrics"]) == 1
    out, err = capsys.readouterr()
    assert "FAIL card     no checkpoint or folder is called" in out
    assert "no[red]thing" in out
    assert out.count("pass") == 4
    assert "1 check failed" in err


def test_what_others_wrote_is_shown_as_text(folder, tmp_path, capsys):
    """No markup, no terminal escapes, no marks of direction: not from a card, not from a name."""
    evil = "[red]x[/] [/] :cat: \x1b]0;title\x07\x1b[31m \u202e \x9b31m"
    escaped = r"[red]x[/] [/] :cat: \x1b]0;title\x07\x1b[31m \u202e \x9b31m"
    place = tmp_path / "x[/]y \x1b[31m"
    place.parent.mkdir()
    folder.rename(place)
    write_card(place, replace(read_card(place), description=evil, reference="[bold", task={"kind": evil}))
    assert run(["show", str(place)]) == 0
    out = capsys.readouterr().out
    assert escaped in out
    assert r"x[/]y \x1b[31m" in out
    assert run(["verify", str(place), "--no-metrics"]) == 1  # its task is no longer that of its recipe
    assert run(["heatmap", str(place), "-o", str(tmp_path / "x[" / "]$a.png")]) == 0
    assert run(["show", str(tmp_path / f"{evil}\nforged")]) == 1
    text = out + "".join(capsys.readouterr())
    assert escaped in text
    assert not set(text) & set("\x1b\x07\u202e\x9b\N{CAT FACE}")


def test_tilde_is_the_home_folder(folder, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(folder.parent))
    assert run(["heatmap", "~/mine", "-o", "~/pictures/h.JPG"]) == 0
    assert (folder.parent / "pictures" / "h.JPG").read_bytes()[:2] == b"\xff\xd8"


def test_a_picture_that_cannot_be_written_is_refused_first_and_the_old_one_stays(tmp_path, monkeypatch, capsys):
    def unwilling(*arguments, **options):
        pytest.fail("was asked to measure")

    monkeypatch.setattr("iclzoo.inspect.identification.verdict.identify", unwilling)
    (tmp_path / "folder.png").mkdir()
    for name in ("x.docx", "x", "folder.png"):
        assert run(["identify", "lsa", "-o", str(tmp_path / name)]) == 1
    picture = tmp_path / "old.png"
    picture.write_bytes(b"old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert run(["heatmap", "lsa", "-o", str(picture)]) == 1
    assert picture.read_bytes() == b"old"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


class Broken:
    """A stream that nobody reads from any more."""

    encoding = "ascii"

    def write(self, text):
        raise BrokenPipeError

    def flush(self):
        raise ValueError("I/O operation on closed file")

    def isatty(self):
        raise OSError


@pytest.mark.parametrize("stream", [Broken(), None, object()])
def test_training_goes_on_where_nobody_can_be_told(stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream)
    with training_bar("x[/]", 3, 0, header="η", enabled=True) as update:
        for step in range(3):
            update(step, 0.5)


def shell(command, **environment):
    """A line of bash; `iclzoo` is this one."""
    line = f'iclzoo() {{ "{sys.executable}" -m iclzoo "$@"; }}; {command}'
    return subprocess.run(["bash", "-c", line], capture_output=True, env=os.environ | environment)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_streams_that_are_closed_broken_full_or_foreign(tmp_path):
    command = f"""
    cd {tmp_path}
    iclzoo list >&-; echo $?
    iclzoo show nope <&- >&- 2>&-; echo $?
    iclzoo list | true; echo ${{PIPESTATUS[0]}}
    iclzoo list > /dev/full; echo $?
    PYTHONIOENCODING=cp1252 iclzoo list > names.txt; echo $?
    iclzoo train lsa -o run --steps 1 --tasks 100 2>&1 | head -c 5 > /dev/null
    ls run/config.json
    """
    result = shell(command)
    statuses = result.stdout.decode().split()
    assert statuses == ["0", "1", "1", "1", "0", "run/config.json"]
    (line,) = result.stderr.decode().splitlines()
    assert "No space left on device" in line
    assert "deep_lsa" in (tmp_path / "names.txt").read_text(encoding="cp1252")
