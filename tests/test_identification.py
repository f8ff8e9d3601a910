"""Which algorithm a learner runs: on learners that were made to run one, and on some that run none."""

import jax
import jax.numpy as jnp
import jax.random as jr
import pytest

from iclzoo.inspect.identification import identify
from iclzoo.train.inputs import Uniform
from iclzoo.train.tasks import LinearRegression, SineRegression
from iclzoo.zoo.algorithms.least_squares import LeastSquares, Ridge
from iclzoo.zoo.algorithms.smoothing import KNearestNeighbours
from iclzoo.zoo.constructions.gd import gradient_descent_lsa
from iclzoo.zoo.constructions.gd_plus_plus import gd_plus_plus_lsa
from iclzoo.zoo.constructions.kernel_regression import kernel_regression_mlp_lsa
from iclzoo.zoo.constructions.preconditioned import preconditioned_gd_lsa
from iclzoo.zoo.mlp import MLPEmbedding

TASK = LinearRegression(input_dim=3, num_examples=5, inputs=Uniform(1.0))
SINES = SineRegression(num_examples=7, inputs=Uniform(2.0))
FEATURES = MLPEmbedding(in_dim=1, embed_dim=5, hidden_dim=7, init_scale=1.0, key=jr.key(3))
DIMS = {"num_examples": 5, "input_dim": 3}
P = jnp.array([[2.0, 0.5, 0.0], [0.0, 1.0, -0.3], [0.1, 0.0, 0.6]])
FEW = ("zero", "ridge", "gd-1")

CASES = {
    "gd-1": (gradient_descent_lsa([1.3], **DIMS), TASK, ("preconditioned-gd",), {"step_size": 1.3}),
    "gd-2": (gradient_descent_lsa([1.1, 1.1], **DIMS), TASK, ("gd++-2", "gd-2-free"), {"step_size": 1.1}),
    "gd-5": (gradient_descent_lsa([0.9] * 5, **DIMS), TASK, ("gd-2",), {"step_size": 0.9}),
    "gd++-2": (gd_plus_plus_lsa([2.0, 2.0], [0.1, 0.1], **DIMS), TASK, ("gd-2",), {"step_size": 2.0, "gamma": 0.1}),
    "gd++-2-free": (
        gd_plus_plus_lsa([0.7, 3.0], [0.15, 0.0], **DIMS),
        TASK,
        ("gd++-2",),
        {"step_size": [0.7, 3.0], "gamma": [0.15, None]},
    ),
    "preconditioned-gd": (preconditioned_gd_lsa(P[None], num_examples=5), TASK, (), {"preconditioner": P.tolist()}),
    "kernel-gd": (kernel_regression_mlp_lsa(FEATURES, 0.2, num_examples=7), SINES, (), {"step_size": 0.2}),
    "ridge": (Ridge(0.3), TASK, ("least-squares",), {"regularisation": 0.3}),
    "least-squares": (LeastSquares(), TASK, (), {}),
    "knn-1": (KNearestNeighbours(1), TASK, ("knn-3", "nadaraya-watson"), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_learner_made_to_run_an_algorithm_is_said_to_run_it(name):
    learner, task, rivals, parameters = CASES[name]
    candidates = dict.fromkeys((*FEW, *rivals, name))
    found = identify(learner, task, candidates=tuple(candidates), num_tasks=701, key=jr.key(1))
    assert found.verdict == found.ranking[0].name == name
    first = found.ranking[0]
    for agreement in first.agreements:
        assert agreement.prediction.value == pytest.approx(1.0, abs=1e-4)
        if name != "knn-1":
            assert agreement.sensitivity.value == pytest.approx(1.0, abs=1e-4)
    fitted, put_in = jax.tree.leaves(first.parameters), jax.tree.leaves(parameters)
    assert fitted == pytest.approx(put_in, abs=1e-3)
