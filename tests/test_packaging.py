"""The layout's facts, each guarded: see docs/layout.md."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("zoo", "train", "inspect", "checkpoints")


def python(code: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, env=environment or None
    )


def test_the_parts_are_no_packages_of_their_own():
    """An inspect/__init__.py would shadow the standard library for everything started in the root."""
    for part in ("zoo", "train", "inspect"):
        assert not list((ROOT / part).rglob("__init__.py"))
    result = python("import inspect, dataclasses; print(inspect.signature(dataclasses.dataclass))")
    assert result.returncode == 0, result.stderr


def test_the_links_are_relative_and_committed():
    for part in PARTS:
        link = ROOT / "src" / "iclzoo" / part
        assert link.is_symlink()
        assert str(link.readlink()) == f"../../{part}"


def test_a_part_imported_by_accident_fails_loudly():
    """`import zoo.prompt` in the root must not make a second copy of a class."""
    modules = [
        ".".join(file.relative_to(ROOT).with_suffix("").parts) for part in PARTS for file in (ROOT / part).rglob("*.py")
    ]
    code = f"""
import importlib
for module in {modules}:
    try:
        names = vars(importlib.import_module(module)).values()
    except ImportError:
        continue
    print(*(name for name in names if isinstance(name, type) and name.__module__ == module))
"""
    result = python(code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [], "these classes could be had twice"


def test_importing_the_front_door_is_light():
    code = "import iclzoo, sys; print([m for m in ('matplotlib', 'seaborn', 'pandas', 'typer') if m in sys.modules])"
    assert python(code).stdout.strip() == "[]"


def test_every_public_name_is_there():
    result = python("import iclzoo; [getattr(iclzoo, name) for name in iclzoo.__all__]; print(iclzoo.heatmap.__name__)")
    assert result.stdout.strip() == "heatmap", result.stderr
    assert "has no attribute 'heatmpa'" in python("import iclzoo; iclzoo.heatmpa").stderr


def test_a_checkout_without_links_still_works(tmp_path):
    """Where links are not supported, git writes small files in their place."""
    package = tmp_path / "src" / "iclzoo"
    package.mkdir(parents=True)
    for file in (ROOT / "src" / "iclzoo").iterdir():
        if file.is_symlink():
            (package / file.name).write_text(str(file.readlink()))
        elif file.is_file():
            (package / file.name).write_text(file.read_text())
    for part in PARTS:
        (tmp_path / part).symlink_to(ROOT / part)
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'src')!r}); import iclzoo; print(iclzoo.__file__, iclzoo.load('lsa').input_dim)"
    result = python(code, cwd=tmp_path)
    assert result.stdout.split() == [str(package / "__init__.py"), "10"], result.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel and an sdist of this tree, made by the build backend."""
    folder = tmp_path_factory.mktemp("dist")
    code = f"from hatchling import build; print(build.build_wheel({str(folder)!r})); print(build.build_sdist({str(folder)!r}))"
    result = python(code)
    assert result.returncode == 0, result.stderr
    return folder


def test_the_wheel_holds_every_file_once_and_runs(built, tmp_path):
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert len(names) == len(set(names))
    for expected in (
        "zoo/prompt.py",
        "zoo/models/lsa.py",
        "train/run.py",
        "inspect/weights/weight_products.py",
        "py.typed",
        "__main__.py",
    ):
        assert f"iclzoo/{expected}" in names
    assert "iclzoo/checkpoints/lsa/model.safetensors" in names
    assert "iclzoo/checkpoints/lsa/steps/0.safetensors" in names
    assert {name.split("/")[0] for name in names} == {"iclzoo", names[-1].split("/")[0]}
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import iclzoo; print(iclzoo.__file__)"
    code += "; print(iclzoo.load('lsa', step=0).input_dim)"
    result = python(code, cwd=tmp_path)
    assert result.stdout.split() == [str(tmp_path / "iclzoo" / "__init__.py"), "10"], result.stderr


def test_the_sdist_holds_what_the_wheel_is_built_from(built, tmp_path):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    for expected in (
        "zoo/prompt.py",
        "checkpoints/lsa/config.json",
        "src/iclzoo/__init__.py",
        "tests/conftest.py",
        "Makefile",
    ):
        assert (tree / expected).exists()
    (tmp_path / "again").mkdir()
    result = python(f"from hatchling import build; build.build_wheel({str(tmp_path / 'again')!r})", cwd=tree)
    assert result.returncode == 0, result.stderr
    (again,) = (tmp_path / "again").glob("*.whl")
    (wheel,) = built.glob("*.whl")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())
