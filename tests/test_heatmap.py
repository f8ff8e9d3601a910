"""Pictures, by their numbers: limits, labels, titles, marks."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import SymLogNorm
from matplotlib.figure import Figure

from iclzoo.inspect.weights.heatmap import heatmap
from iclzoo.inspect.weights.heatmap_plot import product_heatmap
from iclzoo.zoo.constructions.gradient_descent_step import gradient_descent_lsa
from iclzoo.zoo.errors import ZooError
from iclzoo.zoo.factory import create
from iclzoo.zoo.storage.checkpoint import load


@pytest.fixture
def model(getkey):
    return create("lsa", input_dim=4, num_heads=3, init_scale=1.0, key=getkey())


def panels(figure):
    return [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]


def test_zero_is_white_and_the_scale_symmetric_and_shared(model):
    figure = heatmap(model)
    meshes = [ax.collections[0] for ax in panels(figure)]
    assert len(meshes) == 6
    assert len({mesh.get_clim() for mesh in meshes}) == 1
    low, high = meshes[0].get_clim()
    assert low == -high
    assert meshes[0].cmap(0.5)[:3] == pytest.approx((1, 1, 1), abs=0.01)
    red, blue = meshes[0].cmap(0.0), meshes[0].cmap(1.0)
    assert red[0] > red[2]
    assert blue[2] > blue[0]


def test_a_matrix_whose_smallest_entry_is_zero(getkey):
    ax = product_heatmap(np.array([[0.0, 1.0], [2.0, 3.0]]), product="W_KQ")
    assert ax.collections[0].get_clim() == (-3.0, 3.0)


def test_labels_say_which_side_is_which(model):
    w_kq, w_pv = panels(heatmap(model, head=1))
    assert [tick.get_text() for tick in w_kq.get_xticklabels()] == ["x1", "x2", "x3", "x4", "y"]
    assert (w_kq.get_ylabel(), w_kq.get_xlabel()) == ("key side", "query side")
    assert (w_pv.get_ylabel(), w_pv.get_xlabel()) == ("output", "input")
    assert "head 1" in w_kq.get_title()
    assert "c = " in w_kq.get_title()


def test_rows_are_the_key_side():
    """An entry at (key x1, query x3) is drawn in the first row, third column."""
    matrix = np.zeros((5, 5))
    matrix[0, 2] = 1.0
    drawn = product_heatmap(matrix, product="W_KQ").collections[0].get_array()
    assert np.asarray(drawn).reshape(5, 5)[0, 2] == 1.0


def test_a_construction_beside_the_model():
    model = create("lsa", input_dim=4, key=jr.key(0))
    figure = heatmap(model, beside=gradient_descent_lsa([1.0], num_examples=5, input_dim=4))
    assert [ax.get_title().split(":")[0] for ax in panels(figure)] == ["model"] * 2 + ["construction"] * 2
    with pytest.raises(ZooError, match="different heads"):
        heatmap(model, beside=create("lsa", input_dim=4, num_heads=2, key=jr.key(0)))


def test_the_same_name_twice_still_draws_both():
    model = create("lsa", input_dim=4, key=jr.key(0))
    assert len(panels(heatmap(model, beside=model, names=("lsa", "lsa")))) == 4


def test_a_head_out_of_range_is_an_index_error(model):
    with pytest.raises(IndexError, match=r"heads 0 … 2, got head 3"):
        heatmap(model, head=3)


def test_all_zero_and_nan_are_drawn_marked_and_warned_of(model):
    zero = jax.tree.map(jnp.zeros_like, model)
    with pytest.warns(UserWarning, match="W_[KP][QV]: all zero"):
        figure = heatmap(zero)
    assert "all zero" in panels(figure)[0].get_title()
    broken = eqx.tree_at(lambda m: m.attention.W_V, model, model.attention.W_V.at[0, 0, 0].set(jnp.nan))
    with pytest.warns(UserWarning, match="W_PV: 5 of 25 cells not finite"):
        figure = heatmap(broken)
    figure.savefig("/dev/null", format="png")


def test_no_picture_shows_leaks_or_restyles(model):
    style = dict(plt.rcParams)
    for _ in range(50):
        assert isinstance(heatmap(model, head=0), Figure)
    assert plt.get_fignums() == []
    assert dict(plt.rcParams) == style


def test_axes_level_draws_on_the_axes_it_is_given():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert product_heatmap(np.eye(3), product="W_PV", ax=right) is right
    assert not left.collections
    with pytest.raises(ZooError, match=r"square matrix, got shape \(2, 3\)"):
        product_heatmap(np.zeros((2, 3)), product="W_PV")
    with pytest.raises(ZooError, match="3 labels are needed"):
        product_heatmap(np.eye(3), product="W_PV", labels=["x1"])


def test_large_matrices_carry_no_values():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not product_heatmap(np.eye(13), product="W_KQ").texts
    assert len(product_heatmap(np.eye(12), product="W_KQ").texts) == 144


def test_panels_of_very_different_size_stay_readable():
    """A linear scale where the panels are alike; a logarithmic one, and said so, where it would leave some of them white."""
    linear, logarithmic = heatmap(load("lsa")), heatmap(load("deep-lsa-5"))
    assert not isinstance(linear.axes[0].collections[0].norm, SymLogNorm)
    norm = logarithmic.axes[0].collections[0].norm
    assert isinstance(norm, SymLogNorm)
    assert norm.vmin == -norm.vmax
    assert 0.6 < norm(1.0) < 0.9
    assert "logarithmic beyond" in logarithmic.axes[-1].get_ylabel()
