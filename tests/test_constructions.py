"""Constructed weights compute what they were constructed for: each law with the algorithm written out beside it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_close, random_prompt, trees_equal
from hypothesis import given, settings
from hypothesis import strategies as st

from iclzoo.zoo.algorithms.gradient_descent import GradientDescent, GradientDescentPlusPlus
from iclzoo.zoo.algorithms.preconditioned import PreconditionedGradientDescent
from iclzoo.zoo.constructions.gd_plus_plus import gd_plus_plus_lsa
from iclzoo.zoo.constructions.gradient_descent_step import gradient_descent_lsa
from iclzoo.zoo.constructions.kernel_regression import kernel_regression_mlp_lsa
from iclzoo.zoo.constructions.label_copying_head import copy_then_descend, copying_transformer
from iclzoo.zoo.constructions.preconditioned import preconditioned_gd_lsa
from iclzoo.zoo.constructions.two_softmax_heads import one_softmax_head, two_softmax_heads
from iclzoo.zoo.factory import create, hyperparameters
from iclzoo.zoo.layers.mlp import MLPEmbedding
from iclzoo.zoo.prompt import Prompt
from iclzoo.zoo.registry import modules
from iclzoo.zoo.storage.checkpoint import load, save
from iclzoo.zoo.trace import trace

N, D = 7, 5


EXAMPLES = {
    module.__name__: module.example for module in modules("iclzoo.zoo.constructions") if hasattr(module, "example")
}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=list(EXAMPLES))
def test_every_construction_equals_its_algorithm(example, getkey, x64):
    """A construction of anybody's is a file of the folder, with an `example`."""
    model, algorithm = example()
    prompts = jax.vmap(lambda key: random_prompt(key, num_examples=N, input_dim=D))(jr.split(getkey(), 5))
    assert_close(jax.vmap(model)(prompts), jax.vmap(algorithm)(prompts))


def test_every_file_of_constructions_has_an_example():
    missing = {m.__name__ for m in modules("iclzoo.zoo.constructions")} - EXAMPLES.keys()
    assert missing == {"iclzoo.zoo.constructions.write"}  # what the others are written with


def dims(output_dim: int) -> dict:
    return {"num_examples": N, "input_dim": D, "output_dim": output_dim}


def explicit_tokens(prompt, step_sizes, W_0):
    """The y entries of every token after each step of gradient descent, by Proposition 1: yⱼ − (W_k − W₀) xⱼ."""
    W = W_0
    for eta in step_sizes:
        W = W - eta / N * (prompt.xs @ W.T - prompt.ys).T @ prompt.xs
        yield prompt.ys - prompt.xs @ (W - W_0).T, -W @ prompt.query


@pytest.mark.parametrize("output_dim", [1, 3])
@pytest.mark.parametrize("num_steps", [1, 2, 3, 5, 11, 20])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_every_token_takes_the_steps_of_gradient_descent(num_steps, output_dim, precision, getkey):
    with jax.enable_x64(precision == "float64"):
        prompt = random_prompt(getkey(), num_examples=N, input_dim=D, output_dim=output_dim)
        W_0 = jr.normal(getkey(), (output_dim, D))
        step_sizes = 0.5 + jr.uniform(getkey(), (num_steps,))
        model = gradient_descent_lsa(step_sizes, W_0=W_0, **dims(output_dim))
        seen = trace(model, prompt)
        for k, (ys, query) in enumerate(explicit_tokens(prompt, step_sizes, W_0), start=1):
            expected = jnp.concatenate([ys, query[None]])
            assert_close(seen.residual[k][:, D:], expected)
            assert_close(seen.residual[k][:, :D], seen.residual[0][:, :D])  # inputs never move
        descent = GradientDescent(step_sizes, num_steps=num_steps, W_0=W_0)
        assert_close(model(prompt), descent(prompt))


@settings(max_examples=25, deadline=None)
@given(eta=st.floats(-3, 3), seed=st.integers(0, 2**31 - 1))
def test_one_step_from_zero_is_averaging(eta, seed):
    """ŷ = (η/N) Σᵢ yᵢ xᵢᵀ x, for any η, the sign included."""
    with jax.enable_x64(True):
        prompt = random_prompt(jr.key(seed), num_examples=N, input_dim=D)
        expected = eta / N * (prompt.ys.T @ prompt.xs) @ prompt.query
        assert_close(gradient_descent_lsa([eta], **dims(1))(prompt), expected)


