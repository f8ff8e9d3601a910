"""The training loop: many steps in one compiled program, the data made inside it."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PyTree

from ..zoo.errors import ConfigError, ContractError, closest
from ..zoo.frozen import trainable
from ..zoo.registry import create
from ..zoo.tensors import fill, named_arrays
from .losses import half_mse
from .recipe import Recipe

# The most steps one call of the compiled program makes: the length of its buffer of losses.
MAX_STEPS = 1000


class State(eqx.Module):
    """All that a training needs to go on: nothing else decides its future, but the recipe."""

    model: Any
    optimiser: PyTree
    step: Int[Array, ""]


# Trains a state up to a later step, `MAX_STEPS` away at most; returns it with the losses of the batches, in order, then NaN.
Advance = Callable[[State, int], tuple[State, Float[Array, " max_steps"]]]


def start(recipe: Recipe) -> State:
    """The state before the first step: a fresh model from the recipe's seed."""
    model = initial_model(recipe)
    check_prediction(model, recipe)
    parameters = eqx.filter(model, trainable(model))
    return State(model, recipe.optimiser.build(recipe.num_steps).init(parameters), jnp.zeros((), jnp.int32))


def initial_model(recipe: Recipe) -> Any:
    """The untrained model: step 0 of the recipe."""
    key_model, _ = jr.split(jr.key(recipe.seed))
    model = create(recipe.model, key=key_model, **recipe.hyperparameters)
    arrays = named_arrays(model)
    for name, value in recipe.initial_values.items():
        if name not in arrays:
            raise ConfigError(f"initial_values: {recipe.model!r} has no array {name!r}; {closest(name, arrays)}")
        arrays[name] = np.full_like(arrays[name], value)
    return fill(model, arrays, f"the recipe {recipe.name}")


def check_prediction(model: Any, recipe: Recipe) -> None:
    """`ContractError` unless `model` predicts one target of the recipe's task, `ShapeError` unless it reads its prompts."""
    prompt, target = eqx.filter_eval_shape(recipe.task.sample, jr.key(0))
    prediction = eqx.filter_eval_shape(lambda m, p: m(p), model, prompt)
    if prediction.shape != target.shape:
        raise ContractError(
            f"model {recipe.model!r} breaks the contract: its prediction must have shape {target.shape}, [output_dim], "
            f"but has got {prediction.shape}"
        )


def compile_advance(recipe: Recipe) -> Advance:
    """The function that trains: compiled once for a whole run, whatever steps it is asked for.

    The tasks of step n come from the recipe's seed and n alone, so a run that is cut anywhere and continued is the same run.
    """
    optimiser = recipe.optimiser.build(recipe.num_steps)
    _, key_data = jr.split(jr.key(recipe.seed))

    def train_step(state: State) -> tuple[State, Float[Array, ""]]:
        prompts, targets = recipe.task.sample_batch(jr.fold_in(key_data, state.step), recipe.batch_size)
        parameters, rest = eqx.partition(state.model, trainable(state.model))
        loss, gradient = jax.value_and_grad(lambda p: half_mse(eqx.combine(p, rest), prompts, targets))(parameters)
        updates, optimiser_state = optimiser.update(gradient, state.optimiser, parameters)
        model = eqx.combine(optax.apply_updates(parameters, updates), rest)
        return State(model, optimiser_state, state.step + 1), loss

    @eqx.filter_jit
    def run(state: State, until: Int[Array, ""]) -> tuple[State, Float[Array, " max_steps"]]:
        arrays, static = eqx.partition(state, eqx.is_array)

        def body(index, carry):
            arrays, losses = carry
            state, loss = train_step(eqx.combine(arrays, static))
            return eqx.filter(state, eqx.is_array), losses.at[index].set(loss)

        arrays, losses = jax.lax.fori_loop(0, until - state.step, body, (arrays, jnp.full(MAX_STEPS, jnp.nan)))
        return eqx.combine(arrays, static), losses

    return lambda state, until: run(state, jnp.asarray(until, jnp.int32))
