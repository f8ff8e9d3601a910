"""A package that the zoo has never seen, installed beside its wheel in an environment of its own, and driven by the command line."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tests" / "third_party"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """An environment with the wheel and the package; what they depend on is seen from where the tests run."""
    folder = tmp_path_factory.mktemp("elsewhere")
    build = "import sys; from hatchling import build; build.build_wheel(sys.argv[1])"
    for tree in (ROOT, PACKAGE):
        subprocess.run([sys.executable, "-c", build, folder], cwd=tree, check=True, capture_output=True)
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    (site / "here.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    command = [folder / "env" / "bin" / "python", "-m", "pip", "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*command, *folder.glob("*.whl")], check=True)
    return folder


def run(place: Path, *command, status: int = 0) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    python = place / "env" / "bin" / "python"
    result = subprocess.run([python, *map(str, command)], capture_output=True, text=True, cwd=place, env=environment)
    assert result.returncode == status, result.stderr
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def trained(place):
    """The recipe of a file, trained, in the folder `run`."""
    return run(place, "-m", "iclzoo", "train", f"{PACKAGE / 'recipes.py'}:SQUARES", "-o", "run", "--tasks", 200)


def test_it_is_the_wheel_that_runs(place):
    assert str(place / "env") in run(place, "-c", "import iclzoo; print(iclzoo.__file__)")


def test_everything_is_listed(place):
    listed = run(place, "-m", "iclzoo", "list")
    for name in ("softsign_attention", "quadratic_regression", "newton-K", "sign"):
        assert f" {name} " in listed


def test_the_contracts_are_checked_from_outside(place):
    code = """if True:
        from iclzoo import testing
        testing.check_model("softsign_attention")
        testing.check_task("quadratic_regression")
        testing.check_algorithm("newton-K")
        testing.check_instrument("sign")
        print("kept")
    """
    assert run(place, "-c", code).endswith("kept\n")


def test_it_is_trained_shown_and_verified(place, trained):
    assert "newton-2" in trained
    card = json.loads((place / "run" / "config.json").read_text(encoding="utf-8"))
    package = {"package": "iclzoo-example", "version": "1.0"}
    assert card["origins"] == dict.fromkeys(("softsign_attention", "quadratic_regression", "newton-2"), package)
    assert "softsign_attention(" in run(place, "-m", "iclzoo", "show", "run")
    verified = run(place, "-m", "iclzoo", "verify", "run")
    assert "step 0 is what seed 0 gives, bit for bit" in verified
    assert "all other metrics, come out as on the card" in verified


def test_it_is_drawn_identified_and_inspected(place, trained):
    run(place, "-m", "iclzoo", "heatmap", "run", "-o", "weights.png")
    assert (place / "weights.png").stat().st_size > 5000
    assert "newton-2" in run(
        place, "-m", "iclzoo", "identify", "run", "--candidate", "newton-2", "--candidate", "gd-1", "--tasks", 100
    )
    code = """if True:
        from pathlib import Path
        import iclzoo
        from iclzoo.inspect.report.page import write_report
        chosen = [iclzoo.instruments[name] for name in ("weights", "structure", "patterns", "training-path", "sign")]
        print(write_report(iclzoo.Checkpoint("run"), Path("report"), chosen, num_tasks=50))
    """
    run(place, "-c", code)
    page = (place / "report" / "index.html").read_text(encoding="utf-8")
    assert "How often the prediction has the sign" in page
    assert "Failed" not in page


def test_without_the_package_it_is_said_what_to_install(place, trained):
    """The zoo of this environment does not know it."""
    command = [sys.executable, "-m", "iclzoo", "heatmap", place / "run", "-o", place / "x.png"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert "install iclzoo-example 1.0 for 'softsign_attention'" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_file_is_named_on_the_card_and_imported_on_demand(tmp_path, monkeypatch):
    """A model in a file of no package: the card says which, and `--from` finds it."""
    source = (PACKAGE / "iclzoo_example" / "model.py").read_text(encoding="utf-8")
    recipe = 'RECIPE = iclzoo.Recipe(name="mine", model="in_a_file", batch_size=4, num_steps=2, baselines=())\n'
    (tmp_path / "mine.py").write_text(f"{source.replace('softsign_attention', 'in_a_file')}\n\n{recipe}")

    def iclzoo(*command, status=0):
        result = subprocess.run(
            [sys.executable, "-m", "iclzoo", *command], capture_output=True, text=True, cwd=tmp_path
        )
        assert result.returncode == status, result.stderr
        return result.stdout + result.stderr

    iclzoo("train", "mine.py", "-o", "run", "--tasks", "20")
    said = iclzoo("heatmap", "run", "-o", "x.png", status=1)
    assert "iclzoo --from mine.py COMMAND" in said
    iclzoo("--from", "mine.py", "heatmap", "run", "-o", "x.png")
    assert "step 0 is what seed 0 gives" in iclzoo("--from", "mine.py", "verify", "run")
    again = iclzoo("train", "mine.py:RECIPE", "-o", "run", "--resume", "--tasks", "20")
    assert "wrote run" in again
