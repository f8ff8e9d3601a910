"""What the documents say runs, and what is generated in them is up to date."""

import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", ["metrics.py", "catalogue.py", "instruments.py"])
def test_generated_pages_are_up_to_date(page):
    result = subprocess.run([sys.executable, ROOT / "docs" / page, "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_the_python_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    monkeypatch.chdir(tmp_path)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / "lsa.png").exists()
    assert "Estimate(value=0.99" in capsys.readouterr().out


def test_links_in_the_documents_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_commands_in_the_readme_exist():
    known = subprocess.run([sys.executable, "-m", "iclzoo", "--help"], capture_output=True, text=True).stdout
    for command in re.findall(r"^iclzoo (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE):
        assert command in known
