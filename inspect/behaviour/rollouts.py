"""A layer applied again and again, each update damped, beside as many steps of gradient descent; and read-outs layer by layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ...train.losses import over_tasks
from ...train.tasks.regression import Task
from ...train.tuning.baselines import best_baseline
from ...zoo.checks.gate import gated
from ...zoo.constructions.gradient_descent_step import gradient_descent_lsa
from ...zoo.errors import NotApplicable
from ...zoo.token_model import TokenModel
from ...zoo.trace import trace
from ..estimates.estimate import Estimate
from ..estimates.means import finite_mean, finite_median, half_mse_of
from ..instrument import FIXED_KEY, OWN_TASK, register_instrument
from ..measurement import OnAxes, OnFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

DAMPINGS = (1.0, 0.9, 0.75, 0.5)
# An update that has fallen to this share of the first is rounding, whether it grows or not.
ROUNDING = 1e-4


@dataclass(frozen=True)
class Rollout:
    """The loss after 0, 1, 2, … applications at one damping.

    A task is called diverging if the last update of its examples' tokens, in Frobenius norm, is larger than the one before it (and
    than `ROUNDING` times the first), or not finite. Where gradient descent converges these updates only shrink; that of the query's
    token may grow for a while. A mean is undefined where a task's error is not finite; a median counts that as infinite.
    """

    damping: float
    mean: tuple[Estimate, ...]  # half-MSE
    median: tuple[float | None, ...]  # of ½‖ŷ − y‖²
    diverging: Estimate  # share of tasks
    num_diverging: int


@dataclass(frozen=True, repr=False)
class Rollouts(OnFigure):
    """A model's layer applied repeatedly, and a step of gradient descent repeated as often, on the same tasks."""

    model: tuple[Rollout, ...]  # one for each damping λ
    descent: tuple[Rollout, ...]  # steps of size λη
    step_size: float  # η
    num_beyond_bound: tuple[
        int, ...
    ]  # tasks with (λη/N)·λ_max(XᵀX) > 2, on which gradient descent diverges, for each λ
    num_tasks: int

    title = "the layer applied again and again"

    @property
    def summary(self) -> str:
        return "Half-MSE against repeated application, for several dampings; and the share of diverging tasks."

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "learner": whose,
                "damping": rolled.damping,
                "applications": applications,
                "half_mse": mean,
                "median": median,
                "diverging": rolled.diverging,
            }
            for whose, every in ((self.about.learner, self.model), ("gradient descent", self.descent))
            for rolled in every
            for applications, (mean, median) in enumerate(zip(rolled.mean, rolled.median, strict=True))
        ]

    def draw(self, figure: "Figure | SubFigure | None", **options: Any) -> "Figure | SubFigure":
        from .rollouts_plot import rollouts_figure

        return rollouts_figure(self, figure=figure, **{"name": self.about.learner, **options})


@dataclass(frozen=True, repr=False)
class ReadOuts(OnAxes):
    """The loss of the prediction read out after 0, 1, 2, … layers."""

    mean: tuple[Estimate, ...]  # half-MSE
    median: tuple[float | None, ...]  # of ½‖ŷ − y‖²
    num_tasks: int

    title = "half-MSE of the prediction after every layer"
    size = (4.8, 3.6)

    @property
    def summary(self) -> str:
        return f"Half-MSE of the prediction read out after every layer: {self.mean[-1].text()} after the last."

    def rows(self) -> list[dict[str, Any]]:
        stages = zip(self.mean, self.median, strict=True)
        return [{"layers": stage, "half_mse": mean, "median": median} for stage, (mean, median) in enumerate(stages)]

    def draw(self, ax: "Axes", **options: Any) -> None:
        from .rollouts_plot import read_out_curve

        read_out_curve(self, ax=ax, **{"name": self.about.learner, **options})


