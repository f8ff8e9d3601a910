"""What the stored steps of a run say of its weights, its loss and its likeness to an algorithm."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from ...train.losses import over_tasks, squared_error
from ...train.tasks.regression import Task
from ...train.tuning.step_size import has_optimal_step_size, optimal_step_size
from ...zoo.checks.gate import gated
from ...zoo.errors import NotApplicable, ZooError
from ...zoo.prompt import Learner
from ..estimates.means import finite_mean
from ..stored_steps import Training, stored_models
from ..weights.products import Products, StepReading, gauge_fixed, products, read_step
from .alignment import Alignment, Mean, alignment


@dataclass(frozen=True)
class WeightPath:
    """The gauge-fixed products at each stored step, and the step of GD++ they spell where they spell one."""

    steps: tuple[int, ...]
    layers: tuple[tuple[Products, ...], ...]  # at each step, of each layer
    readings: tuple[
        tuple[StepReading, ...], ...
    ]  # at each step, of each layer and head; empty where tokens are not (x, y)


@dataclass(frozen=True)
class AlignmentPath:
    """Half-MSE at each stored step, beside one algorithm's, and the three measures of alignment with it, on the same tasks."""

    steps: tuple[int, ...]
    half_mse: tuple[Mean, ...]
    alignments: tuple[Alignment, ...]
    baseline: str
    baseline_half_mse: Mean
    one_step_half_mse: (
        float | None
    )  # the least of one step of gradient descent, exact; None where no closed form is known


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
def weight_path(training: Training) -> WeightPath:
    """The products along a training: of a checkpoint by name or path, or of a mapping from step to model.

    **Raises** `ZooError` if no step is stored, or the models have no attention layer.
    """
    models = stored_models(training)
    layers = tuple(gauge_fixed(model) for model in models.values())
    return WeightPath(tuple(models), layers, tuple(_readings(model) for model in models.values()))


@gated
def alignment_path(
    training: Training, name: str, baseline: Learner, task: Task, *, num_tasks: int = 2_000, key: PRNGKeyArray
) -> AlignmentPath:
    """Loss and alignment with `baseline`, called `name`, along a training. von Oswald et al. 2023, Figure 2.

    **Raises** `ZooError` if no step is stored.
    """
    models = stored_models(training)
    losses = [_half_mse(model, task, num_tasks, key) for model in models.values()]
    aligned = [alignment(model, baseline, task, num_tasks=num_tasks, key=key) for model in models.values()]
    return AlignmentPath(
        steps=tuple(models),
        half_mse=tuple(losses),
        alignments=tuple(aligned),
        baseline=name,
        baseline_half_mse=_half_mse(baseline, task, num_tasks, key),
        one_step_half_mse=optimal_step_size(task).half_mse if has_optimal_step_size(task) else None,
    )


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


def spread(steps: Sequence[int], number: int) -> list[int]:
    """The places of about `number` of the steps, spread evenly over them, the first and the last among them."""
    return sorted({round(place) for place in np.linspace(0, len(steps) - 1, min(number, len(steps)))})


def _half_mse(learner: Learner, task: Task, num_tasks: int, key: PRNGKeyArray) -> Mean:
    return finite_mean(over_tasks(squared_error, learner, task, num_tasks=num_tasks, key=key) / 2)


def _readings(model: Any) -> tuple[StepReading, ...]:
    try:
        return tuple(reading for layer in products(model) for reading in read_step(layer))
    except ZooError:
        return ()


def _shares(matrix: np.ndarray, input_dim: int) -> np.ndarray | None:
    total = (matrix**2).sum()
    if not np.isfinite(total) or total == 0:
        return None
    parts = slice(input_dim), slice(input_dim, None)
    return np.array([[(matrix[rows, columns] ** 2).sum() / total for columns in parts] for rows in parts])
