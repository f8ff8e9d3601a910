"""What softmax heads compute together: the difference of their products, the offset of each, and the linear attention left.

With n context tokens, p_i = softmax_i(c s) = 1/n + c (s_i − s̄)/n + O(c²): a head attends evenly, plus linear attention over tokens
whose mean is removed, plus a remainder. Heads of opposite sign can cancel what is even in s.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ...train.losses import over_tasks
from ...train.tasks.regression import Task
from ...zoo.checks.gate import gated
from ...zoo.errors import NotApplicable
from ...zoo.layers.attention import Context, Queries, SoftmaxLayer
from ...zoo.token_model import TokenModel
from ...zoo.trace import trace
from ..estimates.estimate import Estimate
from ..estimates.means import finite_mean
from ..instrument import FIXED_KEY, OWN_TASK, register_instrument
from ..measurement import OnFigure
from ..weights.weight_products import products

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure


class Parts(NamedTuple):
    """The update of each query token by each head, in three parts that add up to it."""

    offset: Float[Array, "num_heads num_queries embed_dim"]  # W_PV ē: attention at scores of zero
    linear: Float[Array, "num_heads num_queries embed_dim"]  # (c/n) Σᵢ W_PV eᵢ (sᵢ − s̄)
    remainder: Float[Array, "num_heads num_queries embed_dim"]  # what is of second order in the scores, and higher


@dataclass(frozen=True)
class SoftmaxHeads:
    """One softmax layer. Sizes are means over tasks of ‖·‖₂ of the update of the query's token, over its y entries where it has any."""

    layer: str  # "layer 1", in the order of application
    labels: tuple[str, ...]  # of a token's entries
    inverse_temperature: float  # c
    W_KQ: Float[np.ndarray, "num_heads embed_dim embed_dim"]
    difference: Float[np.ndarray, "embed_dim embed_dim"] | None  # W_1,KQ − W_2,KQ; None unless there are two heads
    diagonal_share: float | None  # of the squared norm of `difference`; None where it is zero or not finite
    identity_share: (
        float | None
    )  # the share of a multiple of the identity over x; None also where tokens are not (x, y)
    step_size: float | None  # η of the linear part: Σ_h c · (mean diag of W_KQ over x) · −(mean diag of W_PV over y)
    head_offset: tuple[Estimate, ...]  # of each head by itself
    offset: Estimate  # of all heads together
    linear: Estimate
    remainder: Estimate
    num_tasks: int
    num_not_finite: int


@dataclass(frozen=True, repr=False)
class SoftmaxLayers(OnFigure):
    """Every softmax layer of a model."""

    layers: tuple[SoftmaxHeads, ...]

    title = "parts of the update by softmax heads"

    @property
    def summary(self) -> str:
        return "Differences of key-query products, the offset of each head, and the linear part left."

    def rows(self) -> list[dict[str, Any]]:
        parts = ("offset", "linear", "remainder")
        columns = ("diagonal_share", "identity_share", "step_size", *parts)
        return [{"layer": one.layer} | {name: getattr(one, name) for name in columns} for one in self.layers]

    def draw(self, figure: "Figure | SubFigure | None", **options: Any) -> "Figure | SubFigure":
        from .softmax_heads_plot import softmax_heads_figure

        return softmax_heads_figure(self.layers, figure=figure, **options)


def softmax_parts(layer: SoftmaxLayer, queries: Queries, context: Context) -> Parts:
    """The three parts of a softmax layer's update, head by head.

        Σᵢ W_PV eᵢ softmax_i(c s) = W_PV ē + (c/n) Σᵢ W_PV eᵢ (sᵢ − s̄) + O(c²)

    The linear part is one step of gradient descent on examples with their mean removed. After von Oswald et al. 2023, appendix A.9.
    """
    scores, pattern = layer.attend(queries, context)
    values = jnp.einsum("hab,nb->hna", layer.W_PV, context)
    uniform = jnp.full_like(pattern, 1 / len(context))
    first = layer.inverse_temperature * (scores - scores.mean(axis=-1, keepdims=True)) / len(context)
    parts = (uniform, first, pattern - uniform - first)
    return Parts(*(jnp.einsum("hqn,hna->hqa", part, values) for part in parts))


