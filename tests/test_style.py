"""Pictures look alike whatever the user's settings of matplotlib, and these are left as they were."""

import io
import threading

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure as AnyFigure

from iclzoo.inspect.activations.attention_patterns import LayerPatterns, Patterns
from iclzoo.inspect.activations.attention_patterns_plot import attention_map, patterns_figure
from iclzoo.inspect.pictures.style import drawn, label, our_style
from iclzoo.inspect.weights.heatmap import heatmap
from iclzoo.inspect.weights.heatmap_plot import product_heatmap
from iclzoo.inspect.weights.spectrum import spectra
from iclzoo.inspect.weights.spectrum_plot import spectrum_curves
from iclzoo.zoo.errors import ZooError
from iclzoo.zoo.storage.checkpoint import load

HOSTILE = {
    "axes.grid": True,
    "text.usetex": True,
    "text.color": "white",
    "xtick.color": "white",
    "xtick.major.size": 30,
    "axes.facecolor": "black",
    "figure.facecolor": "black",
    "axes.prop_cycle": mpl.cycler(color=["white"]),
    "savefig.transparent": True,
    "savefig.bbox": "tight",
    "savefig.dpi": 20,
    "font.size": 31,
    "lines.linewidth": 9,
}


def saved(figure) -> bytes:
    data = io.BytesIO()
    figure.savefig(data, format="png")
    return data.getvalue()


@pytest.mark.parametrize(
    "draw",
    [lambda: heatmap(load("lsa")), lambda: spectrum_curves(spectra(load("lsa"))).figure],
    ids=["heatmap", "spectrum"],
)
def test_the_users_settings_leave_no_trace(draw):
    """Neither when a figure is made, nor when the user saves it, which is when matplotlib makes its ticks."""
    expected = saved(draw())
    with mpl.rc_context(HOSTILE):
        before = dict(mpl.rcParams)
        assert saved(draw()) == expected
        assert dict(mpl.rcParams) == before


def test_a_heatmap_on_the_users_own_axes_has_no_grid_over_its_numbers():
    with mpl.rc_context({"axes.grid": True}):
        ax = product_heatmap(np.eye(3), product="W_KQ", ax=AnyFigure().subplots())
        assert not any(line.get_visible() for line in ax.get_xgridlines() + ax.get_ygridlines())


def test_threads_that_draw_leave_the_settings_alone():
    with mpl.rc_context({"font.size": 31}):

        def draw():
            for _ in range(20):
                with our_style():
                    assert mpl.rcParams["font.size"] == 10

        threads = [threading.Thread(target=draw) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert mpl.rcParams["font.size"] == 31


def test_names_are_drawn_letter_by_letter():
    figure = heatmap(load("lsa"), beside=load("lsa"), names=("a$b$ \\frac", "x$_[/]\x1b[31m"))
    assert label("x$_[/]\x1b[31m") == r"x\$_[/]\x1b[31m"
    assert figure.axes[0].get_title().startswith(r"a\$b\$ \frac: ")
    assert drawn(figure, "svg", dpi=50)  # or the parser of formulas would have complained


def test_one_model_needs_no_name_in_its_titles():
    titles = [ax.get_title() for ax in heatmap(load("lsa")).axes[:2]]
    assert titles[0].startswith("$W_{KQ}$")
    assert titles[1].startswith("$W_{PV}$")
    assert heatmap(load("deep-lsa-2")).axes[0].get_title().startswith("layers.0: $W_{KQ}$")


@pytest.fixture
def shared_and_linear():
    shares = np.full((1, 3, 2), 0.5)
    linear = np.array([[[9.0, -9.0], [1.0, 0.0], [0.0, -1.0]]])
    layers = (LayerPatterns("layer 1", shares, shares, shares), LayerPatterns("layer 2", linear, linear, abs(linear)))
    return Patterns(layers, ("1", "2", "query"), ("1", "2"), num_tasks=1_000_000, num_not_finite=0)


@pytest.mark.parametrize(
    ("quantity", "scales"),
    [("pattern", [(0, 0.5), (-9, 9)]), ("pattern_size", [(0, 0.5), (0, 9)]), ("scores", [(-9, 9), (-9, 9)])],
)
def test_shares_and_linear_patterns_have_scales_of_their_own(shared_and_linear, quantity, scales):
    figure = patterns_figure(shared_and_linear, quantity=quantity)
    assert [ax.collections[0].get_clim() for ax in figure.axes[:2]] == scales
    bars = figure.axes[2:]
    assert len(bars) == len(set(scales))
    drawn(figure, "png", dpi=100)
    width, height = figure.bbox.size
    for bar in bars:
        box = bar.yaxis.label.get_window_extent()
        assert 0 <= box.y0 < box.y1 <= height
        assert box.x1 <= width


def test_names_that_a_picture_does_not_know(shared_and_linear):
    with pytest.raises(ZooError, match="one of 'W_KQ', 'W_PV', got 'W_QK'; did you mean"):
        product_heatmap(np.eye(3), product="W_QK")
    for draw in (attention_map, patterns_figure):
        with pytest.raises(ZooError, match="quantity must be one of"):
            draw(shared_and_linear, quantity="patterns")