@register_instrument(
    "rollouts",
    title="Repeated application",
    question="The layer applied again and again with damping λ, beside as many damped steps of gradient descent.",
    order=120,
)
@gated
def rollouts(
    model: Any,
    task: Task = OWN_TASK,
    *,
    dampings: Sequence[float] = DAMPINGS,
    num_applications: int = 30,
    step_size: float | None = None,
    num_tasks: int = 10_000,
    key: PRNGKeyArray = FIXED_KEY,
) -> Rollouts:
    """Apply the one layer of `model` `num_applications` times for each damping λ.

        eⱼ ← eⱼ + λ · layer(eⱼ),   beside   W ← W − λ(η/N) Σᵢ (W xᵢ − yᵢ) xᵢᵀ from W₀ = 0

    λ comes on top of a damping of the model's own: λ = 1 is the model as it is. η is `step_size`, by default the best single step
    on `task`. von Oswald et al. 2023, appendix A.6.

    **Raises** `ZooError` if `model` is not one layer over tokens, applied once or several times, or there is nothing to apply.
    """
    check_one_layer(model)
    if step_size is None:
        step_size = float(best_baseline("gd-1", task).step_size)
    step = gradient_descent_lsa(
        [step_size], num_examples=task.num_examples, input_dim=task.input_dim, output_dim=task.output_dim
    )
    lambdas = jnp.asarray(dampings, jnp.result_type(float))
    own, other, largest = over_tasks(
        _roll_both, ((model, step), lambdas, num_applications), task, num_tasks=num_tasks, key=key
    )
    descents = np.asarray(lambdas, np.float64) * step_size / task.num_examples
    return Rollouts(
        model=_summaries(own, dampings),
        descent=_summaries(other, dampings),
        step_size=step_size,
        num_beyond_bound=tuple(int((a * largest > 2).sum()) for a in descents),
        num_tasks=num_tasks,
    )


@register_instrument(
    "read-outs",
    title="Read-out after every layer",
    question="What the query's token predicts on its way.",
    order=130,
)
@gated
def read_outs(model: Any, task: Task = OWN_TASK, *, num_tasks: int = 10_000, key: PRNGKeyArray = FIXED_KEY) -> ReadOuts:
    """The half-MSE of the prediction after every layer of a token model, as embedded first.

    **Raises** `ZooError` if `model` has no layers over tokens.
    """
    if not isinstance(model, TokenModel):
        raise NotApplicable(
            f"{type(model).__name__} has no layers over tokens, so nothing can be read out between them"
        )
    errors = over_tasks(_stage_errors, model, task, num_tasks=num_tasks, key=key)
    return ReadOuts(
        mean=half_mse_of(errors),
        median=tuple(finite_median(column / 2) for column in errors.T),
        num_tasks=num_tasks,
    )


@gated
def check_one_layer(model: Any) -> None:
    """**Raises** `ZooError` unless `model` is one layer over tokens, applied once or several times."""
    if not isinstance(model, TokenModel):
        raise NotApplicable(f"{type(model).__name__} has no layer over tokens that could be applied again")
    layers = {id(layer) for layer in model.stack}
    if len(layers) != 1:
        raise NotApplicable(
            f"a roll-out applies one layer again and again, but {type(model).__name__} has {len(layers)} layers"
        )


def _roll_both(settings: tuple[Any, Array, int], prompt, target) -> tuple[Any, Any, Array]:
    (model, step), dampings, num_applications = settings

    def roll(learner: TokenModel, damping: Array) -> tuple[Array, Array]:
        layer, embedded = learner.stack[0], learner.embed(prompt)

        def apply(tokens, _):
            new = learner.advance(tokens, damping * layer(tokens, learner.context(tokens)))
            return new, (_error(learner, new, target), jnp.linalg.norm((new - tokens)[:-1]))

        _, (errors, updates) = jax.lax.scan(apply, embedded, length=num_applications)
        grows = (updates[-1] > updates[-2]) & (updates[-1] > ROUNDING * updates[0]) if num_applications > 1 else False
        diverges = grows | ~jnp.isfinite(updates[-1])
        return jnp.concatenate([_error(learner, embedded, target)[None], errors]), diverges

    largest = jnp.linalg.eigvalsh(prompt.xs.T @ prompt.xs)[-1]
    own, other = (jax.vmap(lambda damping, m=m: roll(m, damping))(dampings) for m in (model, step))
    return own, other, largest


def _error(model: TokenModel, tokens: Array, target: Array) -> Array:
    return ((model.readout(tokens[-1]) - target) ** 2).sum()


def _stage_errors(model: TokenModel, prompt, target) -> Array:
    return ((trace(model, prompt).predictions - target[None]) ** 2).sum(axis=1)


def _summaries(rolled: tuple[np.ndarray, np.ndarray], dampings: Sequence[float]) -> tuple[Rollout, ...]:
    errors, diverges = rolled  # [num_tasks, num_dampings, num_applications + 1], [num_tasks, num_dampings]
    return tuple(
        Rollout(
            damping=float(damping),
            mean=half_mse_of(errors[:, i]),
            median=tuple(finite_median(column / 2) for column in errors[:, i].T),
            diverging=finite_mean(diverges[:, i]),
            num_diverging=int(diverges[:, i].sum()),
        )
        for i, damping in enumerate(dampings)
    )
