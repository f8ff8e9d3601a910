"""What gradient flow conserves, followed over a training.

Where a loss is the same at (c·A, B/c) for every c > 0, gradient flow on it conserves ‖A‖² − ‖B‖²: the flow is orthogonal to the curve of
equal loss, along which ‖A‖² − ‖B‖² has the gradient (A, −B). Each head of an attention layer has such pairs of factors. Other
optimisers, and long steps, break the law; by how much is what is measured here.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Array, Float

from ...zoo.checks.gate import gated
from ...zoo.errors import ZooError
from ..instrument import register_instrument
from ..measurement import OnAxes
from ..stored_steps import Training, stored_models
from .weight_products import attention_layers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class ConservedDifference:
    """One pair of squared norms over a training, whose difference gradient flow conserves."""

    law: str  # what is subtracted from what
    layer: str
    head: int
    left: Float[np.ndarray, " num_steps"]  # the square before the minus sign
    right: Float[np.ndarray, " num_steps"]

    @property
    def difference(self) -> Float[np.ndarray, " num_steps"]:
        """left − right, constant under gradient flow."""
        return self.left - self.right

    @property
    def drift(self) -> float | None:
        """The largest change of the difference since the first step, relative to the largest left + right; `None` if undefined."""
        size, change = (self.left + self.right).max(), np.abs(self.difference - self.difference[0]).max()
        return float(change / size) if np.isfinite(change) and np.isfinite(size) and size > 0 else None


@dataclass(frozen=True, repr=False)
class ConservedPath(OnAxes):
    """The differences of every head at the same points of a training."""

    steps: tuple[int, ...]
    differences: tuple[ConservedDifference, ...]

    title = "what gradient flow would conserve"
    size = (7.6, 3.8)

    @property
    def summary(self) -> str:
        drifts = [one.drift for one in self.differences if one.drift is not None]
        largest = f"; the largest drift is {max(drifts):.2g}" if drifts else ""
        return f"Differences of squared norms that gradient flow conserves, over training{largest}."

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"law": one.law, "layer": one.layer, "head": one.head, "step": step, "left": left, "right": right}
            for one in self.differences
            for step, left, right in zip(self.steps, one.left, one.right, strict=True)
        ]

    def draw(self, ax: "Axes", **options: Any) -> None:
        from .conserved_quantities_plot import conserved_curves

        conserved_curves(self, ax=ax, **options)


@register_instrument(
    "conserved-quantities",
    title="Conserved quantities",
    question="Differences of norms that gradient flow conserves; Adam need not.",
    order=90,
)
@gated
def conserved_quantities(training: Training) -> ConservedPath:
    """The conserved differences of each head along a training: a checkpoint with stored steps, or the model by step.

        products as parameters:  ‖W_PV‖² − ‖W_KQ‖²,   and u² − ‖U‖²_F with u = W_PV[y, y], U = W_KQ[x, x] in a single layer
        factors as parameters:   ‖W_K‖² − ‖W_Q‖²,  ‖W_P‖² − ‖W_V‖²,   and ‖W_P‖² − ‖W_K‖² unless the pattern is softmax

    u² − ‖U‖²_F is conserved where all other entries start at zero, for they stay there. Zhang et al. 2024, Theorem 4.1.

    **Raises** `ZooError` if no step is stored, a model has no attention layer, or one without such factors.
    """
    models = stored_models(training)
    squares = [_squares(model) for model in models.values()]
    if any(square.keys() != squares[0].keys() for square in squares):
        raise ZooError("the models of one training have the same layers and heads; these have not")
    return ConservedPath(
        steps=tuple(models),
        differences=tuple(
            ConservedDifference(
                law, layer, head, *np.array([square[law, layer, head] for square in squares], np.float64).T
            )
            for law, layer, head in squares[0]
        ),
    )


def _squares(model: Any) -> dict[tuple[str, str, int], tuple[float, float]]:
    """The two squared norms of each law, layer and head."""
    joint = getattr(model, "joint", None)
    x, y = joint if joint is not None and len(model.stack) == 1 else (None, None)
    return {
        (f"{_name(left)}² − {_name(right)}²", path, head): (_square(first[head]), _square(second[head]))
        for path, layer in attention_layers(model).items()
        for (left, first), (right, second) in layer.conserved_pairs(x, y)
        for head in range(layer.num_heads)
    }


def _name(symbol: str) -> str:
    return symbol if symbol == "u" else f"‖{symbol}‖"


def _square(array: Array) -> float:
    return float((np.asarray(array, np.float64) ** 2).sum())
