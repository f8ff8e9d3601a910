"""Interventions: laws of runs with changed parts, and what each head adds to a prediction."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_close, random_prompt

import iclzoo
from iclzoo.inspect.activations.ablations import ablations
from iclzoo.zoo.constructions.gd_plus_plus import gd_plus_plus_lsa
from iclzoo.zoo.errors import ArgumentError, HeadError, NotApplicable, ShapeError
from iclzoo.zoo.interventions import Block, HeadOutput, Pattern, Residual, contributions, heads_of, run_with, value_at

MODELS = {
    "lsa": {"num_heads": 2},
    "deep_lsa": {"num_layers": 3, "num_heads": 2},
    "recurrent_lsa": {"num_loops": 3},
    "softmax_attention": {"num_heads": 2},
    "copying_transformer": {},
    "transformer": {"num_layers": 2, "num_heads": 2, "embed_dim": 6, "head_dim": 3},
}


def small(name):
    taken = {"init_scale": 1.0} if name != "transformer" else {}
    return iclzoo.create(name, input_dim=3, key=jr.key(1), **MODELS[name], **taken)


def sites_of(model):
    residual = [Residual(k) for k in range(len(model.stack) + 1)] + [Residual(0, 2)]
    blocks = [Block(0, "W_PV", "x", "x")] if model.joint else []
    return [*heads_of(model), *residual, Pattern(0, 0), *blocks]


@pytest.mark.parametrize("name", MODELS)
def test_a_run_patched_with_itself_is_the_same_bit_for_bit(name):
    model, prompt = small(name), random_prompt(jr.key(0))
    sites = sites_of(model)
    run = run_with(model, prompt, record=sites)
    again = run_with(model, prompt, dict(zip(sites, run.values, strict=True)), record=sites)
    assert np.array_equal(run.prediction, model(prompt))
    assert np.array_equal(again.prediction, run.prediction)
    assert all(np.array_equal(a, b) for a, b in zip(run.values, again.values, strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_contributions_sum_to_the_prediction(name):
    model, prompt = small(name), random_prompt(jr.key(0))
    parts = contributions(model, prompt)
    assert_close(parts.prediction, model(prompt))
    if name not in ("transformer",):
        assert abs(parts.rest).max() < 1e-5 * max(1, abs(parts.heads).max())


def test_in_one_linear_layer_an_ablated_head_is_its_contribution():
    model, prompt = small("lsa"), random_prompt(jr.key(0))
    parts = contributions(model, prompt)
    for head in range(2):
        without = run_with(model, prompt, {HeadOutput(0, head): jnp.zeros_like}).prediction
        assert_close(model(prompt) - without, parts.heads[0, head].sum(axis=0))


def test_gd_plus_plus_that_leaves_the_inputs_is_gradient_descent():
    """Zeroing the rows of x in W_PV of constructed GD++ gives as many steps of GD, exactly; of `deep-lsa-2`, nearly."""
    etas, gammas = (1.3, 2.1), (0.05, 0.02)
    model = gd_plus_plus_lsa(etas, gammas, num_examples=7, input_dim=3)
    steps = iclzoo.GradientDescent(jnp.asarray(etas), num_steps=2)
    no_input_update = {Block(k, "W_PV", "x", "x"): jnp.zeros_like for k in range(2)}
    for seed in range(3):
        prompt = random_prompt(jr.key(seed))
        assert_close(run_with(model, prompt, no_input_update).prediction, steps(prompt))
    trained, task = iclzoo.load("deep-lsa-2"), iclzoo.LinearRegression()
    heads = iclzoo.weights(trained).heads
    etas = [-10 * np.diag(h.W_PV)[10:].mean() * np.diag(h.W_KQ)[:10].mean() for h in heads if h.model == 0]
    prompts, _ = task.sample_batch(jr.key(0), 500)
    changed = jax.vmap(lambda p: run_with(trained, p, no_input_update).prediction)(prompts)
    descent = jax.vmap(iclzoo.GradientDescent(jnp.asarray(etas, jnp.float32), num_steps=2))(prompts)
    whole = jax.vmap(trained)(prompts)
    assert float(((changed - descent) ** 2).mean()) < 0.02 * float(((whole - descent) ** 2).mean())


def test_interventions_work_under_jit_vmap_and_grad():
    model, site = small("deep_lsa"), HeadOutput(1, 1)
    prompts = jax.vmap(random_prompt)(jr.split(jr.key(0), 5))
    mean = jax.vmap(lambda prompt: value_at(model, prompt, site))(prompts).mean(axis=0)

    @jax.jit
    def ablated(prompts, mean):
        return jax.vmap(lambda prompt: run_with(model, prompt, {site: mean}).prediction)(prompts)

    one = jax.tree.map(lambda leaf: leaf[0], prompts)
    assert_close(ablated(prompts, mean)[0], run_with(model, one, {site: mean}).prediction)
    gradient = jax.grad(lambda mean: ablated(prompts, mean).sum())(mean)
    assert gradient.shape == mean.shape
    assert float(abs(gradient).max()) > 0


def test_what_cannot_be_changed_is_said():
    model, prompt = small("deep_lsa"), random_prompt(jr.key(0))
    with pytest.raises(HeadError, match="layers 0 … 2 for HeadOutput, got 3"):
        run_with(model, prompt, record=[HeadOutput(3, 0)])
    with pytest.raises(HeadError, match="heads 0 … 1, got head 2"):
        run_with(model, prompt, record=[Pattern(0, 2)])
    with pytest.raises(ShapeError, match=r"has the shape \(8, 4\)"):
        run_with(model, prompt, {Residual(0): jnp.zeros((2, 2))})
    with pytest.raises(ArgumentError, match="a site is a Residual"):
        run_with(model, prompt, {"head 3": jnp.zeros_like})
    with pytest.raises(NotApplicable, match="no entries of 'x'"):
        run_with(small("transformer"), prompt, record=[Block(0, "W_PV", "x", "x")])


def test_ablations_of_one_layer_leave_predicting_zero():
    task = iclzoo.LinearRegression(input_dim=3, num_examples=7)
    measured = ablations(small("lsa"), task, num_tasks=50, key=jr.key(0))
    whole = next(one for one in measured.ablations if one.heads == (0, 1) and one.kind == "zero")
    _, targets = task.sample_batch(jr.key(0), 50)
    zero = ablations(gd_plus_plus_lsa((0.0,), (0.0,), num_examples=7, input_dim=3), task, num_tasks=50, key=jr.key(0))
    assert whole.half_mse.value == pytest.approx(zero.intact.value, rel=1e-5)
    assert targets.shape == (50, 1)
