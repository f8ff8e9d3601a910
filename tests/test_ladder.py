"""The Chebyshev ladder of docs/ladder.md: an identity, and GD++ that runs it."""

import jax.random as jr
import numpy as np
import pytest
from numpy.polynomial.chebyshev import Chebyshev

import iclzoo


def ladder(num_steps: int, s: float) -> np.ndarray:
    return 4 / (3 * s) * 9.0 ** np.arange(num_steps)


def closed_form(eigenvalues: np.ndarray, num_steps: int, s: float) -> np.ndarray:
    n, u = 3**num_steps, np.sqrt(eigenvalues / s)
    return (-1) ** num_steps * Chebyshev.basis(n)(u) / (n * u)


@pytest.mark.parametrize("num_steps", [1, 2, 3, 4])
def test_the_residual_is_a_chebyshev_polynomial(num_steps):
    s = 3.7
    eigenvalues = np.linspace(1e-3, s, 2001)
    residual, moved = np.ones_like(eigenvalues), eigenvalues.copy()
    for rate in ladder(num_steps, s):
        residual, moved = residual * (1 - rate * moved), moved * (1 - rate * moved) ** 2
    np.testing.assert_allclose(residual, closed_form(eigenvalues, num_steps, s), atol=1e-12)
    assert np.abs(np.sqrt(eigenvalues) * residual).max() <= np.sqrt(s) / 3**num_steps * (1 + 1e-9)


@pytest.mark.parametrize("num_steps", [1, 2, 3])
def test_gd_plus_plus_runs_it(num_steps, x64):
    task, s = iclzoo.LinearRegression(input_dim=3, num_examples=4), 5.0
    rates = ladder(num_steps, s)
    learner = iclzoo.GradientDescentPlusPlus(4 * rates, rates, num_steps=num_steps)
    found = iclzoo.spectral_filter(learner, iclzoo.ZeroPredictor(), task, num_tasks=20, key=jr.key(0))
    inside = (found.eigenvalues < s) & (found.eigenvalues > 1e-6)
    assert found.own.gains is not None
    expected = 1 - closed_form(found.eigenvalues[inside], num_steps, s)
    np.testing.assert_allclose(found.own.gains[inside], expected, atol=1e-7)
