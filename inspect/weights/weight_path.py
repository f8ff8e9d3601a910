"""The weights along a training."""

from dataclasses import dataclass
from typing import Any

from ...zoo.checks.gate import gated
from ...zoo.errors import ZooError
from ..stored_steps import Training, stored_models
from .implied_step import StepReading, read_step
from .products import Products, gauge_fixed, products


@dataclass(frozen=True)
class WeightPath:
    """The gauge-fixed products at each stored step, and the step of GD++ they spell where they spell one."""

    steps: tuple[int, ...]
    layers: tuple[tuple[Products, ...], ...]  # at each step, of each layer
    readings: tuple[
        tuple[StepReading, ...], ...
    ]  # at each step, of each layer and head; empty where tokens are not (x, y)


@gated
def weight_path(training: Training) -> WeightPath:
    """The products along a training: of a checkpoint by name or path, or of a mapping from step to model.

    **Raises** `ZooError` if no step is stored, or the models have no attention layer.
    """
    models = stored_models(training)
    layers = tuple(gauge_fixed(model) for model in models.values())
    return WeightPath(tuple(models), layers, tuple(_readings(model) for model in models.values()))


def _readings(model: Any) -> tuple[StepReading, ...]:
    try:
        return tuple(reading for layer in products(model) for reading in read_step(layer))
    except ZooError:
        return ()
