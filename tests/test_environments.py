"""What people do every day works, and gives the same numbers, whatever they have set: JAX, Python, matplotlib, the terminal, the system."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = [pytest.mark.bits, pytest.mark.slow]

EVERYDAY = Path(__file__).parent / "everyday.py"
STYLE = """
axes.grid: True
grid.color: red
text.usetex: True
text.color: white
xtick.color: white
ytick.color: white
xtick.major.size: 30
axes.labelcolor: white
axes.edgecolor: white
axes.facecolor: black
axes.prop_cycle: cycler('color', ['white'])
figure.facecolor: black
figure.autolayout: True
savefig.transparent: True
savefig.bbox: tight
savefig.dpi: 30
font.size: 31
lines.linewidth: 9
"""
NOWHERE = "/proc/nowhere"  # nobody can write there, not even root

# Settings that do not meet are tried together: each process takes seconds to compile.
SETTINGS = {
    "debugging": {"JAX_DEBUG_NANS": "1", "JAX_DEBUG_INFS": "1"},
    "x64": {"JAX_ENABLE_X64": "1"},
    "generator": {"JAX_DEFAULT_PRNG_IMPL": "rbg", "JAX_THREEFRY_PARTITIONABLE": "0"},
    "strict": {
        "JAX_NUMPY_DTYPE_PROMOTION": "strict",
        "JAX_NUMPY_RANK_PROMOTION": "raise",
        "PYTHONWARNINGS": "error",
    },
    "optimised, ASCII, narrow": {
        "PYTHONOPTIMIZE": "2",
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "COLUMNS": "20",
    },
    "styled, cp1252, homeless": {
        "MATPLOTLIBRC": "{folder}/matplotlibrc",
        "PYTHONIOENCODING": "cp1252",
        "HOME": NOWHERE,
        "TMPDIR": NOWHERE,
    },
}


def everyday(folder: Path, **settings: str) -> dict[str, list[float]]:
    """The numbers of `everyday.py` under some settings."""
    (folder / "matplotlibrc").write_text(STYLE, encoding="utf-8")
    fast = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "MPLBACKEND": "agg"}
    result = subprocess.run(
        [sys.executable, EVERYDAY, folder],
        capture_output=True,
        env=os.environ | fast | {name: value.format(folder=folder) for name, value in settings.items()},
        umask=0o077,
    )
    assert result.returncode == 0, result.stderr.decode(errors="replace")
    assert b"Traceback" not in result.stderr
    return json.loads(result.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    return everyday(folder), folder


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_under_the_settings_of_other_people(settings, plain, tmp_path):
    expected, folder = plain
    actual = everyday(tmp_path, **settings)
    assert actual.keys() == expected.keys()
    for name, values in expected.items():
        # What a key of one's own draws depends on JAX's settings; what a seed decides does not.
        np.testing.assert_allclose(actual[name], values, rtol=0.3 if name == "sampled" else 1e-4, err_msg=name)
    assert np.isfinite(np.concatenate(list(actual.values()))).all()
    for picture in ("lsa.png", "beside.png"):
        assert (tmp_path / picture).read_bytes() == (folder / picture).read_bytes()


def test_nothing_is_written_for_other_people_to_read(plain):
    """Under umask 077."""
    _, folder = plain
    written = [path for path in folder.rglob("*") if path.is_file() and path.name != "matplotlibrc"]
    assert len(written) > 8
    assert not [path.name for path in written if path.stat().st_mode & 0o077]
