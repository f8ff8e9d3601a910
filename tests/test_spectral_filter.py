"""The spectral filter: closed forms of constructed and classical learners, and what is no filter."""

import jax
import jax.random as jr
import numpy as np
import pytest

import iclzoo
from iclzoo.zoo.algorithms.newton_schulz import NewtonSchulz
from iclzoo.zoo.constructions.gd_plus_plus import gd_plus_plus_lsa
from iclzoo.zoo.errors import NotApplicable

TASK = iclzoo.LinearRegression(input_dim=4, num_examples=6)
ZERO = iclzoo.ZeroPredictor()


def gd_plus_plus(lambdas, rates, gammas):
    residual, eigenvalue = 1.0, lambdas
    for rate, gamma in zip(rates, gammas, strict=True):
        residual, eigenvalue = residual * (1 - rate * eigenvalue), eigenvalue * (1 - gamma * eigenvalue) ** 2
    return 1 - residual


CASES = {
    "gd-3": (iclzoo.GradientDescent(2.0, num_steps=3), lambda v: 1 - (1 - v * 2 / 6) ** 3),
    "constructed gd-2": (
        gd_plus_plus_lsa((1.5, 2.5), (0.0, 0.0), num_examples=6, input_dim=4),
        lambda v: 1 - (1 - v * 1.5 / 6) * (1 - v * 2.5 / 6),
    ),
    "constructed gd++-2": (
        gd_plus_plus_lsa((1.5, 2.5), (0.2, 0.1), num_examples=6, input_dim=4),
        lambda v: gd_plus_plus(v, (0.25, 2.5 / 6), (0.2, 0.1)),
    ),
    "ridge": (iclzoo.Ridge(0.3), lambda v: v / (v + 0.3)),
    "least squares": (iclzoo.LeastSquares(), np.ones_like),
    "newton-4": (NewtonSchulz(0.3, num_iterations=4), lambda v: 1 - (1 - 0.3 * v) ** 16),
}


@pytest.mark.parametrize("name", CASES)
def test_the_filter_of_what_is_known_is_its_closed_form(name, x64):
    learner, gain = CASES[name]
    found = iclzoo.spectral_filter(learner, ZERO, TASK, num_tasks=40, key=jr.key(0))
    assert found.own.linear
    assert found.own.unexplained < 1e-9
    np.testing.assert_allclose(found.own.gains, gain(found.eigenvalues), atol=1e-5)
    assert all(estimate.value == 0 for estimate in found.other.gain)


def test_what_is_not_linear_in_the_labels_has_a_mean_with_an_error():
    lstm = iclzoo.create("lstm", input_dim=4, key=jr.key(0))
    found = iclzoo.spectral_filter(lstm, "gd-1", TASK, num_tasks=40, key=jr.key(0))
    assert not found.own.linear
    assert found.own.gains is None
    assert all(estimate.standard_error is not None for estimate in found.own.gain)
    assert found.other.linear


def test_where_there_is_no_filter_it_is_said():
    with pytest.raises(NotApplicable, match="is not linear regression"):
        iclzoo.spectral_filter(ZERO, ZERO, iclzoo.SineRegression(), num_tasks=4)
    with pytest.raises(NotApplicable, match="one output"):
        iclzoo.spectral_filter(ZERO, ZERO, iclzoo.LinearRegression(output_dim=2), num_tasks=4)


def test_newton_iterations_converge_to_least_squares(x64):
    prompts, targets = TASK.sample_batch(jr.key(0), 20)
    largest = max(np.linalg.norm(xs, 2) ** 2 for xs in np.asarray(prompts.xs))
    predictions = jax.vmap(NewtonSchulz(1 / largest, num_iterations=40))(prompts)
    np.testing.assert_allclose(predictions, jax.vmap(iclzoo.LeastSquares())(prompts), atol=1e-6)
    np.testing.assert_allclose(predictions, targets, atol=1e-6)
