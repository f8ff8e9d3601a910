"""What each head and each layer is worth: the loss without it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ...train.losses import over_tasks
from ...train.tasks.task import Task
from ...zoo.checks.gate import gated
from ...zoo.errors import NotApplicable
from ...zoo.interventions import HeadOutput, heads_of, run_with
from ...zoo.token_model import TokenModel
from ..estimates.estimate import Estimate
from ..estimates.means import finite_mean
from ..instrument import FIXED_KEY, OWN_TASK, register_instrument
from ..measurement import OnAxes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = ("zero", "mean")


@dataclass(frozen=True)
class Ablation:
    """The half-MSE with some heads of one layer taken out, on the same tasks as the intact model."""

    layer: int
    heads: tuple[int, ...]
    kind: str  # "zero", or "mean": the head's mean output over tasks stands in its place
    half_mse: Estimate
    excess: Estimate  # over the intact model, paired


@dataclass(frozen=True, repr=False)
class Ablations(OnAxes):
    """Every head taken out, and every layer with all its heads."""

    intact: Estimate
    ablations: tuple[Ablation, ...]
    num_tasks: int

    title = "half-MSE without a head"

    @property
    def summary(self) -> str:
        worth = max(self.ablations, key=lambda one: one.excess.value if one.excess.value is not None else -np.inf)
        return f"Half-MSE without each head: most is lost without layer {worth.layer}, {worth.excess.text()} more."

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "layer": one.layer,
                "heads": " ".join(map(str, one.heads)),
                "ablation": one.kind,
                "half_mse": one.half_mse,
                "excess": one.excess,
            }
            for one in self.ablations
        ]

    def draw(self, ax: "Axes", **options: Any) -> None:
        from .ablations_plot import ablation_bars

        ablation_bars(self, ax=ax, **options)


@register_instrument(
    "ablations",
    title="What each head is worth",
    cost="seconds; a minute for many heads",
    question="The half-MSE with the output of a head, or of all heads of a layer, replaced by zero or by its mean over tasks.",
    order=165,
)
@gated
def ablations(model: Any, task: Task = OWN_TASK, *, num_tasks: int = 1_000, key: PRNGKeyArray = FIXED_KEY) -> Ablations:
    """The half-MSE without each head, and without all heads of each layer.

    Args:
        model: a model of attention layers.
        task: the prompts.
        num_tasks: how many.
        key: of the tasks.

    Raises:
        NotApplicable: the model has no layers with heads.

    Example:
        >>> iclzoo.ablations("lsa-fast", num_tasks=50).records()[0]["ablation"]
        'zero'
    """
    if not isinstance(model, TokenModel):
        raise NotApplicable(f"{type(model).__name__} has no layers over tokens, so it has no heads to take out")
    sites = heads_of(model)
    outputs = over_tasks(_outputs, model, task, num_tasks=min(num_tasks, 500), key=key, chunk=100)
    means = tuple(jnp.asarray(output.mean(axis=0)) for output in outputs)
    cases = _cases(sites)
    masks = np.array([[site.layer == layer and site.head in heads for site in sites] for layer, heads in cases])
    masks = np.concatenate([np.zeros((1, len(sites)), bool), masks])
    errors = over_tasks(_errors, (model, means, jnp.asarray(masks)), task, num_tasks=num_tasks, key=key, chunk=500)
    losses = errors / 2  # [num_tasks, zero or mean, intact and cases]
    intact = losses[:, 0, 0]
    return Ablations(
        intact=finite_mean(intact),
        ablations=tuple(
            Ablation(layer, heads, kind, finite_mean(losses[:, k, c + 1]), finite_mean(losses[:, k, c + 1] - intact))
            for c, (layer, heads) in enumerate(cases)
            for k, kind in enumerate(KINDS)
        ),
        num_tasks=num_tasks,
    )


def _cases(sites: Sequence[HeadOutput]) -> list[tuple[int, tuple[int, ...]]]:
    """Every head by itself, and all of a layer where it has several."""
    of_layer: dict[int, list[int]] = {}
    for site in sites:
        of_layer.setdefault(site.layer, []).append(site.head)
    singles = [(site.layer, (site.head,)) for site in sites]
    return singles + [(layer, tuple(heads)) for layer, heads in of_layer.items() if len(heads) > 1]


def _outputs(model: TokenModel, prompt, target) -> tuple[Array, ...]:
    return run_with(model, prompt, record=heads_of(model)).values


def _errors(settings: tuple[TokenModel, tuple[Array, ...], Array], prompt, target) -> Array:
    """‖ŷ − y‖² by what stands in place of the heads that are taken out, for each mask of heads: one program for all."""
    model, means, masks = settings
    sites = heads_of(model)

    def error(mask: Array, instead: float) -> Array:
        changes = {
            site: lambda value, out=out, mean=mean: jnp.where(out, instead * mean, value)
            for site, out, mean in zip(sites, mask, means, strict=True)
        }
        return ((run_with(model, prompt, changes).prediction - target) ** 2).sum()

    return jnp.stack([jax.lax.map(lambda mask, instead=instead: error(mask, instead), masks) for instead in (0.0, 1.0)])
