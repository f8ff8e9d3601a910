"""Learners that read inputs and labels as separate tokens."""

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp

from .checks.values import one_of
from .errors import ConfigError
from .layers.positions import POSITIONS
from .prompt import Prompt
from .token_model import TokenModel, Tokens


class InterleavingModel(TokenModel):
    """Interface of token models that give x and y a token each, and each token its position.

        e_2i = ((xᵢ, 0), p_2i),  e_2i+1 = ((0, yᵢ), p_2i+1),  e_2N = ((x_query, 0), p_2N),  i = 0 … N − 1
        prediction = −(last output_dim entries of e_2N)

    The zeros fill up the larger of input_dim and output_dim, so y stands at the end; then come `position_dim` entries, which
    `positions` names: "sinusoidal" for prompts of any length, "one_hot" for at most `position_dim` tokens, 2N + 1 for N examples.
    The prediction is read where the position was written: copying a label there makes the merged token (x, y).
    von Oswald et al. 2023, Proposition 3 and section 4.

    **Raises** `ConfigError` if `position_dim` is smaller than `output_dim`, or `positions` is no name of positions.
    """

    positions: eqx.AbstractVar[str]
    position_dim: eqx.AbstractVar[int]

    def __check_init__(self):
        one_of("positions", self.positions, POSITIONS)
        if self.position_dim < self.output_dim:
            raise ConfigError(
                f"position_dim must be at least output_dim, got {self.position_dim} and {self.output_dim}: "
                "the prediction is read from the position entries"
            )

    @property
    def subspaces(self) -> Mapping[str, slice]:
        width = max(self.input_dim, self.output_dim)
        return {
            "x": slice(self.input_dim),
            "y": slice(width - self.output_dim, width),
            "position": slice(width, width + self.position_dim),
        }

    @property
    def example_tokens(self) -> tuple[str, ...]:
        return ("x", "y")

    @property
    def order_sensitive(self) -> bool:
        """The order of the examples matters."""
        return True

    @property
    def token_labels(self) -> tuple[str, ...]:
        """x1, …, xd/y, p1, …: an entry that holds x in some tokens and y in others bears both names."""
        width = max(self.input_dim, self.output_dim)
        xs = [f"x{i + 1}" for i in range(self.input_dim)] + [""] * (width - self.input_dim)
        ys = ["y"] if self.output_dim == 1 else [f"y{i + 1}" for i in range(self.output_dim)]
        ys = [""] * (width - self.output_dim) + ys
        values = tuple(f"{x}/{y}" if x and y else x or y for x, y in zip(xs, ys, strict=True))
        return values + tuple(f"p{i + 1}" for i in range(self.position_dim))

    def embed(self, prompt: Prompt) -> Tokens:
        """**Raises** `ShapeError` if the prompt is longer than the table of positions."""
        missing = self.output_dim - self.input_dim
        pad_x, pad_y = max(missing, 0), max(-missing, 0)
        xs = jnp.pad(prompt.xs, ((0, 0), (0, pad_x)))
        ys = jnp.pad(prompt.ys, ((0, 0), (pad_y, 0)))
        query = jnp.pad(prompt.query, (0, pad_x))
        context = jnp.stack([xs, ys], axis=1).reshape(2 * prompt.num_examples, -1)
        values = jnp.concatenate([context, query[None]])
        positions = POSITIONS[self.positions](len(values), self.position_dim)
        return jnp.concatenate([values, jnp.asarray(positions, values.dtype)], axis=1)
