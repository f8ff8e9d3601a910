"""Which context tokens each token attends to: scores and patterns of one prompt, and their means over tasks."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ...train.losses import over_tasks
from ...train.tasks.regression import Task
from ...zoo.checks.gate import gated
from ...zoo.determinism import split
from ...zoo.errors import NotApplicable
from ...zoo.prompt import Prompt
from ...zoo.token_model import TokenModel
from ...zoo.trace import trace
from ..instrument import FIXED_KEY, OWN_TASK, register_instrument
from ..measurement import OnFigure

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

AttentionMap = Float[np.ndarray, "num_heads num_tokens num_context"]
BATCH = 512  # prompts whose maps are held at once


@dataclass(frozen=True)
class LayerPatterns:
    """The maps of one layer, head by head. Rows are the tokens that attend, columns the context tokens attended to."""

    name: str  # "layer 1", in the order of application
    scores: AttentionMap  # eᵢᵀ W_KQ eⱼ
    pattern: AttentionMap  # f(scores); the scores themselves in linear attention
    pattern_size: AttentionMap  # root mean square of the pattern over tasks; its absolute value for a single prompt


@dataclass(frozen=True, repr=False)
class Patterns(OnFigure):
    """The attention maps of every layer, of one prompt (num_tasks = 1) or as means over tasks."""

    layers: tuple[LayerPatterns, ...]
    tokens: tuple[str, ...]  # names of the rows
    context: tuple[str, ...]  # names of the columns
    num_tasks: int
    num_not_finite: int  # tasks with an entry that is not finite, left out of the means

    title = "attention"

    @property
    def summary(self) -> str:
        return "Where each token attends" + ("." if self.num_tasks == 1 else ", root mean square over tasks.")

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "layer": layer.name,
                "head": head,
                "token": self.tokens[row],
                "context": self.context[column],
                "score": layer.scores[head, row, column],
                "pattern": layer.pattern[head, row, column],
                "pattern_size": layer.pattern_size[head, row, column],
            }
            for layer in self.layers
            for head, row, column in np.ndindex(layer.pattern.shape)
        ]

    def draw(self, figure: "Figure | SubFigure | None", **options: Any) -> "Figure | SubFigure":
        from .attention_patterns_plot import patterns_figure

        return patterns_figure(
            self, figure=figure, **{"quantity": "pattern" if self.num_tasks == 1 else "pattern_size", **options}
        )


@gated
def prompt_patterns(model: Any, prompt: Prompt) -> Patterns:
    """The attention of every layer and head of a token model on one prompt.

        scores: sᵢⱼ = eᵢᵀ W_KQ eⱼ,   pattern: f(s) for context token i and token j

    **Raises** `ZooError` if `model` is not made of layers over tokens.
    """
    _check(model)
    traced = _traced(model, prompt)
    maps = [tuple(np.asarray(m, np.float64) for m in (s, p)) for s, p in zip(*traced, strict=True)]
    return _patterns(model, prompt.num_examples, [(s, p, np.abs(p)) for s, p in maps], num_tasks=1, num_not_finite=0)


@register_instrument(
    "patterns",
    title="Attention patterns",
    question="Where each token attends: the root mean square over tasks, for a linear pattern changes its sign.",
    order=160,
)
@gated
def patterns(model: Any, task: Task = OWN_TASK, *, num_tasks: int = 2_000, key: PRNGKeyArray = FIXED_KEY) -> Patterns:
    """The means over `num_tasks` tasks of scores and pattern, and the root mean square of each entry of the pattern; with one task,
    those of its prompt.

    The mean of a linear pattern over tasks is near zero wherever its sign varies: its root mean square says where attention goes.
    Means over no task at all, because none is finite, are NaN.

    **Raises** `ZooError` if `model` is not made of layers over tokens.
    """
    if num_tasks == 1:
        return prompt_patterns(model, task.sample(key)[0])
    _check(model)
    total, counted = None, 0
    batch = min(BATCH, num_tasks)
    for start, batch_key in zip(range(0, num_tasks, batch), split(key, -(-num_tasks // batch)), strict=True):
        scores, pattern = over_tasks(_maps, model, task, num_tasks=batch, key=batch_key)  # one shape: one compilation
        rest = min(batch, num_tasks - start)
        finite = np.all([_finite(maps[:rest]) for maps in (*scores, *pattern)], axis=0)
        sums = [
            tuple(np.where(finite[:, None, None, None], maps[:rest], 0).sum(axis=0) for maps in (s, p, p**2))
            for s, p in zip(scores, pattern, strict=True)
        ]
        total = sums if total is None else jax.tree.map(np.add, total, sums)
        counted += int(finite.sum())
    with np.errstate(invalid="ignore"):
        means = [
            (s / np.float64(counted), p / np.float64(counted), np.sqrt(q / np.float64(counted)))
            for s, p, q in total or []
        ]
    return _patterns(model, task.num_examples, means, num_tasks=num_tasks, num_not_finite=num_tasks - counted)


@gated
def token_names(model: TokenModel, num_examples: int) -> tuple[str, ...]:
    """A name for every token of a prompt, the query last: 1 … N, or x₁, y₁, … where inputs and labels have tokens of their own."""
    own = model.example_tokens
    kinds = own if len(own) > 1 else ("",)
    return (*(f"{kind}{i + 1}" for i in range(num_examples) for kind in kinds), "query")


def _check(model: Any) -> None:
    if not isinstance(model, TokenModel):
        raise NotApplicable(f"{type(model).__name__} has no layers over tokens, so it has no attention patterns")


@eqx.filter_jit
def _traced(model: TokenModel, prompt: Prompt) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    traced = trace(model, prompt)
    return traced.scores, traced.pattern


def _maps(model: TokenModel, prompt: Prompt, _) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    traced = trace(model, prompt)
    return traced.scores, traced.pattern


def _finite(maps: Float[np.ndarray, "num_tasks num_heads num_tokens num_context"]) -> np.ndarray:
    return np.asarray(np.isfinite(maps).all(axis=(1, 2, 3)))


def _patterns(model: TokenModel, num_examples: int, maps, *, num_tasks: int, num_not_finite: int) -> Patterns:
    names = token_names(model, num_examples)
    return Patterns(
        layers=tuple(LayerPatterns(f"layer {i + 1}", *layer) for i, layer in enumerate(maps)),
        tokens=names,
        context=names if model.query_in_context else names[:-1],
        num_tasks=num_tasks,
        num_not_finite=num_not_finite,
    )
