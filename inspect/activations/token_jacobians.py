"""Whether the first layer brings tokens together, from how its output moves with each token."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ...train.losses import over_tasks, squared_error
from ...train.tasks.regression import Task
from ...zoo.checks.gate import gated
from ...zoo.errors import NotApplicable
from ...zoo.prompt import Prompt
from ...zoo.token_model import TokenModel
from ..estimates.estimate import Estimate
from ..estimates.means import finite_mean
from ..instrument import FIXED_KEY, OWN_TASK, register_instrument
from ..measurement import OnFigure
from ..stored_steps import Training, stored_models

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

NUM_TASKS = 1000
CHUNK = 50  # tasks at once: a Jacobian between all tokens is large


@dataclass(frozen=True)
class DerivativeNorms:
    """How far the first layer's output t at an input's token moves with that token, with the next one, and with any other.

    By default ‖∂t(e_j)/∂e_i‖_F for each task, then the mean over tasks and over the tokens e_j of the examples' inputs: `own` is i = j,
    `next` is i = j + 1, the token of its label, and `other` is every other token, the next one not among them.
    """

    own: Estimate
    next: Estimate
    other: Estimate
    num_tasks: int


@dataclass(frozen=True)
class CopyingPath:
    """Derivative norms and half-MSE over the stored steps of a training."""

    steps: tuple[int, ...]
    norms: tuple[DerivativeNorms, ...]
    half_mse: tuple[Estimate, ...]


@dataclass(frozen=True)
class TokenMap:
    """‖∂t(e_j)/∂e_i‖_F, mean over tasks: a row for each token j of the first layer's output, a column for each token i of its input."""

    norms: Float[np.ndarray, "num_tokens num_tokens"]
    labels: tuple[str, ...]  # of the tokens
    num_tasks: int


@dataclass(frozen=True, repr=False)
class Copying(OnFigure):
    """The copying phase of a training, and the token map at its end."""

    path: CopyingPath
    tokens: TokenMap

    title = "derivative norms of the first layer over training"

    @property
    def summary(self) -> str:
        return "Derivative norms of the first layer over training, and token by token at the end."

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"step": step, "own": norms.own, "next": norms.next, "other": norms.other, "half_mse": half_mse}
            for step, norms, half_mse in zip(self.path.steps, self.path.norms, self.path.half_mse, strict=True)
        ]

    def draw(self, figure: "Figure | SubFigure | None", **options: Any) -> "Figure | SubFigure":
        from .token_jacobians_plot import copying_figure

        return copying_figure(self.path, self.tokens, figure=figure, **options)


@register_instrument(
    "copying",
    title="Copying phase",
    question="How the first layer's output at an input's token moves with that token, with its label's and with others.",
    cost="minutes, where many steps are stored",
    order=180,
)
@gated
def copying(
    training: Training, task: Task = OWN_TASK, *, num_tasks: int = NUM_TASKS, key: PRNGKeyArray = FIXED_KEY
) -> Copying:
    """`copying_path`, and the `token_map` of the last stored step. **Raises** `NotApplicable` like `derivative_norms`."""
    models = stored_models(training)
    path = copying_path(models, task, num_tasks=num_tasks, key=key)
    return Copying(path, token_map(models[path.steps[-1]], task, num_tasks=num_tasks, key=key))


@gated
def derivative_norms(model: Any, task: Task, *, num_tasks: int = NUM_TASKS, key: PRNGKeyArray) -> DerivativeNorms:
    """`DerivativeNorms` of a model over interleaved tokens. After von Oswald et al. 2023, Figure 5.

    **Raises** `ZooError` if x and y do not have tokens of their own.
    """
    return _summary(over_tasks(_token_map, _checked(model), task, num_tasks=num_tasks, key=key, chunk=CHUNK))


@gated
def token_map(model: Any, task: Task, *, num_tasks: int = NUM_TASKS, key: PRNGKeyArray) -> TokenMap:
    """The whole map of derivative norms, token by token. **Raises** `ZooError` like `derivative_norms`."""
    maps = over_tasks(_token_map, _checked(model), task, num_tasks=num_tasks, key=key, chunk=CHUNK)
    examples = (name for i in range(task.num_examples) for name in (f"x{i + 1}", f"y{i + 1}"))
    return TokenMap(norms=maps.mean(axis=0), labels=(*examples, "query"), num_tasks=num_tasks)


