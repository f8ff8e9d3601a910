"""The spectral filter of a learner: how much of the target it carries along each eigenvector of the examples."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ...train.losses import over_tasks
from ...train.tasks.task import Task
from ...zoo.checks.gate import gated
from ...zoo.determinism import typed
from ...zoo.errors import NotApplicable
from ...zoo.prompt import Learner, Prompt
from ..estimates.estimate import Estimate
from ..instrument import FIRST_BASELINE, FIXED_KEY, OWN_TASK, register_instrument
from ..measurement import OnAxes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NUM_BINS = 24
LINEAR = 1e-4  # of the predictions: what a learner that is linear in the labels leaves of f(y + y') − f(y) − f(y')
LINEARITY_TASKS = 64


@dataclass(frozen=True)
class Filter:
    """The gain of one learner against the eigenvalue: the share of the target that its prediction carries."""

    linear: bool  # in the labels: then the gain of every eigenvector is exact, and `gains` holds them
    gain: tuple[Estimate, ...]  # E[ŷ·t]/E[t²] in each bin
    unexplained: float | None  # E(ŷ − g(λ)·t)² / E ŷ²: what of ŷ no filter explains
    gains: Float[np.ndarray, "num_tasks rank"] | None


@dataclass(frozen=True, repr=False)
class SpectralFilter(OnAxes):
    """The filters of a learner and of another one, over the same eigenvalues λ of S = Σᵢ xᵢ xᵢᵀ."""

    eigenvalues: Float[np.ndarray, "num_tasks rank"]
    edges: Float[np.ndarray, " num_edges"]  # of the bins
    own: Filter
    other: Filter
    num_tasks: int

    title = "spectral filter"

    @property
    def centres(self) -> Float[np.ndarray, " num_bins"]:
        """The mean eigenvalue of each bin."""
        values, place = self.eigenvalues.ravel(), bins_of(self.eigenvalues, self.edges).ravel()
        return np.array([values[place == k].mean() for k in range(len(self.edges) - 1)])

    @property
    def summary(self) -> str:
        left = "an undefined share" if self.own.unexplained is None else f"{100 * self.own.unexplained:.2g} %"
        return f"The gain of {self.about.learner} against the eigenvalue; {left} of its prediction is explained by no filter."

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"learner": name, "eigenvalue": centre, "low": low, "high": high, "gain": gain}
            for name, one in ((self.about.learner, self.own), (self.about.other or "the other", self.other))
            for centre, low, high, gain in zip(self.centres, self.edges, self.edges[1:], one.gain, strict=False)
        ]

    def draw(self, ax: "Axes", **options: Any) -> None:
        from .spectral_filter_plot import filter_curves

        filter_curves(self, ax=ax, **options)


@register_instrument(
    "spectral-filter",
    title="Spectral filter",
    question="The share of the target that the prediction carries, for queries along the eigenvectors of Σᵢ xᵢ xᵢᵀ, against the "
    "eigenvalue: gradient descent has a line, least squares 1.",
    order=28,
)
@gated
def spectral_filter(
    learner: Learner,
    other: Learner = FIRST_BASELINE,
    task: Task = OWN_TASK,
    *,
    num_tasks: int = 2_000,
    key: PRNGKeyArray = FIXED_KEY,
) -> SpectralFilter:
    """The gain of a learner against the eigenvalues of the examples, beside that of another one.

        S = Σᵢ xᵢ xᵢᵀ = Σ λᵢ vᵢ vᵢᵀ,   query √(d·s₂)·vᵢ,   target t = w·query,   gain(λ) = E[ŷ·t]/E[t²]

    with labels yᵢ = w·xᵢ without noise, w ~ N(0, I), and s₂ the mean of E[x²] over the entries, for the gains of a learner that is not
    linear depend on the length of its query. A learner that is linear in the labels and whose weights are a function of S predicts
    ŷ = w·(I − R(S))x: its gain is 1 − R(λ), as of K steps of gradient descent 1 − Π (1 − (η_k/N) λ). Where a learner is linear in the
    labels, the gain of each eigenvector is exact: that of w = vᵢ. Eigenvectors of the min(N, d) largest eigenvalues are asked for.

    Args:
        learner: a learner, or the name or path of a checkpoint.
        other: another one, or the name of an algorithm, tuned to the task.
        task: of linear regression, where the inputs are from.
        num_tasks: how many prompts.
        key: of the prompts.

    Raises:
        NotApplicable: the task is not linear regression with one output.

    Example:
        >>> found = iclzoo.spectral_filter("lsa-fast", "gd-1", num_tasks=50)
        >>> found.other.linear
        True
    """
    moments = task.moments()
    if task.output_dim != 1:
        raise NotApplicable(f"a filter is that of one output, and the task has {task.output_dim}")
    length = float(np.sqrt(np.trace(np.asarray(moments.covariance))))  # √(d·s₂)
    key = typed(key)
    measured = over_tasks(_along, ((learner, other), length), task, num_tasks=num_tasks, key=key, chunk=500)
    eigenvalues, both = measured
    if not eigenvalues.any():
        raise NotApplicable("the inputs of this task do not vary, so they have no eigenvectors to ask along")
    edges = np.unique(np.quantile(eigenvalues, np.linspace(0, 1, min(NUM_BINS, eigenvalues.size) + 1)))
    place = bins_of(eigenvalues, edges)
    own, its = (_filter(values, place, len(edges) - 1) for values in both)
    return SpectralFilter(eigenvalues, edges, own, its, num_tasks)


def bins_of(eigenvalues: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The bin of each eigenvalue."""
    return np.clip(np.searchsorted(edges, eigenvalues, side="right") - 1, 0, len(edges) - 2)


