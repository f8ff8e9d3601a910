"""The loss that the examples of one prompt define over the weights, where there are two inputs, and the steps taken on it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ...train.tasks.regression import Task
from ...train.tuning.baselines import best_baseline
from ...zoo.algorithms.gradient_descent import GradientDescent
from ...zoo.checks.gate import gated
from ...zoo.errors import NotApplicable
from ...zoo.prompt import Learner, Prompt
from ..instrument import FIXED_KEY, OWN_TASK, register_instrument
from ..measurement import OnFigure
from .alignment import sensitivity

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

Point = Float[np.ndarray, "2"]
MARGIN = 1.4  # how far a landscape reaches beyond the farthest point of interest


@dataclass(frozen=True)
class Landscape:
    """L(w) = 1/(2N) Σᵢ (w·xᵢ − yᵢ)² of one prompt on a square around w = 0, and where learners go from there."""

    ticks: Float[np.ndarray, " num_ticks"]  # of both w1 and w2
    loss: Float[np.ndarray, "num_ticks num_ticks"]  # rows: w2, columns: w1
    step: Point | None  # ∂ŷ/∂x_query of the learner, the weights it implies; None where not finite, here and below
    descent: Point | None  # (η/N) Σᵢ yᵢ xᵢ, one step of gradient descent from w = 0
    least_squares: Point | None  # the shortest w of least L
    step_size: float  # η


@dataclass(frozen=True, repr=False)
class Landscapes(OnFigure):
    """The landscapes of several prompts."""

    prompts: tuple[Landscape, ...]

    title = "where one prompt's loss sends the weights"

    @property
    def summary(self) -> str:
        return (
            f"The quadratic loss of {len(self.prompts)} tasks, with the learner's step and the gradient step as arrows."
        )

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"prompt": place, "point": point, "w1": where[0], "w2": where[1]}
            for place, one in enumerate(self.prompts)
            for point in ("step", "descent", "least_squares")
            if (where := getattr(one, point)) is not None
        ]

    def draw(self, figure: "Figure | SubFigure | None", **options: Any) -> "Figure | SubFigure":
        from .landscapes_plot import landscapes_figure

        return landscapes_figure(self.prompts, figure=figure, **{"name": self.about.learner, **options})


@register_instrument(
    "landscapes",
    title="Task landscapes",
    question="The quadratic loss of single tasks of two inputs, with the learner's implied step and the gradient step.",
    order=150,
)
@gated
def landscapes(
    learner: Learner,
    task: Task = OWN_TASK,
    *,
    num_prompts: int = 6,
    step_size: float | None = None,
    resolution: int = 81,
    key: PRNGKeyArray = FIXED_KEY,
) -> Landscapes:
    """The landscapes of `num_prompts` prompts, each on a square that holds both steps and the solution.

    A learner that is linear in the query, as one layer of linear attention is, predicts ŷ = w·x_query with w = ∂ŷ/∂x_query: its step
    ends at w. For other learners w belongs to this query. η is `step_size`, by default the best single step on `task`.

    **Raises** `ZooError` unless `task` has two inputs and one output, and `learner` reads them.
    """
    for setting, needed in (("input_dim", 2), ("output_dim", 1)):
        if (given := getattr(task, setting)) != needed:
            raise NotApplicable(f"a landscape needs {setting} {needed}, but the task has {given}")
    if step_size is None:
        step_size = float(best_baseline("gd-1", task).step_size)
    prompts, _ = task.sample_batch(key, num_prompts)
    points = [
        np.asarray(p, np.float64) for p in _points(learner, GradientDescent(step_size), prompts)
    ]  # [num_prompts, 2]
    xs, ys = (np.asarray(a, np.float64) for a in (prompts.xs, prompts.ys))
    return Landscapes(
        tuple(
            _landscape(x, y[:, 0], *(point[i] for point in points), step_size, resolution)  # pyright: ignore[reportCallIssue]
            for i, (x, y) in enumerate(zip(xs, ys, strict=True))
        )
    )


def _landscape(
    xs, ys, step: Point, descent: Point, least_squares: Point, step_size: float, resolution: int
) -> Landscape:
    sizes = np.abs(np.concatenate([step, descent, least_squares]))
    reach = MARGIN * float(sizes[np.isfinite(sizes)].max(initial=0.0)) or 1.0
    ticks = np.linspace(-reach, reach, resolution)
    weights = np.stack(np.meshgrid(ticks, ticks), axis=-1)  # [w2, w1, 2]
    return Landscape(
        ticks=ticks,
        loss=((weights @ xs.T - ys) ** 2).mean(axis=-1) / 2,
        step=_finite(step),
        descent=_finite(descent),
        least_squares=_finite(least_squares),
        step_size=step_size,
    )


@eqx.filter_jit
def _points(learner: Learner, descent: GradientDescent, prompts: Prompt) -> tuple[Array, Array, Array]:
    """The learner's implied weights, those of one step of gradient descent, and the least-squares solution."""

    def of_one(prompt: Prompt) -> tuple[Array, Array, Array]:
        shortest, *_ = jnp.linalg.lstsq(prompt.xs, prompt.ys[:, 0])
        return sensitivity(learner, prompt)[0], descent.weights(prompt)[0], shortest

    return eqx.filter_vmap(of_one)(prompts)


def _finite(point: Point) -> Point | None:
    return point if np.isfinite(point).all() else None