@pytest.mark.parametrize("output_dim", [1, 3])
@pytest.mark.parametrize("num_steps", [1, 2, 5])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_gd_plus_plus(num_steps, output_dim, precision, getkey):
    with jax.enable_x64(precision == "float64"):
        prompt = random_prompt(getkey(), num_examples=N, input_dim=D, output_dim=output_dim, scale=0.3)
        step_sizes, gammas = 1 + jr.uniform(getkey(), (num_steps,)), 0.1 * jr.uniform(getkey(), (num_steps,))
        model = gd_plus_plus_lsa(step_sizes, gammas, **dims(output_dim))
        assert_close(model(prompt), GradientDescentPlusPlus(step_sizes, gammas, num_steps=num_steps)(prompt))


def test_gd_plus_plus_maps_the_spectrum_of_the_hessian(getkey, x64):
    """λ ↦ λ(1 − γλ)²: the inputs a GD++ layer leaves behind have this Hessian spectrum."""
    prompt, gamma = random_prompt(getkey(), num_examples=N, input_dim=D), 0.07
    xs = trace(gd_plus_plus_lsa([1.0], [gamma], **dims(1)), prompt).residual[1][:N, :D]
    before = np.linalg.eigvalsh(prompt.xs.T @ prompt.xs)
    after = np.linalg.eigvalsh(xs.T @ xs)
    assert_close(after, np.sort(before * (1 - gamma * before) ** 2), factor=1e2, why="eigvalsh of a product")


def test_gd_plus_plus_without_correction_is_gradient_descent(getkey, x64):
    prompt = random_prompt(getkey(), num_examples=N, input_dim=D)
    plain = gradient_descent_lsa([1.1, 0.7, 0.3], **dims(1))
    assert_close(gd_plus_plus_lsa([1.1, 0.7, 0.3], [0.0, 0.0, 0.0], **dims(1))(prompt), plain(prompt))


def test_step_sizes_and_gammas_must_match():
    with pytest.raises(ValueError, match=r"one each a step, got shapes \(2,\) and \(1,\)"):
        gd_plus_plus_lsa([1.0, 2.0], [0.1], **dims(1))


@pytest.mark.parametrize("output_dim", [1, 2])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_kernel_regression(output_dim, precision, getkey):
    """One step of gradient descent on the features, which is a kernel smoother."""
    with jax.enable_x64(precision == "float64"):
        prompt = random_prompt(getkey(), num_examples=N, input_dim=D, output_dim=output_dim)
        m = MLPEmbedding(in_dim=D, embed_dim=11, hidden_dim=13, init_scale=1.0, key=getkey())
        m = jax.tree.map(lambda w: w + 0.1 * jr.normal(getkey(), w.shape), m)  # biases too
        model = kernel_regression_mlp_lsa(m, 1.7, num_examples=N, output_dim=output_dim)
        features, query = jax.vmap(m)(prompt.xs), m(prompt.query)
        step = GradientDescent(1.7)(Prompt(xs=features, ys=prompt.ys, query=query))
        assert_close(model(prompt), step)
        assert_close(model(prompt), 1.7 / N * prompt.ys.T @ (features @ query))


@pytest.mark.parametrize("sizes", [(5, 1), (3, 3), (2, 3)], ids=str)
def test_linear_copying_is_exact(sizes, getkey, x64):
    """The token of xⱼ becomes (xⱼ, yⱼ), its position gone; the labels' tokens stay as they were."""
    input_dim, output_dim = sizes
    prompt = random_prompt(getkey(), num_examples=N, input_dim=input_dim, output_dim=output_dim)
    model = copying_transformer(num_examples=N, input_dim=input_dim, output_dim=output_dim)
    before, after = trace(model, prompt).residual
    width = max(input_dim, output_dim)
    assert jnp.array_equal(after[0:-1:2, :input_dim], prompt.xs)
    assert jnp.array_equal(after[0:-1:2, -output_dim:], prompt.ys)
    assert not after[0:-1:2, width:-output_dim].any()
    assert jnp.array_equal(after[1::2], before[1::2])
    assert jnp.array_equal(after[-1], before[-1])


def test_softmax_copying_follows_the_weight_of_the_successor(getkey, x64):
    """The successor gets eˢ/(eˢ + 2N − 1), and what it lacks is the error."""
    prompt = random_prompt(getkey(), num_examples=N, input_dim=D)
    errors = []
    for scale in (1.0, 5.0, 9.0, 13.0):
        model = copying_transformer(num_examples=N, input_dim=D, softmax_scale=scale)
        seen = trace(model, prompt)
        weight = np.exp(scale) / (np.exp(scale) + 2 * N - 1)
        j = np.arange(0, 2 * N, 2)
        assert_close(seen.pattern[0][0, j, j + 1], np.full(N, weight))
        errors.append(np.abs(seen.residual[1][j, -1] - prompt.ys[:, 0]).max() / (1 - weight))
    # the copied label is weight·yⱼ + (1 − weight)·(mean of the others): the error per missing weight does not depend on s
    assert_close(np.array(errors), np.full(4, errors[0]), factor=1e3, why="1 − weight cancels seven digits")


