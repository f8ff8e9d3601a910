"""The step of GD++ that each layer takes on real prompts, read from its weights and fitted to what it does."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ...train.losses import over_tasks
from ...train.tasks.regression import Task
from ...zoo.checks.gate import gated
from ...zoo.errors import NotApplicable
from ...zoo.prompt import Prompt
from ...zoo.token_model import TokenModel
from ...zoo.trace import trace
from ..estimates.estimate import Estimate
from ..instrument import FIXED_KEY, OWN_TASK, register_instrument
from ..measurement import OnFigure
from ..weights.implied_step import implied_steps
from ..weights.weight_products import Products, attention_layers, product_distance, products

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

SHOWN_TASKS = 100  # whose eigenvalues are kept one by one
CHUNK = 500  # tasks at a time: spectra cost more than predictions


@dataclass(frozen=True)
class Reading:
    """(η/N, γ) of the step of GD++ nearest to a layer's products, in the space of Σ_h W_PV,h ⊗ W_KQ,h, and how far that is."""

    step_size_over_num_examples: float | None
    gamma: float | None
    distance: (
        float | None
    )  # `product_distance` to that step; `None` where the step is zero or the weights are not finite


@dataclass(frozen=True)
class LayerStep:
    """One application of one layer, fitted as a step of GD++ on the tokens it met."""

    layer: str  # its tree path; one layer applied several times comes several times
    step_size_over_num_examples: Estimate  # η/N, with its standard error over tasks
    gamma: Estimate
    unexplained_y: float | None  # the share of Σ‖Δy‖² that the fitted step leaves; `None` where nothing moved
    unexplained_x: float | None  # the same of Σ‖Δx‖²
    weights: Reading | None  # the same two numbers from the products; `None` where attention is not linear
    gamma_matters: bool  # false in the last layer: nothing reads the inputs any more


@dataclass(frozen=True)
class Spread:
    """A median over tasks and what lies around it; `None` where it is undefined or infinite."""

    median: float | None
    quartiles: tuple[float | None, float | None]
    num_undefined: int  # tasks left out, having no condition number


@dataclass(frozen=True, repr=False)
class FittedSteps(OnFigure):
    """The layers of a model as steps of GD++, and what they do to the second moment H = Σᵢ xᵢ xᵢᵀ of the context.

    `eigenvalues` are those of H before each layer; `mapped` are vᵀH'v of H' after it, v being the eigenvectors before it: GD++ maps
    λ ↦ λ(1 − γλ)². Both are kept for the first few tasks. `condition_numbers` are λ_max/λ_min of H before the first and after each
    layer, over the min(N, d) eigenvalues that can be positive.
    """

    layers: tuple[LayerStep, ...]
    eigenvalues: Float[np.ndarray, "num_layers num_shown num_eigenvalues"]
    mapped: Float[np.ndarray, "num_layers num_shown num_eigenvalues"]
    condition_numbers: tuple[Spread, ...]  # num_layers + 1 of them
    num_tasks: int
    num_not_finite: int  # tasks left out of the fits

    title = "layers as steps of GD++"

    @property
    def summary(self) -> str:
        return "How each layer maps the eigenvalues of the examples, and the condition numbers it leaves."

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "layer": layer.layer,
                "application": place + 1,
                "step_size_over_num_examples": layer.step_size_over_num_examples,
                "gamma": layer.gamma,
                "unexplained_y": layer.unexplained_y,
                "unexplained_x": layer.unexplained_x,
                "condition_number": self.condition_numbers[place + 1].median,
            }
            for place, layer in enumerate(self.layers)
        ]

    def draw(self, figure: "Figure | SubFigure | None", **options: Any) -> "Figure | SubFigure":
        from .layers_as_steps_plot import fitted_steps_figure

        return fitted_steps_figure(self, figure=figure, **options)


