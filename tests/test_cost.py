"""What a forward pass costs, counted by the compiler: linear in the context, and no memory but for the prompt."""

import jax
import jax.random as jr
import numpy as np
import pytest
from helpers import random_prompt

from iclzoo.zoo.factory import create

LENGTHS = [10**3, 10**4, 10**5, 10**6]


def compiled(name, num_examples, **hyperparameters):
    model = create(name, key=jr.key(0), **hyperparameters)
    prompt = jax.eval_shape(lambda key: random_prompt(key, num_examples=num_examples, input_dim=10), jr.key(0))
    return jax.jit(lambda m, p: m(p)).lower(model, prompt).compile()


@pytest.mark.parametrize("name", ["lsa", "recurrent_lsa", "deep_lsa", "merged_lsa"])
def test_arithmetic_grows_linearly_with_the_context(name):
    flops = [compiled(name, length).cost_analysis()["flops"] for length in LENGTHS]
    slope = np.polyfit(np.log(LENGTHS), np.log(flops), 1)[0]
    assert slope == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("name", ["lsa", "recurrent_lsa", "deep_lsa"])
def test_memory_beyond_the_prompt(name):
    """A few copies of the tokens (the prompt itself, put together), and never N × N."""
    for length in LENGTHS:
        tokens = 4 * (length + 1) * 11
        assert compiled(name, length).memory_analysis().temp_size_in_bytes < 5 * tokens + 100_000


def test_the_last_layer_updates_only_the_query():
    """A second layer costs a whole pass over the tokens more; a first one does not."""
    one, two = (compiled("deep_lsa", 10**4, num_layers=k).cost_analysis()["flops"] for k in (1, 2))
    assert two > 4 * one
