"""The whole file in each guide keeps the contract of its kind; what may be relied on exists."""

import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import iclzoo
from iclzoo import testing
from iclzoo.zoo.registry import Registry

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[1] / "docs"
GUIDES = {
    "adding-a-task": (testing.check_task, "flipped_regression"),
    "adding-an-algorithm": (testing.check_algorithm, "heavy-ball-K"),
    "adding-an-instrument": (testing.check_instrument, "labels"),
}


@pytest.mark.parametrize("page", GUIDES)
def test_the_file_of_the_guide_keeps_the_contract(page, forgetting):
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(code.splitlines()) < 60
    exec(compile(code, f"docs/{page}.md", "exec"), {"__name__": "documented"})
    check, name = GUIDES[page]
    check(name)


def test_what_may_be_relied_on_exists():
    text = (DOCS / "stability.md").read_text(encoding="utf-8")
    for name in re.findall(r"`(check_\w+)`", text):
        assert hasattr(testing, name)
    groups = set(re.findall(r"`(iclzoo\.(?:models|tasks|algorithms|instruments))`", text))
    assert groups == {registry.group for registry in Registry.every}
    assert not [name for name in iclzoo.__all__ if not hasattr(iclzoo, name)]
    assert not [plugin for group in groups for plugin in entry_points(group=group)]  # ours need none
