"""What attention does, read from the products of its weights.

A head acts through W_KQ = W_Kᵀ W_Q and W_PV = W_P W_V alone. Where the pattern is linear, (c·W_KQ, W_PV/c) is the same head for every
c ≠ 0: this gauge is removed before weights are shown or compared.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from ...zoo.checks.arguments import PRODUCTS
from ...zoo.checks.gate import gate, gated
from ...zoo.errors import NotApplicable, ZooError
from ...zoo.layers.attention import SelfAttention

PerHead = Float[np.ndarray, "num_heads embed_dim embed_dim"]


@dataclass(frozen=True)
class Products:
    """The two products of one attention layer, head by head, in float64.

    `scale` holds the c of each head by which the gauge was fixed, W_KQ having been divided by it; `None` where nothing was
    removed.
    """

    name: str  # the layer's tree path in its model
    W_KQ: PerHead
    W_PV: PerHead
    is_linear: bool  # whether the head has a gauge at all
    input_dim: int | None  # tokens are (x, y), with this many entries of x; None where they are of another kind
    labels: tuple[str, ...]  # of the token's coordinates
    x: tuple[int, int] | None = None  # the first entry of the input and the one after its last, where they are known
    scale: Float[np.ndarray, " num_heads"] | None = None

    @property
    def num_heads(self) -> int:
        return len(self.W_KQ)


@gated
def attention_layers(model: Any) -> dict[str, SelfAttention]:
    """Every attention layer of a model by its tree path, `layers.0`; a layer shared by several steps appears once.

    **Raises** `ZooError` if there is none.
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(model, is_leaf=lambda node: isinstance(node, SelfAttention))
    layers = {
        jax.tree_util.keystr(path, simple=True, separator="."): node
        for path, node in leaves
        if isinstance(node, SelfAttention)
    }
    if not layers:
        raise NotApplicable(f"{type(model).__name__} has no attention layer, so it has no weight products")
    return layers


@gated
def products(model: Any) -> tuple[Products, ...]:
    """W_KQ and W_PV of every attention layer of `model` (a model, or one layer), as they are, gauge and all.

        W_KQ = W_Kᵀ W_Q (rows: key side, columns: query side),   W_PV = W_P W_V (rows: output, columns: input)

    Computed in the highest precision JAX offers. **Raises** `ZooError` if there is no attention layer.
    """
    labels, joint = getattr(model, "token_labels", ()), getattr(model, "joint", None)
    x = getattr(model, "subspaces", {}).get("x")
    x = None if x is None else (x.start or 0, x.stop)
    result = []
    for name, layer in attention_layers(model).items():
        with jax.default_matmul_precision("highest"):
            W_KQ, W_PV = (np.asarray(product, np.float64) for product in (layer.W_KQ, layer.W_PV))
        fits = len(labels) == layer.embed_dim
        result.append(
            Products(
                name=name,
                W_KQ=W_KQ,
                W_PV=W_PV,
                is_linear=layer.is_linear,
                input_dim=joint[0].stop if fits and joint is not None else None,
                labels=labels if fits else tuple(f"e{i + 1}" for i in range(layer.embed_dim)),
                x=x if fits else None,
            )
        )
    return tuple(result)


@gated
def fix_gauge(layer: Products) -> Products:
    """The same layer with the scale c of each linear head removed, sign included: W_KQ ← W_KQ / c,  W_PV ← c W_PV.

        c = β, the mean of the diagonal of W_KQ over the x entries, where that block is mostly its diagonal: |β| √d ≥ ½ ‖W_KQ,xx‖_F
        c = sign(β) √(‖W_KQ‖_F / ‖W_PV‖_F) elsewhere, which gives both products the same norm

    The first is the paper's rule (von Oswald et al. 2023, appendix A.3), which brings a layer to the form of its construction; a layer
    of another form, such as an untrained one, it would blow up. A layer that is not linear, and a head with a product that is zero
    or not finite, stay as they are.
    """
    if not layer.is_linear:
        return layer
    scale = np.array([_gauge(K, V, slice(*(layer.x or (None,)))) for K, V in zip(layer.W_KQ, layer.W_PV, strict=True)])
    factor = scale[:, None, None]
    return replace(layer, W_KQ=layer.W_KQ / factor, W_PV=layer.W_PV * factor, scale=scale)


def _gauge(W_KQ: np.ndarray, W_PV: np.ndarray, x: slice) -> float:
    """The c of `fix_gauge` for one head."""
    block = W_KQ[x, x]
    beta = np.diag(block).mean()
    norm_KQ, norm_PV = np.linalg.norm(W_KQ), np.linalg.norm(W_PV)
    if not (np.isfinite(norm_KQ) and np.isfinite(norm_PV)) or norm_KQ == 0:
        return 1.0
    if abs(beta) * len(block) ** 0.5 >= np.linalg.norm(block) / 2 > 0:
        return float(beta)
    return float(np.copysign((norm_KQ / norm_PV) ** 0.5, beta)) if norm_PV > 0 else 1.0


@gated
def gauge_fixed(model: Any) -> tuple[Products, ...]:
    """`products` with the gauge removed."""
    return tuple(fix_gauge(layer) for layer in products(model))


