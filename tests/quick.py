"""The tests of what a change touches, without the slow ones: `make quick`.

They are the test files that changed, and those that import a module that changed, by what git says is not committed, or differs from the
revision that is given.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("zoo", "train", "inspect")


def changed_files(revision: str = "HEAD") -> set[Path]:
    """Every file that differs from a revision, and those that git does not know yet."""
    commands = (["diff", "--name-only", revision], ["ls-files", "--others", "--exclude-standard"])
    listed = (
        subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for command in commands
    )
    return {Path(name) for names in listed for name in names.splitlines()}


def module(file: Path) -> str:
    """The dotted name of a file of the package."""
    parts = file.with_suffix("").parts
    return ".".join(("iclzoo", *parts) if parts[0] in PARTS else parts[1:])


def imported(file: Path) -> set[str]:
    """The modules that a test imports, wherever it does."""
    nodes = ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
    return {
        name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module
        for name in (node.module, *(f"{node.module}.{one.name}" for one in node.names))
    }


def touched_tests(changed: set[Path]) -> list[Path]:
    """The tests that changed, and those that import what changed."""
    modules = {module(file) for file in changed if file.suffix == ".py" and file.parts[0] in (*PARTS, "src")}
    tests = (file.relative_to(ROOT) for file in sorted((ROOT / "tests").glob("test_*.py")))
    return [test for test in tests if test in changed or imported(test) & modules]


if __name__ == "__main__":
    tests = touched_tests(changed_files(*sys.argv[1:2]))
    print(f"{len(tests)} test files are touched: {', '.join(test.stem for test in tests) or 'none'}")
    sys.exit(pytest.main(["--numprocesses", "auto", "-m", "not slow", *map(str, tests)]) if tests else 0)
