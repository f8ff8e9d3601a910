"""How alike two learners are, on the same prompts."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ...train.losses import over_tasks
from ...train.tasks.regression import Task
from ...zoo.checks.gate import gated, predict
from ...zoo.prompt import Learner, Prompt
from ..estimates.estimate import Estimate
from ..instrument import FIRST_BASELINE, FIXED_KEY, OWN_TASK, register_instrument
from ..measurement import OnFigure

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure


@dataclass(frozen=True, repr=False)
class Alignment(OnFigure):
    """The three measures of the paper, always together, with standard errors over tasks.

    `sensitivity` is ∂ŷ/∂x_query. A cosine with a sensitivity of zero is undefined: such tasks are left out of its mean
    and counted in `num_undefined`. Tasks where a learner's output is not finite are left out of every mean and counted in
    `num_not_finite`.
    """

    prediction_distance: Estimate  # mean of ‖ŷ − ŷ'‖₂
    prediction_mse: Estimate  # mean of ‖ŷ − ŷ'‖₂²
    sensitivity_distance: Estimate  # mean of ‖∂ŷ/∂x − ∂ŷ'/∂x‖_F
    sensitivity_cosine: Estimate  # mean of ⟨∂ŷ/∂x, ∂ŷ'/∂x⟩ / (‖∂ŷ/∂x‖ ‖∂ŷ'/∂x‖)
    num_tasks: int
    num_undefined: int
    num_not_finite: int

    title = "alignment"

    @property
    def summary(self) -> str:
        return (
            f"Prediction distance {self.prediction_distance.text()}, sensitivity distance {self.sensitivity_distance.text()}, "
            f"sensitivity cosine {self.sensitivity_cosine.text()}."
        )

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "learner": self.about.learner,
                "other": self.about.other,
                **{f.name: getattr(self, f.name) for f in fields(self)},
            }
        ]

    def draw(self, figure: "Figure | SubFigure | None", **options: Any) -> "Figure | SubFigure":
        from .alignment_plot import alignment_figure

        return alignment_figure(self, figure=figure, **options)


@gated
def sensitivity(learner: Learner, prompt: Prompt) -> Float[Array, "output_dim input_dim"]:
    """∂ŷ/∂x_query: how the prediction moves with the query."""
    return jax.jacrev(lambda query: predict(learner, eqx.tree_at(lambda p: p.query, prompt, query)))(prompt.query)


@register_instrument(
    "alignment",
    title="Alignment",
    question="How alike two learners are on the same prompts: the distance of their predictions and of their sensitivities "
    "∂ŷ/∂x_query, and the cosine of the latter.",
    order=25,
)
@gated
def alignment(
    learner: Learner,
    other: Learner = FIRST_BASELINE,
    task: Task = OWN_TASK,
    *,
    num_tasks: int = 10_000,
    key: PRNGKeyArray = FIXED_KEY,
) -> Alignment:
    """Compare two learners on the same tasks. von Oswald et al. 2023, section 3.

        prediction distance = E‖ŷ − ŷ'‖₂,   sensitivity distance = E‖s − s'‖_F,   cosine = E[⟨s, s'⟩/(‖s‖ ‖s'‖)],   s = ∂ŷ/∂x_query

    Args:
        learner: a learner, or the name or path of a checkpoint.
        other: another learner, or the name of a checkpoint or of an algorithm, tuned to the task.
        task: the prompts; those of the checkpoint's card unless given.
        num_tasks: how many.
        key: of the tasks.

    Example:
        >>> iclzoo.alignment("lsa-fast", "gd-1", num_tasks=100).sensitivity_cosine.value > 0.99
        True
    """
    distance, sensitivity_distance, cosine = over_tasks(_compare, (learner, other), task, num_tasks=num_tasks, key=key)
    finite = np.isfinite(distance) & np.isfinite(sensitivity_distance)
    defined = finite & np.isfinite(cosine)
    return Alignment(
        prediction_distance=Estimate.of(distance[finite]),
        prediction_mse=Estimate.of(distance[finite] ** 2),
        sensitivity_distance=Estimate.of(sensitivity_distance[finite]),
        sensitivity_cosine=Estimate.of(cosine[defined]),
        num_tasks=num_tasks,
        num_undefined=int((finite & ~defined).sum()),
        num_not_finite=int((~finite).sum()),
    )


def _compare(learners: tuple[Learner, Learner], prompt: Prompt, target: Array) -> tuple[Array, Array, Array]:
    (y, dy), (y_other, dy_other) = ((predict(learner, prompt), sensitivity(learner, prompt)) for learner in learners)
    cosine = (_unit(dy) * _unit(dy_other)).sum()
    return jnp.linalg.norm(y - y_other), jnp.linalg.norm(dy - dy_other), cosine


def _unit(array: Array) -> Array:
    """`array` at norm 1; NaN where its norm is zero. Scaled by its largest entry first, so that no square underflows."""
    array = array / jnp.abs(array).max()
    return array / jnp.linalg.norm(array)
