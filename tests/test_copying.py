"""The copying phase: derivative norms whose values are known."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from iclzoo.inspect.activations.token_jacobians import (
    copying_path,
    derivative_norms,
    official_derivative_norms,
    token_map,
)
from iclzoo.inspect.activations.token_jacobians_plot import copying_curves, copying_figure
from iclzoo.train.tasks.regression import LinearRegression
from iclzoo.zoo.constructions.label_copying_head import copying_transformer
from iclzoo.zoo.errors import ZooError
from iclzoo.zoo.factory import create

N, D = 3, 5
TASK = LinearRegression(input_dim=D, num_examples=N)
KEY = jr.key(7)


def test_a_layer_that_does_nothing_moves_with_its_own_token_alone():
    """∂t/∂e is the identity of the residual stream: √embed_dim on the diagonal, zero elsewhere."""
    idle = create("copying_transformer", input_dim=D, init_scale=1e-12, key=KEY)
    norms = derivative_norms(idle, TASK, num_tasks=11, key=KEY)
    assert norms.own.value == pytest.approx((D + 10) ** 0.5, rel=1e-5)
    assert norms.next.value == pytest.approx(0.0, abs=1e-5)
    assert norms.other.value == pytest.approx(0.0, abs=1e-5)


def test_the_official_definition_gives_the_square_root_of_ten_at_the_start():
    """The line above 3 in the published figure is the residual stream."""
    task = LinearRegression()
    fresh = create("copying_transformer", key=KEY)
    assert official_derivative_norms(fresh, task, num_tasks=64, key=KEY)["own"] == pytest.approx(10**0.5, rel=0.01)


def test_linear_copying_has_a_known_derivative(getkey):
    """t(e_2j) = e_2j + V e_2j+1 (p_2j+1ᵀ S p_2j): by the next token 1 through its label, and V e (Sp)ᵀ through its position."""
    model = copying_transformer(num_examples=N, input_dim=D)
    prompt, target = TASK.sample(getkey())
    tokens = np.asarray(model.embed(prompt), np.float64)
    K, V = (np.asarray(w[0], np.float64) for w in (model.layers[0].W_KQ, model.layers[0].W_PV))
    j = 2
    by_next = V * (tokens[j + 1] @ K @ tokens[j]) + np.outer(V @ tokens[j + 1], K @ tokens[j])
    from iclzoo.inspect.activations.token_jacobians import _token_map

    measured = np.asarray(_token_map(model, prompt, target))
    assert measured[j, j + 1] == pytest.approx(np.linalg.norm(by_next), rel=1e-5)
    by_other = np.outer(V @ tokens[j + 3], K @ tokens[j])
    assert measured[j, j + 3] == pytest.approx(np.linalg.norm(by_other), rel=1e-5)


def test_other_tokens_are_neither_own_nor_next():
    tokens = token_map(copying_transformer(num_examples=N, input_dim=D), TASK, num_tasks=11, key=KEY)
    norms = derivative_norms(copying_transformer(num_examples=N, input_dim=D), TASK, num_tasks=11, key=KEY)
    rest = [tokens.norms[j, i] for j in range(0, 2 * N, 2) for i in range(2 * N + 1) if i not in (j, j + 1)]
    assert norms.other.value == pytest.approx(np.mean(rest))
    assert tokens.labels == ("x1", "y1", "x2", "y2", "x3", "y3", "query")


def test_pictures(getkey):
    models = {
        step: create("copying_transformer", input_dim=D, init_scale=0.1 * (1 + step), key=KEY) for step in (0, 5, 10)
    }
    path = copying_path(models, TASK, num_tasks=7, key=KEY)
    assert path.steps == (0, 5, 10)
    ax = copying_curves(path)
    assert [text.get_text() for text in ax.get_legend().get_texts()][-1] == "half-MSE"
    figure = copying_figure(path, token_map(models[10], TASK, num_tasks=7, key=KEY))
    figure.savefig("/dev/null", format="png")


def test_broken_weights_and_one_example_survive():
    broken = create("copying_transformer", input_dim=D, key=KEY)
    broken = jax.tree.map(lambda w: w * jnp.nan, broken)
    path = copying_path({0: broken}, LinearRegression(input_dim=D, num_examples=1), num_tasks=3, key=KEY)
    copying_curves(path)


def test_concatenated_tokens_have_nothing_to_copy():
    with pytest.raises(ZooError, match="x and y in one token"):
        derivative_norms(create("lsa", input_dim=D, key=KEY), TASK, key=KEY)