@register_instrument(
    "softmax-heads",
    title="Softmax heads",
    question="The difference of the heads' key-query products, each head's offset at zero scores, and the linear part that is left.",
    order=170,
)
@gated
def softmax_heads(
    model: Any, task: Task = OWN_TASK, *, num_tasks: int = 10_000, key: PRNGKeyArray = FIXED_KEY
) -> SoftmaxLayers:
    """Every softmax layer of a token model, taken apart on the tokens that reach it.

    **Raises** `ZooError` if no layer of `model` is softmax attention on the tokens themselves.
    """
    stack = model.stack if isinstance(model, TokenModel) else ()
    layers = {i: layer for i, layer in enumerate(stack) if isinstance(layer, SoftmaxLayer)}
    if not layers:
        raise NotApplicable(
            f"{type(model).__name__} has no layer of softmax attention on its tokens, so no softmax heads to compare"
        )
    sizes = over_tasks(_sizes, (model, tuple(layers)), task, num_tasks=num_tasks, key=key)
    return SoftmaxLayers(
        tuple(
            _summary(model, layer, f"layer {place + 1}", *measured)
            for (place, layer), measured in zip(layers.items(), sizes, strict=True)
        )
    )


def _sizes(model_and_places: tuple[TokenModel, tuple[int, ...]], prompt, _) -> tuple[tuple[Array, ...], ...]:
    """For each softmax layer: the norms of each head's offset, and those of the three parts of all heads together."""
    model, places = model_and_places
    residual = trace(model, prompt).residual
    read = slice(None) if model.joint is None else model.joint[1]
    measured = []
    for place in places:
        layer, tokens = model.stack[place], residual[place]
        parts = softmax_parts(layer, tokens[-1:], model.context(tokens))  # pyright: ignore[reportArgumentType]
        heads = jnp.linalg.norm(parts.offset[:, 0, read], axis=1)
        measured.append((heads, *(jnp.linalg.norm(part[:, 0, read].sum(axis=0)) for part in parts)))
    return tuple(measured)


def _summary(model: TokenModel, layer: SoftmaxLayer, name: str, heads, offset, linear, remainder) -> SoftmaxHeads:
    (read,) = products(layer)
    d = None if model.joint is None else model.input_dim
    difference = read.W_KQ[0] - read.W_KQ[1] if read.num_heads == 2 else None
    diagonal_share = identity_share = step_size = None
    if difference is not None and np.isfinite(difference).all() and difference.any():
        squares = difference / np.abs(difference).max()  # no square underflows
        total = (squares**2).sum()
        diagonal_share = float((np.diag(squares) ** 2).sum() / total)
        if d is not None:
            identity_share = float(np.diag(squares)[:d].mean() ** 2 * d / total)
    if d is not None:
        diagonals = (np.einsum("hii->hi", product) for product in (read.W_KQ, read.W_PV))
        keys, values = next(diagonals)[:, :d].mean(axis=1), next(diagonals)[:, d:].mean(axis=1)
        eta = float(-layer.inverse_temperature * (keys * values).sum())
        step_size = eta if np.isfinite(eta) else None
    finite = np.asarray(np.isfinite(np.column_stack([heads, offset, linear, remainder])).all(axis=1))
    return SoftmaxHeads(
        layer=name,
        labels=model.token_labels or read.labels,
        inverse_temperature=float(layer.inverse_temperature),
        W_KQ=read.W_KQ,
        difference=difference,
        diagonal_share=diagonal_share,
        identity_share=identity_share,
        step_size=step_size,
        head_offset=tuple(finite_mean(column) for column in heads.T),
        offset=finite_mean(offset),
        linear=finite_mean(linear),
        remainder=finite_mean(remainder),
        num_tasks=len(finite),
        num_not_finite=int((~finite).sum()),
    )