def _along(settings: tuple[tuple[Learner, Learner], float], prompt: Prompt, target: Array) -> Any:
    """The eigenvalues, and of each learner: its predictions, the targets, the exact gains, and how far it is from linear in the labels."""
    learners, length = settings
    _, singular, directions = jnp.linalg.svd(prompt.xs, full_matrices=False)
    # Teachers of their own, from what the prompt holds: any that do not depend on the learner will do.
    bits = jax.lax.bitcast_convert_type(prompt.xs.astype(jnp.float32), jnp.uint32).sum().astype(jnp.uint32)
    w, w_other = jr.normal(jr.key(bits, impl="threefry2x32"), (2, prompt.input_dim), prompt.xs.dtype)

    def asked(learner: Learner, teacher: Array, query: Array) -> Array:
        return learner(Prompt(xs=prompt.xs, ys=(prompt.xs @ teacher)[:, None], query=query))[0]

    def of(learner: Learner) -> tuple[Array, Array, Array, Array]:
        queries = length * directions
        predictions = jax.vmap(lambda query: asked(learner, w, query))(queries)
        exact = jax.vmap(lambda v, query: asked(learner, v, query) / length)(directions, queries)
        first, second, sum_of_both = (asked(learner, teacher, queries[0]) for teacher in (w, w_other, w + w_other))
        return predictions, queries @ w, exact, sum_of_both - first - second

    return singular**2, tuple(of(learner) for learner in learners)


def _filter(values: tuple[np.ndarray, ...], place: np.ndarray, num_bins: int) -> Filter:
    predictions, targets, exact, excess = values
    finite = np.isfinite(predictions)
    size = np.sqrt((predictions[finite] ** 2).mean()) if finite.any() else 0.0
    linear = bool(np.isfinite(exact).all() and (np.abs(excess) <= LINEAR * max(size, np.abs(targets).max())).all())
    gains, left, whole = [], 0.0, 0.0
    for k in range(num_bins):
        inside = (place == k) & finite
        if not inside.any():
            gains.append(Estimate(None, None))
            continue
        y, t = predictions[inside], targets[inside]
        if linear:
            gains.append(Estimate.of(exact[inside]))
            gain = exact[inside]
        else:
            gain = (y * t).sum() / (t**2).sum()
            pulls = t * (y - gain * t) / (t**2).mean()
            gains.append(Estimate(float(gain), float(pulls.std(ddof=1) / np.sqrt(len(y))) if len(y) > 1 else None))
        left, whole = left + ((y - gain * t) ** 2).sum(), whole + (y**2).sum()
    return Filter(linear, tuple(gains), float(left / whole) if whole else None, exact if linear else None)