@gated
def official_derivative_norms(
    model: Any, task: Task, *, num_tasks: int = NUM_TASKS, key: PRNGKeyArray
) -> Mapping[str, float]:
    """The same three by the definition of the paper's code, for comparison with its figure; keys "own", "next" and "other".

        g_ji = mean over tasks of ∂(Σ_o t(e_j)_o)/∂u_i,   own = mean_j ‖g_jj‖,   next = mean_j ‖g_j,j+1‖

    u_i are the entries of token i that hold x or y, and j runs over all tokens but the last two. The derivatives of all outputs are added
    up and averaged before the norm is taken, so that signs cancel; "other" sums over every token but j, the next one among them,
    and divides by two less than their number. The residual stream alone gives own = √max(input_dim, output_dim), 3.16 at ten inputs.
    """
    gradients = over_tasks(_summed_gradients, _checked(model), task, num_tasks=num_tasks, key=key, chunk=CHUNK).mean(
        axis=0
    )
    norms = np.linalg.norm(gradients, axis=-1)
    tokens = np.arange(len(norms) - 2)
    own, following = norms[tokens, tokens], norms[tokens, tokens + 1]
    other = (norms[tokens].sum(axis=1) - own) / (len(norms) - 2)
    return {"own": float(own.mean()), "next": float(following.mean()), "other": float(other.mean())}


@gated
def copying_path(training: Training, task: Task, *, num_tasks: int = NUM_TASKS, key: PRNGKeyArray) -> CopyingPath:
    """Derivative norms and half-MSE at each stored step: of a checkpoint by name or path, or of a mapping from step to model.

    **Raises** `ZooError` like `derivative_norms`, and if no step is stored.
    """
    models = stored_models(training)
    measured = [
        over_tasks(_map_and_error, _checked(model), task, num_tasks=num_tasks, key=key, chunk=CHUNK)
        for model in models.values()
    ]
    return CopyingPath(
        steps=tuple(models),
        norms=tuple(_summary(maps) for maps, _ in measured),
        half_mse=tuple(finite_mean(errors / 2) for _, errors in measured),
    )


def _checked(model: Any) -> TokenModel:
    if not isinstance(model, TokenModel):
        raise NotApplicable(f"{type(model).__name__} has no tokens, so there is nothing to copy between them")
    if model.example_tokens != ("x", "y"):
        raise NotApplicable(f"{type(model).__name__} has x and y in one token, so there is nothing to copy")
    return model


def _first_layer(model: TokenModel, tokens: Array) -> Array:
    return model.advance(tokens, model.stack[0](tokens, model.context(tokens)))


def _jacobian(model: TokenModel, prompt: Prompt) -> Float[Array, "num_tokens embed_dim num_tokens embed_dim"]:
    return jax.jacrev(lambda tokens: _first_layer(model, tokens))(model.embed(prompt))


def _token_map(model: TokenModel, prompt: Prompt, target: Array) -> Float[Array, "num_tokens num_tokens"]:
    return jnp.sqrt((_jacobian(model, prompt) ** 2).sum(axis=(1, 3)))


def _map_and_error(model: TokenModel, prompt: Prompt, target: Array) -> tuple[Array, Array]:
    return _token_map(model, prompt, target), squared_error(model, prompt, target)


def _summed_gradients(model: TokenModel, prompt: Prompt, target: Array) -> Float[Array, "num_tokens num_tokens width"]:
    values = slice(model.subspaces["y"].stop)
    return _jacobian(model, prompt).sum(axis=1)[..., values]


def _summary(maps: Float[np.ndarray, "num_tasks num_tokens num_tokens"]) -> DerivativeNorms:
    num_tasks, num_tokens, _ = maps.shape
    inputs = np.arange(0, num_tokens - 1, 2)  # the tokens of x₁ … x_N; each is followed by its label
    own, following = maps[:, inputs, inputs], maps[:, inputs, inputs + 1]
    other = (maps[:, inputs].sum(axis=2) - own - following) / (num_tokens - 2)
    return DerivativeNorms(
        own=finite_mean(own.mean(axis=1)),
        next=finite_mean(following.mean(axis=1)),
        other=finite_mean(other.mean(axis=1)),
        num_tasks=num_tasks,
    )