@gate(other=PRODUCTS)
def product_distance(layer: Products, other: Products) -> float:
    """How far a linear layer is from another, relative to the other; the gauge drops out by itself.

        ‖Σ_h W_PV,h ⊗ W_KQ,h − Σ_h W'_PV,h ⊗ W'_KQ,h‖_F / ‖Σ_h W'_PV,h ⊗ W'_KQ,h‖_F

    The tensor Σ_h W_PV ⊗ W_KQ is all that a linear layer computes with, whatever its scale, sign or order of heads.

    **Raises** `ZooError` for layers that are not linear or of different embed_dim, and where the other is zero.
    """
    if not (layer.is_linear and other.is_linear):
        raise ZooError(
            "product_distance compares linear attention; a softmax or ReLU head is no function of the products alone"
        )
    if layer.W_KQ.shape[1:] != other.W_KQ.shape[1:]:
        raise ZooError(f"the layers differ in embed_dim: {layer.W_KQ.shape[-1]} and {other.W_KQ.shape[-1]}")
    here, there, between = _inner(layer, layer), _inner(other, other), _inner(layer, other)
    if there == 0:
        raise ZooError("the layer to compare with is zero, so a relative distance is undefined")
    return float(np.sqrt(max(here - 2 * between + there, 0.0) / there))


@dataclass(frozen=True)
class StepReading:
    """The algorithm that one head's gauge-fixed products spell out, read as a step of GD++."""

    layer: str
    head: int
    step_size_over_num_examples: float  # η/N = −mean diag of W_PV over y, times mean diag of W_KQ over x
    gamma: float  # γ = −mean diag of W_PV over x, times the same
    largest_other: float  # the largest entry, in size, outside the diagonals read above
    largest_other_at: str  # where it is


@gated
def read_step(layer: Products) -> tuple[StepReading, ...]:
    """η/N and γ of each head of a linear layer over (x, y) tokens, and the largest entry that they leave unexplained.

    In the construction of GD++ the gauge-fixed products are W_KQ = diag(I, 0) and W_PV = diag(−γI, −(η/N)I), all else being zero.

    **Raises** `ZooError` where tokens are not (x, y) or the layer is not linear.
    """
    if layer.input_dim is None or not layer.is_linear:
        raise NotApplicable(
            f"layer {layer.name!r} is no linear attention over (x, y) tokens, so its weights spell no step of GD"
        )
    fixed, d = fix_gauge(layer), layer.input_dim
    readings = []
    for head in range(fixed.num_heads):
        W_KQ, W_PV = fixed.W_KQ[head], fixed.W_PV[head]
        eta, gamma = -np.diag(W_PV)[d:].mean(), -np.diag(W_PV)[:d].mean()
        beta = np.diag(W_KQ)[:d].mean()  # 1, but for heads whose gauge cannot be fixed
        ideal_KQ = np.diag([beta] * d + [0.0] * (len(W_KQ) - d))
        ideal_PV = np.diag([-gamma] * d + [-eta] * (len(W_PV) - d))
        rest = {"W_KQ": np.abs(W_KQ - ideal_KQ), "W_PV": np.abs(W_PV - ideal_PV)}
        product = max(rest, key=lambda name: rest[name].max())
        row, column = np.unravel_index(rest[product].argmax(), W_KQ.shape)
        readings.append(
            StepReading(
                layer=layer.name,
                head=head,
                step_size_over_num_examples=float(eta * beta),
                gamma=float(gamma * beta),
                largest_other=float(rest[product].max()),
                largest_other_at=f"{product}[{layer.labels[row]}, {layer.labels[column]}]",
            )
        )
    return tuple(readings)


@dataclass(frozen=True)
class Spectrum:
    """The singular values of one head's products, in falling order, and how many of them count.

    NaN and `None` where a weight is not finite.
    """

    layer: str
    head: int
    W_KQ: Float[np.ndarray, " embed_dim"]
    W_PV: Float[np.ndarray, " embed_dim"]
    effective_rank_KQ: float | None
    effective_rank_PV: float | None


@gated
def spectra(model: Any) -> tuple[Spectrum, ...]:
    """Singular values of the gauge-fixed products, and their effective rank exp(−Σ pᵢ log pᵢ), pᵢ = σᵢ/Σσ.

    Roy and Vetterli 2007. The effective rank of a zero matrix is 0.
    """
    return tuple(
        Spectrum(
            layer=layer.name,
            head=head,
            W_KQ=(sigma_KQ := _singular_values(layer.W_KQ[head])),
            W_PV=(sigma_PV := _singular_values(layer.W_PV[head])),
            effective_rank_KQ=_effective_rank(sigma_KQ),
            effective_rank_PV=_effective_rank(sigma_PV),
        )
        for layer in gauge_fixed(model)
        for head in range(layer.num_heads)
    )


def _singular_values(matrix: np.ndarray) -> np.ndarray:
    if not np.isfinite(matrix).all():
        return np.full(len(matrix), np.nan)
    return np.linalg.svd(matrix, compute_uv=False)


def _effective_rank(sigma: np.ndarray) -> float | None:
    if np.isnan(sigma).any():
        return None
    if not sigma.any():
        return 0.0
    p = sigma[sigma > 0] / sigma.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


def _inner(layer: Products, other: Products) -> float:
    """⟨Σ_h V_h ⊗ K_h, Σ_g V'_g ⊗ K'_g⟩ = Σ_{h,g} ⟨V_h, V'_g⟩ ⟨K_h, K'_g⟩."""
    values = np.einsum("hab,gab->hg", layer.W_PV, other.W_PV)
    keys = np.einsum("hab,gab->hg", layer.W_KQ, other.W_KQ)
    return float((values * keys).sum())