def test_the_paper_s_weight_is_that_of_scale_one_with_the_query_among_the_tokens(getkey, x64):
    model = copying_transformer(num_examples=N, input_dim=D, softmax_scale=1.0)
    with_query = create("copying_transformer", key=getkey(), **hyperparameters(model) | {"query_in_context": True})
    with_query = eqx.tree_at(lambda m: m.layers, with_query, model.layers)
    pattern = trace(with_query, random_prompt(getkey(), num_examples=N, input_dim=D)).pattern[0]
    assert_close(pattern[0, 0, 1], np.float64(np.e / (np.e + 2 * N)))


@pytest.mark.parametrize("output_dim", [1, 2])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_copy_then_descend(output_dim, precision, getkey):
    """Gradient descent on the merged tokens."""
    with jax.enable_x64(precision == "float64"):
        prompt = random_prompt(getkey(), num_examples=N, input_dim=D, output_dim=output_dim)
        model = copy_then_descend(1.3, **dims(output_dim))
        assert_close(model(prompt), GradientDescent(1.3)(prompt))


def slope(scales, errors) -> float:
    return np.polyfit(np.log(scales), np.log(errors), 1)[0]


def test_two_softmax_heads_approach_a_step_on_centred_examples(getkey, x64):
    """The remainder falls as κ², measured as a slope; one head keeps the offset (η/κ) ȳ, and errs by κ beyond it."""
    prompt, eta = random_prompt(getkey(), num_examples=N, input_dim=D), 1.3
    centred = Prompt(xs=prompt.xs - prompt.xs.mean(0, keepdims=True), ys=prompt.ys, query=prompt.query)
    step, mean = GradientDescent(eta)(centred), prompt.ys.mean(axis=0)
    scales = np.array([0.4, 0.2, 0.1, 0.05])
    two, one, kept = [], [], []
    for scale in scales:
        two.append(np.abs(two_softmax_heads(eta, scale, input_dim=D)(prompt) - step).max())
        single = one_softmax_head(eta, scale, input_dim=D)(prompt)
        one.append(np.abs(single - eta / scale * mean - step).max())
        kept.append(np.abs(single - step).max())
    assert slope(scales, two) == pytest.approx(2.0, abs=0.1)
    assert slope(scales, one) == pytest.approx(1.0, abs=0.15)
    assert slope(scales, kept) == pytest.approx(-1.0, abs=0.3)


def test_two_softmax_heads_do_not_reach_plain_gradient_descent(getkey, x64):
    """What stays is (η/N) Σ yᵢ s̄, of the order of the step: the source's "∝ PV Kᵀq" leaves it out."""
    prompt, eta = random_prompt(getkey(), num_examples=N, input_dim=D), 1.3
    left = GradientDescent(eta)(prompt) - two_softmax_heads(eta, 1e-3, input_dim=D)(prompt)
    assert_close(left, eta * prompt.ys.mean(0) * (prompt.xs.mean(0) @ prompt.query), factor=1e5, why="remainder κ²")


@pytest.mark.parametrize("num_steps", [1, 3])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_preconditioned_gradient_descent(num_steps, precision, getkey):
    """Preconditioners that are not symmetric, too."""
    with jax.enable_x64(precision == "float64"):
        prompt = random_prompt(getkey(), num_examples=N, input_dim=D, output_dim=2)
        P = jr.normal(getkey(), (num_steps, D, D))
        model = preconditioned_gd_lsa(P, num_examples=N, output_dim=2)
        assert_close(model(prompt), PreconditionedGradientDescent(P, num_steps=num_steps)(prompt))
        if num_steps == 1:
            assert_close(model(prompt), prompt.ys.T @ prompt.xs @ P[0] @ prompt.query / N)


def test_every_construction_is_saved_and_comes_back(getkey, tmp_path):
    m = MLPEmbedding(in_dim=D, embed_dim=11, hidden_dim=13, init_scale=1.0, key=getkey())
    models = [
        gradient_descent_lsa([1.0], W_0=jnp.ones((1, D)), **dims(1)),
        gd_plus_plus_lsa([1.0, 2.0], [0.1, 0.2], **dims(1)),
        kernel_regression_mlp_lsa(m, 1.0, num_examples=N),
        copying_transformer(num_examples=N, input_dim=D, softmax_scale=5.0),
        two_softmax_heads(1.0, 0.1, input_dim=D),
        preconditioned_gd_lsa(jnp.eye(D)[None], num_examples=N),
        copy_then_descend(1.0, **dims(1)),
    ]
    for index, model in enumerate(models):
        assert trees_equal(load(save(tmp_path / str(index), model)), model)
