"""What every task keeps, and every distribution of inputs and of teachers, whoever wrote it."""

import json
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from ..train.recipes.recipe import Recipe
from ..train.run import fit
from ..train.tasks.inputs import Inputs
from ..train.tasks.regression import LinearRegression, Task
from ..train.tasks.teachers import Teacher
from ..zoo.errors import ConfigError
from ..zoo.storage.config import SETTINGS, from_config, to_config
from .contract import Contract, keys, require, require_close, same_bits

TASK = Contract("task")

NUM_PROMPTS = 20_000
STANDARD_ERRORS = (
    6.0  # that a mean over the prompts, which are always the same ones, may be away from what is said of it
)


def check_task(kind: str, **settings: Any) -> None:
    """Check that the task registered under `kind`, or the distribution of inputs or teachers, keeps the contract.

    Inputs and teachers are looked at in linear regression with three inputs.

    Args:
        kind: the name under which it is registered.
        settings: those whose defaults are not to be taken.

    Raises:
        ConfigError: what is registered under `kind` is no task, inputs or teacher.
        ContractError: which clause it breaks, and how to mend it.
        UnknownNameError: no setting of that kind is registered.

    Example:
        >>> iclzoo.testing.check_task("linear_regression")
    """
    if not issubclass(SETTINGS[kind], Task | Inputs | Teacher):
        raise ConfigError(f"{kind!r} is no task, inputs or teacher, but {SETTINGS[kind].__name__}")
    TASK.check(kind, **settings)


def example(kind: str, **settings: Any) -> Task:
    """The task of that kind, its other settings by default, or linear regression with such inputs or teachers."""
    made = SETTINGS[kind](**settings)
    if isinstance(made, Inputs):
        return LinearRegression(input_dim=3, num_examples=7, inputs=made)
    if isinstance(made, Teacher):
        return LinearRegression(input_dim=3, num_examples=7, teacher=made)
    return made


@TASK.clause("Give every setting a default, and let draw return (Prompt, target) of the sizes the task says.")
def draws_prompts_and_targets(kind: str, **settings: Any) -> None:
    """It draws a finite prompt, and the label of its query apart from it, of the sizes that it says."""
    task = example(kind, **settings)
    prompt, target = task.sample(jr.key(0))
    sizes = (prompt.num_examples, prompt.input_dim, prompt.output_dim)
    said = (task.num_examples, task.input_dim, task.output_dim)
    require(sizes == said, f"a prompt of (num_examples, input_dim, output_dim) {sizes}, but the task says {said}")
    require(target.shape == (task.output_dim,), f"a target of shape {target.shape} instead of ({task.output_dim},)")
    for array in jax.tree.leaves((prompt, target)):
        require(array.dtype == np.float32, f"an array of {array.dtype} instead of float32")
        require(jnp.isfinite(array).all(), "an entry that is not finite")


@TASK.clause("Draw from the key alone: no state, no other generator.")
def a_key_decides_the_sample(kind: str, **settings: Any) -> None:
    """The same key gives the same bits, and some other key others."""
    task, key = example(kind, **settings), keys()
    first = task.sample(jr.key(0))
    require(same_bits(first, task.sample(jr.key(0))), "the same key gave another sample")
    require(not all(same_bits(first, task.sample(next(key))) for _ in range(5)), "every key gives the same sample")


@TASK.clause("Use jax.numpy and jax.random throughout, so that sample can be vmapped and compiled.")
def a_batch_is_a_loop(kind: str, **settings: Any) -> None:
    """sample_batch gives what a loop over its keys gives."""
    task = example(kind, **settings)
    batch = jax.tree.leaves(task.sample_batch(jr.key(0), 3))
    loop = [jax.tree.leaves(task.sample(key)) for key in jr.split(jr.key(0), 3)]
    for number, array in enumerate(batch):
        require_close(array, jnp.stack([one[number] for one in loop]), "sample_batch")


@TASK.clause("Make every setting a field of the dataclass, of numbers, texts, tuples and other settings.")
def settings_survive_a_card(kind: str, **settings: Any) -> None:
    """Written on a card as JSON and read back, it is the same task with the same stream."""
    task = example(kind, **settings)
    again = from_config(json.loads(json.dumps(to_config(task), allow_nan=False)))
    require(type(again) is type(task) and to_config(again) == to_config(task), "it comes back as another")
    require(same_bits(again.sample(jr.key(0)), task.sample(jr.key(0))), "it comes back with another stream")


@TASK.clause(
    "Say the moments about zero, Λ = E[x xᵀ] and M(A) = E[x xᵀ A x xᵀ], or raise NotApplicable where they are not known."
)
def moments_are_those_of_its_samples(kind: str, **settings: Any) -> None:
    """The moments it gives are those of its samples."""
    task = example(kind, **settings)
    moments = task.moments()
    prompts, _ = task.sample_batch(jr.key(0), NUM_PROMPTS)
    x = np.asarray(prompts.query, np.float64)
    A = np.random.default_rng(0).normal(size=(task.input_dim, task.input_dim))
    quadratic = np.einsum("ni,ij,nj->n", x, A, x)
    outer = np.einsum("ni,nj->nij", x, x)
    _require_mean(outer, moments.covariance, "Λ")
    _require_mean(outer * quadratic[:, None, None], moments.fourth_moment(jnp.asarray(A, jnp.float32)), "M(A)")


def _require_mean(samples: np.ndarray, expected: Any, what: str) -> None:
    error = np.abs(samples.mean(axis=0) - np.asarray(expected, np.float64))
    allowed = STANDARD_ERRORS * samples.std(axis=0) / len(samples) ** 0.5 + 1e-6
    require(
        (error <= allowed).all(), f"{what} is {float((error / allowed).max()):.1f} times as far away as chance allows"
    )


@TASK.clause(
    "Let population give the task without end that learners are measured on: itself, unless it is a finite set."
)
def its_population_has_no_other(kind: str, **settings: Any) -> None:
    """The task that learners are measured on is measured on itself."""
    population = example(kind, **settings).population
    require(to_config(population.population) == to_config(population), "the population has a population of its own")


@TASK.clause("Look at the error: training samples the task in one compiled loop.")
def a_model_can_be_trained_on_it(kind: str, **settings: Any) -> None:
    """A layer of linear self-attention trains on it for two steps."""
    task = example(kind, **settings)
    sizes = {"input_dim": task.input_dim, "output_dim": task.output_dim}
    with jax.numpy_dtype_promotion("standard"):  # for Optax
        recipe = Recipe(
            name="contract", model="lsa", hyperparameters=sizes, task=task, batch_size=4, num_steps=2, baselines=()
        )
        fit(recipe, progress=False)
