"""The step of GD++ that a layer's weights imply."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...zoo.checks.gate import gated
from ...zoo.constructions.gd_plus_plus import gd_plus_plus_products
from ...zoo.errors import NotApplicable
from .weight_products import Products, fix_gauge, products


@dataclass(frozen=True)
class ImpliedStep:
    """The algorithm that one head's gauge-fixed products imply, read as a step of GD++."""

    layer: str
    head: int
    step_size_over_num_examples: float  # η/N = −mean diag of W_PV over y, times mean diag of W_KQ over x
    gamma: float  # γ = −mean diag of W_PV over x, times the same
    largest_other: float  # the largest entry, in size, outside the diagonals read above
    largest_other_at: str  # where it is


@gated
def implied_steps(layer: Products) -> tuple[ImpliedStep, ...]:
    """η/N and γ of each head of a linear layer over (x, y) tokens, and the largest entry that they leave unexplained.

    In the construction of GD++ the gauge-fixed products are W_KQ = diag(I, 0) and W_PV = diag(−γI, −(η/N)I), all else being zero.

    **Raises** `ZooError` where tokens are not (x, y) or the layer is not linear.
    """
    if layer.input_dim is None or not layer.is_linear:
        raise NotApplicable(
            f"layer {layer.name!r} is no linear attention over (x, y) tokens, so its weights imply no step of GD"
        )
    fixed, d = fix_gauge(layer), layer.input_dim
    steps = []
    for head in range(fixed.num_heads):
        W_KQ, W_PV = fixed.W_KQ[head], fixed.W_PV[head]
        eta, gamma = -np.diag(W_PV)[d:].mean(), -np.diag(W_PV)[:d].mean()
        beta = np.diag(W_KQ)[:d].mean()  # 1, but for heads whose gauge cannot be fixed
        ideal_KQ, ideal_PV = gd_plus_plus_products(eta, gamma, beta, input_dim=d, output_dim=len(W_KQ) - d)
        rest = {"W_KQ": np.abs(W_KQ - ideal_KQ), "W_PV": np.abs(W_PV - ideal_PV)}
        product = max(rest, key=lambda name: rest[name].max())
        row, column = np.unravel_index(rest[product].argmax(), W_KQ.shape)
        steps.append(
            ImpliedStep(
                layer=layer.name,
                head=head,
                step_size_over_num_examples=float(eta * beta),
                gamma=float(gamma * beta),
                largest_other=float(rest[product].max()),
                largest_other_at=f"{product}[{layer.labels[row]}, {layer.labels[column]}]",
            )
        )
    return tuple(steps)


def steps_where_implied(model: Any) -> tuple[ImpliedStep, ...]:
    """`implied_steps` of every layer of a model; none where its layers imply no step."""
    try:
        return tuple(step for layer in products(model) for step in implied_steps(layer))
    except NotApplicable:
        return ()
