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


@dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        fixed = "as they are" if self.scale is None else "gauge fixed"
        return f"<Products of {self.name}: {self.num_heads} head(s), {len(self.labels)} × {len(self.labels)}, {fixed}>"

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


def _inner(layer: Products, other: Products) -> float:
    """⟨Σ_h V_h ⊗ K_h, Σ_g V'_g ⊗ K'_g⟩ = Σ_{h,g} ⟨V_h, V'_g⟩ ⟨K_h, K'_g⟩."""
    values = np.einsum("hab,gab->hg", layer.W_PV, other.W_PV)
    keys = np.einsum("hab,gab->hg", layer.W_KQ, other.W_KQ)
    return float((values * keys).sum())
