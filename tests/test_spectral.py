"""Gradient descent in the singular basis of a prompt is gradient descent on the prompt."""

import jax.numpy as jnp
import pytest
from helpers import assert_close, random_prompt

from iclzoo.zoo.algorithms.gradient_descent import GradientDescent, GradientDescentPlusPlus
from iclzoo.zoo.spectrum import spectrum


@pytest.mark.parametrize("num_examples", [3, 5, 11])
@pytest.mark.parametrize(
    "algorithm",
    [
        lambda: GradientDescent(0.31, num_steps=7),
        lambda: GradientDescent(jnp.array([0.3, 1.1, 0.2]), num_steps=3),
        lambda: GradientDescentPlusPlus(0.5, 0.07, num_steps=3),
        lambda: GradientDescentPlusPlus(jnp.array([0.3, 0.9]), jnp.array([0.2, 0.4]), num_steps=2),
    ],
)
def test_the_spectrum_is_all_that_descent_sees(x64, getkey, algorithm, num_examples):
    prompt = random_prompt(getkey(), num_examples=num_examples, input_dim=5, output_dim=2)
    assert_close(algorithm().from_spectrum(spectrum(prompt)), algorithm()(prompt))
