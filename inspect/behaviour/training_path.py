"""What the stored steps of a run say of its weights, its loss and its likeness to an algorithm."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jaxtyping import PRNGKeyArray

from ...train.losses import over_tasks, squared_error
from ...train.tasks.regression import Task
from ...train.tuning.step_size import has_optimal_step_size, optimal_step_size
from ...zoo.checks.gate import gated
from ...zoo.prompt import Learner
from ..estimates.estimate import Estimate
from ..estimates.means import finite_mean
from ..instrument import FIRST_BASELINE, FIXED_KEY, OWN_TASK, register_instrument
from ..measurement import OnFigure
from ..stored_steps import Training, stored_models
from ..weights.weight_path import WeightPath, weight_path
from .alignment import Alignment, alignment

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure


@dataclass(frozen=True)
class AlignmentPath:
    """Half-MSE at each stored step, beside one algorithm's, and the three measures of alignment with it, on the same tasks."""

    steps: tuple[int, ...]
    half_mse: tuple[Estimate, ...]
    alignments: tuple[Alignment, ...]
    baseline: str
    baseline_half_mse: Estimate
    one_step_half_mse: (
        float | None
    )  # the least of one step of gradient descent, exact; None where no closed form is known


@dataclass(frozen=True, repr=False)
class TrainingPath(OnFigure):
    """What the stored steps of a run say of its weights, its loss, and its likeness to an algorithm."""

    weights: WeightPath
    aligned: AlignmentPath

    title = "training"

    @property
    def summary(self) -> str:
        return f"Loss, alignment with {self.about.other or 'the other'}, and the steps that the weights imply, over training."

    def rows(self) -> list[dict[str, Any]]:
        path = self.aligned
        return [
            {
                "step": step,
                "half_mse": half_mse,
                "prediction_distance": measured.prediction_distance,
                "sensitivity_distance": measured.sensitivity_distance,
                "sensitivity_cosine": measured.sensitivity_cosine,
            }
            for step, half_mse, measured in zip(path.steps, path.half_mse, path.alignments, strict=True)
        ]

    def draw(self, figure: "Figure | SubFigure | None", **options: Any) -> "Figure | SubFigure":
        from .training_path_plot import training_figure

        named = replace(self.aligned, baseline=self.about.other or self.aligned.baseline)
        return training_figure(self.weights, named, figure=figure, **options)


@register_instrument(
    "training-path",
    title="Training",
    question="Half-MSE, alignment with the first baseline, and the steps that the weights imply, at every stored step.",
    order=60,
    formerly=("training",),
)
@gated
def training_path(
    training: Training,
    other: Learner = FIRST_BASELINE,
    task: Task = OWN_TASK,
    *,
    num_tasks: int = 2_000,
    key: PRNGKeyArray = FIXED_KEY,
) -> TrainingPath:
    """`weight_path`, and loss and alignment with `other`, along a training. **Raises** `NotApplicable` if no step is stored."""
    weights = weight_path(training)
    return TrainingPath(weights, alignment_path(training, "the other", other, task, num_tasks=num_tasks, key=key))


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


def _half_mse(learner: Learner, task: Task, num_tasks: int, key: PRNGKeyArray) -> Estimate:
    return finite_mean(over_tasks(squared_error, learner, task, num_tasks=num_tasks, key=key) / 2)