@register_instrument(
    "fitted-steps",
    title="Layers as steps of GD++",
    question="η and γ fitted to what each layer does to the tokens, the map of eigenvalues λ(1 − γλ)² this implies, and "
    "the condition number of the examples before and after each layer.",
    order=100,
)
@gated
def fitted_steps(
    model: Any, task: Task = OWN_TASK, *, num_tasks: int = 2_000, key: PRNGKeyArray = FIXED_KEY
) -> FittedSteps:
    """Fit a step of GD++ to every layer of a model over (x, y) tokens, by least squares in what the layer adds to its tokens.

        Δyⱼ ≈ −(η/N) Σᵢ yᵢ (xᵢᵀxⱼ),   Δxⱼ ≈ −γ Σᵢ xᵢ (xᵢᵀxⱼ)

    over all tasks and all tokens j the layer updates: the query alone in the last one. γ is that of H = Σᵢ xᵢ xᵢᵀ, without 1/N.
    von Oswald et al. 2023, appendix A.10.

    **Raises** `ZooError` if the tokens of the model are not (x, y).
    """
    if not isinstance(model, TokenModel) or model.joint is None:
        raise NotApplicable(
            f"steps of GD++ are fitted to models over (x, y) tokens, and {type(model).__name__} is none"
        )
    with jax.default_matmul_precision("highest"):
        measured = over_tasks(_measure, model, task, num_tasks=num_tasks, key=key, chunk=CHUNK)
    sums, sigma, eigenvalues, mapped = measured
    finite = np.isfinite(sums).all(axis=(1, 2, 3)) & np.isfinite(sigma).all(axis=(1, 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        condition_numbers = (sigma[:, :, 0] / sigma[:, :, -1]) ** 2
    names, implied = _implied_steps(model)
    layers = []
    for k, name in enumerate(names):
        (eta, unexplained_y), (gamma, unexplained_x) = (_slope(sums[finite, k, part]) for part in (0, 1))
        layers.append(
            LayerStep(
                layer=name,
                step_size_over_num_examples=eta,
                gamma=gamma,
                unexplained_y=unexplained_y,
                unexplained_x=unexplained_x,
                weights=implied.get(name),
                gamma_matters=k < len(names) - 1,
            )
        )
    return FittedSteps(
        layers=tuple(layers),
        eigenvalues=eigenvalues[:SHOWN_TASKS].swapaxes(0, 1),
        mapped=mapped[:SHOWN_TASKS].swapaxes(0, 1),
        condition_numbers=tuple(_spread(column) for column in condition_numbers.T),
        num_tasks=num_tasks,
        num_not_finite=int((~finite).sum()),
    )


def _measure(model: TokenModel, prompt: Prompt, _: Array) -> tuple[Array, Array, Array, Array]:
    """Of each layer: the sums the two slopes are made of, and the spectrum of H before and after it."""
    residual, d = trace(model, prompt).residual, model.input_dim
    sums, eigenvalues, mapped, sigmas = [], [], [], []
    for k, (before, after) in enumerate(pairwise(residual)):
        context = model.context(before)
        tokens = slice(-1, None) if k == len(residual) - 2 else slice(None)
        moment = context[:, :d].T @ context  # Σᵢ xᵢ (xᵢ, yᵢ)ᵀ
        predicted, update = -(before[tokens, :d] @ moment), (after - before)[tokens]
        products = jnp.stack([predicted * update, predicted**2, update**2])
        sums.append(jnp.stack([products[:, :, d:].sum(axis=(1, 2)), products[:, :, :d].sum(axis=(1, 2))]))
        _, sigma, directions = jnp.linalg.svd(context[:, :d], full_matrices=False)
        sigmas.append(sigma)
        eigenvalues.append(sigma**2)
        mapped.append(((model.context(after)[:, :d] @ directions.T) ** 2).sum(axis=0))
    sigmas.append(jnp.linalg.svd(model.context(residual[-1])[:, :d], full_matrices=False, compute_uv=False))
    return jnp.stack(sums), jnp.stack(sigmas), jnp.stack(eigenvalues), jnp.stack(mapped)


def _slope(sums: Float[np.ndarray, "num_tasks 3"]) -> tuple[Estimate, float | None]:
    """The least-squares slope of update on prediction, its standard error over tasks, and the share left unexplained."""
    product, square, total = sums.sum(axis=0)
    if len(sums) == 0 or square == 0:
        return Estimate(None, None), None
    slope = product / square
    left = sums[:, 0] - slope * sums[:, 1]  # each task's pull on the slope
    error = float(left.std(ddof=1) * len(sums) ** 0.5 / square) if len(sums) > 1 else None
    return Estimate(float(slope), error), float(max(1 - slope * product / total, 0.0)) if total > 0 else None


def _implied_steps(model: TokenModel) -> tuple[list[str], dict[str, Reading]]:
    """The name of every layer in the order of application, and the reading of those that are linear."""
    names = {id(layer): name for name, layer in attention_layers(model).items()}
    applied = [names.get(id(layer), f"layer {k + 1}") for k, layer in enumerate(model.stack)]
    return applied, {layer.name: _read(layer) for layer in products(model) if layer.is_linear and layer.input_dim}


def _read(layer: Products) -> Reading:
    """Heads add, and so do their implied: the sums are the least-squares fit of Σ_h W_PV,h ⊗ W_KQ,h."""
    heads = implied_steps(layer)
    eta, gamma = (sum(getattr(h, name) for h in heads) for name in ("step_size_over_num_examples", "gamma"))
    if not np.isfinite([eta, gamma]).all():
        return Reading(None, None, None)
    d, rest = layer.input_dim or 0, len(layer.labels) - (layer.input_dim or 0)
    W_KQ, W_PV = np.diag([1.0] * d + [0.0] * rest), np.diag([-gamma] * d + [-eta] * rest)
    step = replace(layer, W_KQ=W_KQ[None], W_PV=W_PV[None])
    distance = product_distance(layer, step) if W_PV.any() else None
    return Reading(float(eta), float(gamma), distance if distance is not None and np.isfinite(distance) else None)


def _spread(values: Float[np.ndarray, " num_tasks"]) -> Spread:
    defined = values[~np.isnan(values)]
    if len(defined) == 0:
        return Spread(None, (None, None), len(values))
    low, median, high = (
        float(q) if np.isfinite(q) else None for q in np.quantile(defined, [0.25, 0.5, 0.75], method="lower")
    )
    return Spread(median, (low, high), len(values) - len(defined))
