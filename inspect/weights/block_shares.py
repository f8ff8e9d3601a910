"""How the weights of a head divide between the blocks of x and y."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ...zoo.checks.gate import gated
from ...zoo.errors import NotApplicable
from .weight_products import products


@dataclass(frozen=True)
class BlockShares:
    """The share of each block in the squared norm of one head's products: 1 in all for each product.

    Rows and columns are the x entries and the y entries: `W_KQ[0, 1]` is the share of the block that takes x on the key side and y on the
    query side, `W_PV[1, 0]` that of the block with y as output and x as input. `None` where the product is zero.
    """

    layer: str
    head: int
    W_KQ: Float[np.ndarray, "2 2"] | None
    W_PV: Float[np.ndarray, "2 2"] | None


@gated
def block_shares(model: Any) -> tuple[BlockShares, ...]:
    """How the weights of every head divide between the blocks of x and y entries.

        share of block B = ‖W_B‖²_F / ‖W‖²_F

    The construction of GD has all of W_KQ in xx and all of W_PV in yy. The shares do not depend on the gauge.

    **Raises** `ZooError` if there is no attention layer over (x, y) tokens.
    """
    layers = [layer for layer in products(model) if layer.input_dim is not None]
    if not layers:
        raise NotApplicable(
            f"{type(model).__name__} has no attention layer over (x, y) tokens, so no blocks of x and y"
        )
    return tuple(
        BlockShares(
            layer=layer.name,
            head=head,
            W_KQ=_shares(layer.W_KQ[head], layer.input_dim or 0),
            W_PV=_shares(layer.W_PV[head], layer.input_dim or 0),
        )
        for layer in layers
        for head in range(layer.num_heads)
    )


def _shares(matrix: np.ndarray, input_dim: int) -> np.ndarray | None:
    total = (matrix**2).sum()
    if not np.isfinite(total) or total == 0:
        return None
    parts = slice(input_dim), slice(input_dim, None)
    return np.array([[(matrix[rows, columns] ** 2).sum() / total for columns in parts] for rows in parts])
