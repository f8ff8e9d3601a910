"""The weights along a training."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...zoo.checks.gate import gated
from ..instrument import register_instrument
from ..measurement import OnFigure
from ..stored_steps import Training, stored_models
from .implied_step import ImpliedStep, steps_where_implied
from .weight_products import Products, gauge_fixed

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure


@dataclass(frozen=True, repr=False)
class WeightPath(OnFigure):
    """The gauge-fixed products at each stored step, and the step of GD++ they imply, where they imply one."""

    steps: tuple[int, ...]
    layers: tuple[tuple[Products, ...], ...]  # at each step, of each layer
    implied: tuple[
        tuple[ImpliedStep, ...], ...
    ]  # at each step, of each layer and head; empty where tokens are not (x, y)

    title = "weights over training"

    @property
    def summary(self) -> str:
        return "W_KQ and W_PV of the first head at six stored steps."

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"step": step, "layer": layer.name, "head": head, "norm_W_KQ": norms[0], "norm_W_PV": norms[1]}
            | (_implied(implied[place]) if implied else {})
            for step, layers, implied in zip(self.steps, self.layers, self.implied, strict=True)
            for place, (layer, head) in enumerate((layer, head) for layer in layers for head in range(layer.num_heads))
            for norms in [[float(np.linalg.norm(matrix[head])) for matrix in (layer.W_KQ, layer.W_PV)]]
        ]

    def film(self, format: str) -> bytes:
        from .weight_path_plot import weight_film

        return weight_film(self)

    def draw(self, figure: "Figure | SubFigure | None", **options: Any) -> "Figure | SubFigure":
        from .weight_path_plot import weight_path_figure

        return weight_path_figure(self, figure=figure, **options)


def _implied(step: ImpliedStep) -> dict[str, float]:
    return {"step_size_over_num_examples": step.step_size_over_num_examples, "gamma": step.gamma}


@register_instrument(
    "weight-path",
    title="Weights over training",
    question="The first head at six of the stored steps, on one scale.",
    order=50,
    films=("gif",),
)
@gated
def weight_path(training: Training) -> WeightPath:
    """The products along a training: of a checkpoint by name or path, or of a mapping from step to model.

    **Raises** `ZooError` if no step is stored, or the models have no attention layer.
    """
    models = stored_models(training)
    layers = tuple(gauge_fixed(model) for model in models.values())
    return WeightPath(tuple(models), layers, tuple(steps_where_implied(model) for model in models.values()))
