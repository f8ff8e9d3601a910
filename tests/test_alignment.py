"""How alike two learners are: on learners whose difference is known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_close, random_prompt

from iclzoo.inspect.behaviour.alignment import alignment, sensitivity
from iclzoo.inspect.estimates.estimate import Estimate
from iclzoo.train.losses import half_mse, over_tasks, squared_error
from iclzoo.train.tasks.regression import LinearRegression
from iclzoo.zoo.algorithms.gradient_descent import GradientDescent
from iclzoo.zoo.algorithms.least_squares import ZeroPredictor
from iclzoo.zoo.constructions.gradient_descent_step import gradient_descent_lsa

TASK = LinearRegression(input_dim=3, num_examples=5, output_dim=2)


class Scaled(eqx.Module):
    """c times one step of gradient descent."""

    c: float

    def __call__(self, prompt):
        return self.c * GradientDescent(1.3)(prompt)


def test_a_learner_is_aligned_with_itself():
    measured = alignment(Scaled(1.0), Scaled(1.0), TASK, num_tasks=101, key=jr.key(0))
    assert (
        measured.prediction_distance.value == measured.prediction_mse.value == measured.sensitivity_distance.value == 0
    )
    assert measured.sensitivity_cosine.value == pytest.approx(1.0, abs=1e-6)
    assert (measured.num_undefined, measured.num_not_finite) == (0, 0)


def test_the_measures_are_what_they_say():
    """Against −½ of itself: distances are 3/2 of the norms, the squares 9/4, the cosine −1."""
    key = jr.key(3)
    prompts, _ = TASK.sample_batch(key, 101)
    learner = Scaled(1.0)
    predictions = jax.vmap(learner)(prompts)
    slopes = jax.vmap(lambda p: sensitivity(learner, p))(prompts)
    measured = alignment(learner, Scaled(-0.5), TASK, num_tasks=101, key=key)
    norms = np.linalg.norm(predictions, axis=1)
    assert measured.prediction_distance.value == pytest.approx(1.5 * norms.mean(), rel=1e-5)
    assert measured.prediction_mse.value == pytest.approx(2.25 * (norms**2).mean(), rel=1e-5)
    assert measured.sensitivity_distance.value == pytest.approx(
        1.5 * np.linalg.norm(slopes, axis=(1, 2)).mean(), rel=1e-5
    )
    assert measured.sensitivity_cosine.value == pytest.approx(-1.0, abs=1e-6)
    assert measured.prediction_distance.standard_error == pytest.approx(1.5 * norms.std(ddof=1) / 101**0.5, rel=1e-4)


def test_the_sensitivity_of_gradient_descent_is_its_weights(getkey):
    prompt = random_prompt(getkey(), num_examples=5, output_dim=2)
    descent = GradientDescent(1.3, num_steps=2)
    assert_close(sensitivity(descent, prompt), descent.weights(prompt))
    model = gradient_descent_lsa([1.3, 1.3], num_examples=5, input_dim=3, output_dim=2)
    assert_close(sensitivity(model, prompt), descent.weights(prompt))


def test_an_undefined_cosine_is_counted_not_invented():
    measured = alignment(Scaled(1.0), ZeroPredictor(), TASK, num_tasks=11, key=jr.key(0))
    assert measured.sensitivity_cosine == Estimate(None, None)
    assert measured.num_undefined == 11
    assert measured.prediction_distance.value > 0


def test_outputs_that_are_not_finite_are_counted_and_left_out():
    class Sometimes(eqx.Module):
        def __call__(self, prompt):
            return jnp.where(prompt.query[0] > 0, jnp.nan, 1.0) * Scaled(1.0)(prompt)

    measured = alignment(Sometimes(), Scaled(2.0), TASK, num_tasks=101, key=jr.key(0))
    assert 0 < measured.num_not_finite < 101
    assert np.isfinite(measured.prediction_distance.value)


def test_tiny_sensitivities_have_a_cosine():
    """Norms whose squares underflow in float32."""
    measured = alignment(Scaled(1e-30), Scaled(1e-30), TASK, num_tasks=11, key=jr.key(0))
    assert measured.sensitivity_cosine.value == pytest.approx(1.0, abs=1e-5)


def test_one_task_has_no_standard_error():
    assert (
        alignment(Scaled(1.0), Scaled(2.0), TASK, num_tasks=1, key=jr.key(0)).prediction_distance.standard_error is None
    )


def test_chunks_change_nothing_and_more_tasks_begin_alike():
    learner, key = Scaled(1.0), jr.key(7)
    whole = over_tasks(squared_error, learner, TASK, num_tasks=101, key=key)
    small_chunks = over_tasks(squared_error, learner, TASK, num_tasks=101, key=key, chunk=17)
    assert np.allclose(small_chunks, whole, rtol=1e-5, atol=1e-9)  # another vectorisation rounds otherwise
    fewer = over_tasks(squared_error, learner, TASK, num_tasks=53, key=key)
    assert np.allclose(fewer, whole[:53], rtol=1e-5, atol=1e-9)
    prompts, targets = TASK.sample_batch(key, 101)
    assert half_mse(learner, prompts, targets) == pytest.approx(whole.mean() / 2, rel=1e-5)
