"""What every algorithm keeps, whoever wrote it. Where its name has a K, it is looked at with K = 1 and 2."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr

from ..train.tasks.regression import LinearRegression
from ..train.tuning.baselines import best_baseline, fitted
from ..zoo.algorithm import ALGORITHMS, Algorithm
from .contract import Contract, keys, random_prompt, require, require_close, require_prediction

ALGORITHM = Contract("algorithm")

TASK = LinearRegression(input_dim=3, output_dim=2, num_examples=7)
FEW_TASKS = 100


def check_algorithm(name: str) -> None:
    """Check that the algorithm registered under `name`, as in "gd-K", keeps the contract.

    Raises:
        ContractError: which clause it breaks, and how to mend it.
        UnknownNameError: no algorithm of that name is registered.

    Example:
        >>> iclzoo.testing.check_algorithm("least-squares")
    """
    _ = ALGORITHMS[name]
    ALGORITHM.check(name)


def _instances(name: str) -> Iterator[Algorithm]:
    for number in (1, 2) if "K" in name else (1,):
        yield ALGORITHMS[name](number)


def _tuned(name: str) -> Iterator[Any]:
    for one in _instances(name):
        yield best_baseline(one.name, TASK, num_tasks=FEW_TASKS)


@ALGORITHM.clause("Let start return a learner for labelled prompts: __call__(prompt) of shape [output_dim].")
def predicts_at_its_best(name: str) -> None:
    """At its best on a task, its predictions are finite, one for each output, and it can be compiled by jax.jit."""
    for learner in _tuned(name):
        prompt, _ = TASK.sample(jr.key(1))
        require_prediction(jax.jit(lambda prompt, learner=learner: learner(prompt))(prompt), TASK.output_dim)


@ALGORITHM.clause("Read one prompt at a time, and use jax.numpy throughout.")
def vmap_is_a_loop(name: str) -> None:
    """jax.vmap over prompts gives what a loop gives."""
    for learner in _tuned(name):
        key = keys()
        prompts = [TASK.sample(next(key))[0] for _ in range(3)]
        batch = jax.tree.map(lambda *arrays: jnp.stack(arrays), *prompts)
        loop = jnp.stack([learner(prompt) for prompt in prompts])
        require_close(jax.vmap(learner)(batch), loop, "jax.vmap(learner)(prompts)", tolerance=1e-4)


@ALGORITHM.clause("Do not depend on the order of the examples.")
def the_order_of_examples_does_not_matter(name: str) -> None:
    """Shuffled examples give the same prediction."""
    for learner in _tuned(name):
        prompt = random_prompt(jr.key(1), input_dim=3, output_dim=2)
        order = jr.permutation(jr.key(2), prompt.num_examples)
        shuffled = type(prompt)(xs=prompt.xs[order], ys=prompt.ys[order], query=prompt.query)
        require_close(learner(shuffled), learner(prompt), "the prediction for shuffled examples", tolerance=1e-4)


@ALGORITHM.clause("Keep its parameters in arrays, positive at the start, and give them in `parameters` as JSON does.")
def its_parameters_are_named(name: str) -> None:
    """Brought close to a learner's predictions, its parameters are finite numbers by name."""
    prompts, targets = TASK.sample_batch(jr.key(0), FEW_TASKS)
    for one in _instances(name):
        found = one.parameters(fitted(one, prompts, targets))
        for parameter, value in found.items():
            numbers = [entry for entry in jax.tree.leaves(value) if entry is not None]
            require(all(map(jnp.isfinite, numbers)), f"{parameter} is {value}")


@ALGORITHM.clause("Name only what it contains in special_cases; let `best` be what is best on the whole distribution.")
def at_its_best_it_is_no_worse_than_beside_it(name: str) -> None:
    """What is best on a task is there no worse than what is best on a few samples of it, but for chance."""
    prompts, targets = TASK.sample_batch(jr.key(5), 20 * FEW_TASKS)
    few = jax.tree.map(lambda array: array[:FEW_TASKS], (prompts, targets))
    for one in _instances(name):
        best, other = (
            _loss(learner, prompts, targets) for learner in (best_baseline(one.name, TASK), fitted(one, *few))
        )
        require(best <= 1.1 * other, f"half-MSE {best:.4f} at its best, {other:.4f} where it was tuned to a few tasks")


def _loss(learner: Any, prompts: Any, targets: Any) -> float:
    return float(((jax.vmap(learner)(prompts) - targets) ** 2).sum(axis=1).mean() / 2)
