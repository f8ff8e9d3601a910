"""The loss on the straight line between two models, in the space of their weight products.

A linear head is W_KQ and W_PV up to (c·W_KQ, W_PV/c), and a layer its heads in any order. Between two models that compute the same the
straight line may therefore leave what they compute, unless scale, sign and order are made alike first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ...train.losses import over_tasks, squared_error
from ...train.tasks.regression import Task
from ...zoo.checks.arguments import PRODUCTS
from ...zoo.checks.gate import gate, gated
from ...zoo.constructions.gd_plus_plus import gd_plus_plus_products
from ...zoo.errors import NotApplicable
from ...zoo.factory import hyperparameters
from ...zoo.layers.attention import SelfAttention
from ..estimates.estimate import Estimate
from ..estimates.means import finite_mean, half_mse_of
from ..instrument import FIXED_KEY, OWN_TASK, register_instrument
from ..measurement import OnAxes
from .implied_step import implied_steps
from .weight_products import Products, attention_layers, fix_gauge, gauge_fixed, products

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = np.arange(-4, 25) / 20  # −0.2 … 1.2
# What two models may differ in and still have the same weights to interpolate: how they were drawn, and the inner size of a product.
_FREE = ("init_scale", "head_dim")


@dataclass(frozen=True)
class Curve:
    """The loss along one line between two models; undefined where a task's error is not finite."""

    half_mse: tuple[Estimate, ...]
    excess: tuple[Estimate, ...]  # half-MSE at t minus that at t = 0, paired
    num_not_finite: tuple[int, ...]  # tasks, at each t


@dataclass(frozen=True, repr=False)
class Interpolation(OnAxes):
    """The losses between a model, at t = 0, and another, at t = 1, all on the same tasks.

    `curves` are, by what is interpolated: "gauge removed" (products with the gauge removed and heads matched), "products" (as they are)
    and, where both models have factors of the same shapes, "factors" (W_K, W_Q, W_V, W_P as they are).
    """

    t: Float[np.ndarray, " num_points"]
    curves: Mapping[str, Curve]
    num_tasks: int

    title = "half-MSE on the line between two models"

    @property
    def summary(self) -> str:
        deviation = self.deviation()
        flat = "undefined" if deviation is None else f"flat within {100 * deviation:.2g} %"
        return f"Half-MSE from {self.about.learner} to {self.end}: {flat} with the gauge removed."

    @property
    def end(self) -> str:
        """What stands at t = 1."""
        return self.about.other or "the implied step"

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"curve": name, "t": t, "half_mse": half_mse, "excess": excess}
            for name, curve in self.curves.items()
            for t, half_mse, excess in zip(self.t, curve.half_mse, curve.excess, strict=True)
        ]

    def draw(self, ax: "Axes", **options: Any) -> None:
        from .interpolation_plot import interpolation_curves

        interpolation_curves(self, ax=ax, **{"names": (self.about.learner, self.end), **options})

    def deviation(self, curve: str = "gauge removed") -> float | None:
        """The largest |L(t) − L(0)| / L(0) for t in [0, 1]; `None` where a loss is undefined or L(0) is zero."""
        inside = (self.t >= 0) & (self.t <= 1)
        excess = [mean.value for mean, within in zip(self.curves[curve].excess, inside, strict=True) if within]
        start = self.curves[curve].half_mse[int(np.flatnonzero(self.t == 0)[0])].value
        if not start or any(value is None for value in excess):
            return None
        return max(abs(value) for value in excess if value is not None) / start


@register_instrument(
    "interpolation",
    title="Interpolation",
    question="Half-MSE on the line to the construction, in product space with the gauge removed; beside it the naive line.",
    order=110,
)
@gated
def interpolation(
    model: Any,
    other: Any = None,
    task: Task = OWN_TASK,
    *,
    t: Sequence[float] | np.ndarray = POINTS,
    num_tasks: int = 10_000,
    key: PRNGKeyArray = FIXED_KEY,
) -> Interpolation:
    """The half-MSE at (1 − t)·model + t·other for each `t`, to which both end points are added.

        W_KQ(t) = (1 − t) W_KQ + t W'_KQ,   W_PV(t) = (1 − t) W_PV + t W'_PV,   and all other parameters alike

    `other` is by default the step of GD++ that the weights imply (`implied_construction`). One program evaluates every t of every curve.
    von Oswald et al. 2023, Figure 2 and appendix A.3.

    **Raises** `ZooError` if the models have no attention layer, or are not of the same class with the same hyperparameters.
    """
    other = implied_construction(model) if other is None else other
    points, lines = np.union1d(np.asarray(t, np.float64), [0.0, 1.0]), _lines(model, other)
    errors = over_tasks(_errors, (lines, jnp.asarray(points)), task, num_tasks=num_tasks, key=key)
    return Interpolation(
        t=points,
        curves={name: _curve(errors[name], int(np.flatnonzero(points == 0)[0])) for name in lines},
        num_tasks=num_tasks,
    )


