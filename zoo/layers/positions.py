"""Positional encodings: a table with one row p_k for each place k = 0, 1, … of a sequence. Computed, never trained."""

from collections.abc import Callable
from typing import Literal

import numpy as np

from ..errors import ShapeError


def sinusoidal_positions(num_tokens: int, position_dim: int) -> np.ndarray:
    """p_k of any k: waves of `position_dim` / 2 lengths.

        p_k[2i] = sin(k · 10000^(−2i / position_dim)),   p_k[2i + 1] = cos(k · 10000^(−2i / position_dim))

    Vaswani et al. 2017, section 3.5.
    """
    entries = np.arange(position_dim)
    angles = np.arange(num_tokens)[:, None] * 10000.0 ** (-(entries - entries % 2) / position_dim)
    return np.where(entries % 2 == 0, np.sin(angles), np.cos(angles))


def one_hot_positions(num_tokens: int, position_dim: int) -> np.ndarray:
    """p_k = the k-th unit vector, for k < `position_dim`.

    **Raises** `ShapeError` for a sequence longer than the table.
    """
    if num_tokens > position_dim:
        raise ShapeError(
            f"one-hot positions of position_dim {position_dim} end after {position_dim} tokens, "
            f"but the prompt has {num_tokens}; use a shorter prompt or a larger position_dim"
        )
    return np.eye(num_tokens, position_dim)


PositionsName = Literal["sinusoidal", "one_hot"]
POSITIONS: dict[str, Callable[[int, int], np.ndarray]] = {
    "sinusoidal": sinusoidal_positions,
    "one_hot": one_hot_positions,
}
