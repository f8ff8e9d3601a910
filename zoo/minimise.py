"""Minimising a smooth function of a few numbers."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

GRADIENT_TOLERANCE = 2e-4  # of the loss, in parts of that of predicting 0, by the logarithm of a parameter


def minimise(
    loss, theta, max_steps: int, gradient_tolerance: float | Float[Array, ""] = GRADIENT_TOLERANCE
) -> tuple[Any, Float[Array, ""]]:
    """L-BFGS on `loss` from `theta`, until the gradient is smaller than `gradient_tolerance` or `max_steps` are done."""
    optimiser = optax.lbfgs()
    value_and_grad = optax.value_and_grad_from_state(loss)

    def step(carry):
        theta, state, count, _ = carry
        value, grad = value_and_grad(theta, state=state)
        updates, state = optimiser.update(grad, state, theta, value=value, grad=grad, value_fn=loss)
        return optax.apply_updates(theta, updates), state, count + 1, optax.tree.norm(grad)

    def unfinished(carry):
        _, _, count, gradient_norm = carry
        return (count < max_steps) & (gradient_norm > gradient_tolerance)

    theta, *_ = jax.lax.while_loop(unfinished, step, (theta, optimiser.init(theta), 0, jnp.inf))
    return theta, loss(theta)