@gated
def with_products(model: Any, layers: Sequence[Products]) -> Any:
    """The same model with these products in its attention layers.

    **Raises** `NotApplicable` for a layer that cannot take other products.
    """
    remaining = iter(layers)

    def write(node: Any) -> Any:
        if not isinstance(node, SelfAttention):
            return node
        layer = next(remaining)
        return node.with_products(jnp.asarray(layer.W_KQ), jnp.asarray(layer.W_PV))

    return jax.tree.map(write, model, is_leaf=lambda node: isinstance(node, SelfAttention))


@gated
def implied_construction(model: Any) -> Any:
    """The same model with each linear head replaced by the step of GD++ that its weights imply, as `implied_steps` reads it.

        W_KQ = diag(I, 0),   W_PV = diag(−γ I, −(η/N) I)

    **Raises** `ZooError` where tokens are not (x, y) or a layer is not linear.
    """

    def construct(layer: Products) -> Products:
        d = layer.input_dim or 0
        steps = [
            gd_plus_plus_products(
                step.step_size_over_num_examples, step.gamma, input_dim=d, output_dim=layer.W_KQ.shape[-1] - d
            )
            for step in implied_steps(layer)
        ]
        return replace(layer, W_KQ=np.stack([W_KQ for W_KQ, _ in steps]), W_PV=np.stack([W_PV for _, W_PV in steps]))

    return with_products(model, [construct(layer) for layer in gauge_fixed(model)])


@gate(other=PRODUCTS)
def match_heads(layer: Products, other: Products) -> Products:
    """`layer` with its heads in the order that brings them nearest to those of `other`, scale and sign left out of account.

    The order maximises Σ_h ⟨W_PV,h, W'_PV,h⟩ ⟨W_KQ,h, W'_KQ,h⟩, the inner product of the heads' tensors W_PV ⊗ W_KQ.
    """
    from scipy.optimize import linear_sum_assignment  # which takes half a second

    values = np.einsum("hab,gab->hg", other.W_PV, layer.W_PV)
    keys = np.einsum("hab,gab->hg", other.W_KQ, layer.W_KQ)
    _, order = linear_sum_assignment(np.nan_to_num(values * keys), maximize=True)
    return replace(layer, W_KQ=layer.W_KQ[order], W_PV=layer.W_PV[order])


def _lines(start: Any, end: Any) -> dict[str, tuple[Any, Any]]:
    """Each line as the model at t = 0 and the arrays at t = 1, in the same structure."""
    here, there = products(start), products(end)
    _check_family(start, end)
    matched = [
        match_heads(other, layer) if layer.is_linear else other for layer, other in zip(here, there, strict=True)
    ]
    lines = {
        "gauge removed": (
            with_products(start, [*map(fix_gauge, here)]),
            with_products(end, [*map(fix_gauge, matched)]),
        ),
        "products": (with_products(start, here), with_products(end, there)),
        "factors": (start, end),
    }
    if _shapes(start) != _shapes(end) or any(_has_no_factors(model) for model in (start, end)):
        del lines["factors"]
    return {name: (a, _arrays_of(b, like=a)) for name, (a, b) in lines.items()}


def _errors(lines_and_points: tuple[dict[str, tuple[Any, Any]], Array], prompt, target) -> dict[str, Array]:
    lines, points = lines_and_points

    def error(model: Any, arrays: Any, t: Array) -> Array:
        weights, rest = eqx.partition(model, eqx.is_inexact_array)
        at_t = jax.tree.map(lambda a, b: (1 - t).astype(a.dtype) * a + t.astype(a.dtype) * b, weights, arrays)
        return squared_error(eqx.combine(at_t, rest), prompt, target)

    return {
        name: jax.vmap(lambda t, line=line: error(line[0], line[1], t))(points)  # one model a point
        for name, line in lines.items()
    }


def _curve(errors: Float[np.ndarray, "num_tasks num_points"], at_zero: int) -> Curve:
    excess = (errors - errors[:, at_zero, None]) / 2
    return Curve(
        half_mse=half_mse_of(errors),
        excess=tuple(finite_mean(column) for column in excess.T),
        num_not_finite=tuple(int(count) for count in (~np.isfinite(errors)).sum(axis=0)),
    )


def _check_family(start: Any, end: Any) -> None:
    if type(start) is not type(end):
        raise NotApplicable(
            f"interpolation needs two models of one class, got {type(start).__name__} and {type(end).__name__}"
        )
    here, there = hyperparameters(start), hyperparameters(end)
    for name in here:
        if name not in _FREE and here[name] != there[name]:
            raise NotApplicable(
                f"interpolation needs models that differ in weights alone; {name} is {here[name]} and {there[name]}"
            )


def _arrays_of(model: Any, *, like: Any) -> Any:
    """The arrays of `model` in the structure of `like`, which may differ in static fields."""
    arrays, structure = jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)), eqx.filter(like, eqx.is_inexact_array)
    return jax.tree.unflatten(jax.tree.structure(structure), arrays)


def _shapes(model: Any) -> list[tuple[int, ...]]:
    return [leaf.shape for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))]


def _has_no_factors(model: Any) -> bool:
    return any(layer.products_are_parameters for layer in attention_layers(model).values())
