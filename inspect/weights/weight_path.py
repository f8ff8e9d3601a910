"""The weights along a training."""

from dataclasses import dataclass

from ...zoo.checks.gate import gated
from ..stored_steps import Training, stored_models
from .implied_step import ImpliedStep, steps_where_implied
from .weight_products import Products, gauge_fixed


@dataclass(frozen=True)
class WeightPath:
    """The gauge-fixed products at each stored step, and the step of GD++ they imply, where they imply one."""

    steps: tuple[int, ...]
    layers: tuple[tuple[Products, ...], ...]  # at each step, of each layer
    implied: tuple[
        tuple[ImpliedStep, ...], ...
    ]  # at each step, of each layer and head; empty where tokens are not (x, y)


@gated
def weight_path(training: Training) -> WeightPath:
    """The products along a training: of a checkpoint by name or path, or of a mapping from step to model.

    **Raises** `ZooError` if no step is stored, or the models have no attention layer.
    """
    models = stored_models(training)
    layers = tuple(gauge_fixed(model) for model in models.values())
    return WeightPath(tuple(models), layers, tuple(steps_where_implied(model) for model in models.values()))
