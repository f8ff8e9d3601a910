"""What a learner reads."""

from collections.abc import Callable
from typing import Any, TypeAlias

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .errors import ShapeError


class Prompt(eqx.Module):
    """Labelled examples (xᵢ, yᵢ), i = 1 … N, and a query x whose label is asked for.

    A prompt knows nothing of tokens, and the query's true label is kept apart from it, so that no learner
    can see it. A batch of prompts is a `Prompt` with a leading axis on every array, made by `jax.vmap`.

    **Raises** `ShapeError` if the arrays do not belong together, and for a prompt without an example: there is no mean of none, and no
    nearest of none.
    """

    xs: Float[Array, "num_examples input_dim"] = eqx.field(converter=jnp.asarray)
    ys: Float[Array, "num_examples output_dim"] = eqx.field(converter=jnp.asarray)
    query: Float[Array, " input_dim"] = eqx.field(converter=jnp.asarray)

    def __check_init__(self):
        for name, array, shape in (
            ("xs", self.xs, "[num_examples, input_dim]"),
            ("ys", self.ys, "[num_examples, output_dim]"),
            ("query", self.query, "[input_dim]"),
        ):
            if array.ndim != shape.count(",") + 1:
                raise ShapeError(
                    f"{name} must be {shape}, got shape {array.shape}; use jax.vmap for a batch of prompts"
                )
            if not jnp.issubdtype(array.dtype, jnp.floating):
                raise ShapeError(f"{name} must hold floating-point numbers, got {array.dtype}")
        if not self.xs.shape[0]:
            raise ShapeError(f"a prompt needs at least one example, got xs of shape {self.xs.shape}")
        if len(self.xs) != len(self.ys):
            raise ShapeError(f"xs and ys must have one row an example, got {len(self.xs)} and {len(self.ys)} rows")
        if self.xs.shape[1:] != self.query.shape:
            raise ShapeError(f"query must have the {self.xs.shape[1]} entries of each row of xs, got {len(self.query)}")

    @property
    def num_examples(self) -> int:
        """N, the query not counted."""
        return self.xs.shape[-2]

    @property
    def input_dim(self) -> int:
        return self.xs.shape[-1]

    @property
    def output_dim(self) -> int:
        return self.ys.shape[-1]


# A learner maps one prompt to one prediction: a trained model, a constructed one, or a classical algorithm.
Learner: TypeAlias = Callable[[Prompt], Float[Array, " output_dim"]] | Any
