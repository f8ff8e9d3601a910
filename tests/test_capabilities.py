"""What a thing can do is asked of it: no instrument and no trainer looks at the class of anything but plain types and interfaces."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLAIN = {
    "bool",
    "int",
    "float",
    "complex",
    "str",
    "bytes",
    "list",
    "tuple",
    "dict",
    "set",
    "range",
    "type",
    "Path",
    "Mapping",
    "PathLike",
    "Estimate",
    "Axes",
    "matplotlib.figure.Figure",
    "matplotlib.figure.SubFigure",
}
PLAIN |= {"jax.Array", "np.ndarray", "np.generic", "np.floating", "np.integer", "jax.ShapeDtypeStruct", "ZooError"}
INTERFACES = {"Task", "Recipe", "TokenModel", "ConcatenatingModel", "SelfAttention", "SoftmaxLayer", "Prompt"}
INTERFACES |= {"Checkpoint", "Instrument", "Measurement", "Supplied"}
ALLOWED = set()
FILES = sorted(file for room in ("train", "inspect") for file in (ROOT / room).rglob("*.py"))


def asks(tree: ast.AST) -> list[ast.Call]:
    """Every call of isinstance or issubclass."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in ("isinstance", "issubclass")]


def classes(node: ast.expr) -> list[str]:
    """The classes of A, A | B or (A, B)."""
    if isinstance(node, ast.BinOp):
        return classes(node.left) + classes(node.right)
    if isinstance(node, ast.Tuple):
        return [name for entry in node.elts for name in classes(entry)]
    return [ast.unparse(node)]


def questions(file: Path) -> set[str]:
    """The classes a file asks for, beside plain types and interfaces."""
    asked = {name for call in asks(ast.parse(file.read_text(encoding="utf-8"))) for name in classes(call.args[1])}
    return {f"{file.relative_to(ROOT).as_posix()}: {name}" for name in asked - PLAIN - INTERFACES}


def test_only_interfaces_and_plain_types_are_asked_for():
    of_models = {file for file in FILES if file.parent.name == "results"}  # results may name particular models
    found = {question for file in FILES if file not in of_models for question in questions(file)}
    assert found <= ALLOWED


@pytest.mark.parametrize("room", ["zoo", "train", "inspect"])
def test_no_assertion_decides_by_class(room):
    for file in (ROOT / room).rglob("*.py"):
        path = file.relative_to(ROOT).as_posix()
        asserts = [
            node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Assert)
        ]
        assert not [node for node in asserts if asks(node)], path


def test_a_class_would_be_found():
    tree = ast.parse("isinstance(model, LSA | str)\nassert issubclass(cls, (Mine, Task))")
    assert [name for call in asks(tree) for name in classes(call.args[1])] == ["LSA", "str", "Mine", "Task"]
