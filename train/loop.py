"""The training loop: many steps in one compiled program, the data made inside it."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jax.extend.core import jaxprs_in_params
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree, UInt32

from ..zoo.determinism import GENERATOR, fixed_settings, key_of
from ..zoo.errors import ConfigError, ContractError, closest
from ..zoo.factory import create
from ..zoo.frozen import trainable
from ..zoo.storage.tensors import fill, named_arrays
from .devices import Team
from .losses import half_mse
from .recipes.recipe import Recipe

# The most steps one call of the compiled program makes: the length of its buffer of losses.
MAX_STEPS = 1000


class State(eqx.Module):
    """All that a training needs to go on: nothing else decides its future, but the recipe."""

    model: Any
    optimiser: PyTree
    step: Int[Array, ""]


Keys = Key[Array, " num_tasks"]
KeyData = UInt32[Array, "2"]
# Trains a state up to a later step, `MAX_STEPS` away at most, on the tasks of a seed; returns it with the losses of the batches, in order,
# then zeros.
Advance = Callable[[State, int, int], tuple[State, Float[Array, " max_steps"]]]


@fixed_settings()
def start(recipe: Recipe) -> State:
    """The state before the first step: a fresh model from the recipe's seed."""
    model = initial_model(recipe)
    check_prediction(model, recipe)
    parameters = eqx.filter(model, trainable(model))
    return State(model, recipe.optimiser.build(recipe.num_steps).init(parameters), jnp.zeros((), jnp.int32))


@fixed_settings()
def initial_model(recipe: Recipe) -> Any:
    """The untrained model: step 0 of the recipe."""
    model = _drawn_model(recipe)
    arrays = named_arrays(model)
    for name, value in recipe.initial_values.items():
        if name not in arrays:
            raise ConfigError(f"initial_values: {recipe.model!r} has no array {name!r}; {closest(name, arrays)}")
        arrays[name] = np.full_like(arrays[name], value)
    return fill(model, arrays, f"the recipe {recipe.name}")


def _drawn_model(recipe: Recipe) -> Any:
    key_model, _ = jr.split(key_of(recipe.seed))
    return create(recipe.model, key=key_model, **recipe.hyperparameters)


@fixed_settings()
def check_prediction(model: Any, recipe: Recipe) -> None:
    """`ContractError` unless `model` predicts one target of the recipe's task, `ShapeError` unless it reads its prompts."""
    prompt, target = eqx.filter_eval_shape(recipe.task.sample, key_of(0))
    prediction = eqx.filter_eval_shape(lambda m, p: m(p), model, prompt)
    if prediction.shape != target.shape:
        raise ContractError(
            f"model {recipe.model!r} breaks the contract: its prediction must have shape {target.shape}, [output_dim], "
            f"but has got {prediction.shape}"
        )


@fixed_settings()
def largest_array(recipe: Recipe) -> int:
    """The bytes of the largest array on the way from one prompt to its prediction."""

    def largest(jaxpr: Any) -> int:
        inner = [largest(sub) for equation in jaxpr.eqns for sub in jaxprs_in_params(equation.params)]
        sizes = [v.aval.size * v.aval.dtype.itemsize for equation in jaxpr.eqns for v in equation.outvars]
        return max([*inner, *sizes], default=0)

    model = eqx.filter_eval_shape(lambda: _drawn_model(recipe))
    prompt, _ = eqx.filter_eval_shape(recipe.task.sample, key_of(0))
    arrays, static = eqx.partition(model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    return largest(jax.make_jaxpr(lambda arrays, prompt: eqx.combine(arrays, static)(prompt))(arrays, prompt).jaxpr)


def mean_over_parts(function: Callable[[PyTree], PyTree], batch: PyTree, num_parts: int) -> PyTree:
    """The mean of what `function` gives for equal parts of a batch, one part after the other."""
    if num_parts == 1:
        return function(batch)
    parts = jax.tree.map(lambda leaf: leaf.reshape(num_parts, -1, *leaf.shape[1:]), batch)

    def of_part(index: Int[Array, ""]) -> PyTree:
        return function(jax.tree.map(lambda leaf: leaf[index], parts))

    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(of_part, 0))
    total = jax.lax.fori_loop(0, num_parts, lambda index, total: jax.tree.map(jnp.add, total, of_part(index)), zero)
    return jax.tree.map(lambda leaf: leaf / num_parts, total)


@fixed_settings()
def compile_advance(recipe: Recipe, team: Team) -> Advance:
    """The function that trains: compiled once, whatever steps it is asked for and from whatever seed.

    The tasks of step n come from the seed and n alone, so a run that is cut anywhere and continued is the same run.
    """
    team.check_batch(recipe.batch_size)
    recipe.task.check_memory(recipe.batch_size)
    optimiser = recipe.optimiser.build(recipe.num_steps)
    num_parts = team.num_parts(recipe.batch_size, largest_array(recipe))

    def update(state: State, data_key: PRNGKeyArray) -> tuple[State, Float[Array, ""]]:
        parameters, rest = eqx.partition(state.model, trainable(state.model))

        def learn_from(keys: Keys) -> tuple[Float[Array, ""], PyTree]:
            prompts, targets = jax.vmap(recipe.task.sample)(team.split(keys))
            return jax.value_and_grad(lambda p: half_mse(eqx.combine(p, rest), prompts, targets))(parameters)

        keys = jr.split(jr.fold_in(data_key, state.step), recipe.batch_size)
        loss, gradient = mean_over_parts(learn_from, keys, num_parts)
        updates, optimiser_state = optimiser.update(gradient, state.optimiser, parameters)
        model = eqx.combine(optax.apply_updates(parameters, updates), rest)
        return State(model, optimiser_state, state.step + 1), loss

    @eqx.filter_jit
    def run(state: State, key_data: KeyData, until: Int[Array, ""]) -> tuple[State, Float[Array, " max_steps"]]:
        arrays, static = eqx.partition(state, eqx.is_array)

        def body(index, carry):
            arrays, losses = carry
            state, loss = update(eqx.combine(arrays, static), jr.wrap_key_data(key_data, impl=GENERATOR))
            return team.copied((eqx.filter(state, eqx.is_array), losses.at[index].set(loss)))

        losses = jnp.zeros(MAX_STEPS)
        arrays, losses = jax.lax.fori_loop(0, until - state.step, body, team.copied((arrays, losses)))
        return eqx.combine(arrays, static), losses

    def advance(state: State, until: int, seed: int) -> tuple[State, Float[Array, " max_steps"]]:
        # Optax's schedules multiply integers with floats, which strict promotion forbids.
        with (
            fixed_settings(state) as (state,),
            jax.numpy_dtype_promotion("standard"),
            jax.numpy_rank_promotion("allow"),
        ):
            data_key = jr.key_data(jr.split(key_of(seed))[1])
            return run(*team.place((state, data_key)), jnp.asarray(until, jnp.int32))

    return advance
