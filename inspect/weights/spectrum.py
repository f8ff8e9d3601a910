"""The singular values of a layer's products, and how its weights divide between x and y."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from ...zoo.checks.gate import gated
from ...zoo.errors import NotApplicable
from ..instrument import register_instrument
from ..measurement import OnAxes
from .block_shares import BlockShares, block_shares
from .weight_products import gauge_fixed

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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


@dataclass(frozen=True, repr=False)
class Structure(OnAxes):
    """The spectra of every head, and its block shares, where tokens are (x, y)."""

    spectra: tuple[Spectrum, ...]
    shares: tuple[BlockShares, ...]

    title = "effective rank, and the share of each block in the squared norm"
    size = (6.5, 4.2)

    @property
    def summary(self) -> str:
        return "Singular values of the products of each head."

    def rows(self) -> list[dict[str, Any]]:
        shares = {(one.layer, one.head): one for one in self.shares}
        return [
            {"layer": one.layer, "head": one.head, "product": product, "effective_rank": rank, "largest": sigma.max()}
            | _blocks(product, shares.get((one.layer, one.head)))
            for one in self.spectra
            for product, sigma, rank in (
                ("W_KQ", one.W_KQ, one.effective_rank_KQ),
                ("W_PV", one.W_PV, one.effective_rank_PV),
            )
        ]

    def draw(self, ax: "Axes", **options: Any) -> None:
        from .spectrum_plot import spectrum_curves

        spectrum_curves(self.spectra, ax=ax, **options)


def _blocks(product: str, shares: BlockShares | None) -> dict[str, float | None]:
    """The shares of the four blocks by name; none where the layer has no blocks."""
    if shares is None:
        return {}
    matrix = getattr(shares, product)
    names = (("xx", 0, 0), ("xy", 0, 1), ("yx", 1, 0), ("yy", 1, 1))
    return {f"share_{name}": None if matrix is None else matrix[row, column] for name, row, column in names}


@register_instrument(
    "structure",
    title="Spectrum and blocks",
    question="Singular values of the products, with their effective rank; and how the squared norm divides between blocks.",
    order=40,
)
@gated
def structure(model: Any) -> Structure:
    """`spectra` and `block_shares` of a model. **Raises** `NotApplicable` where it has no attention layer."""
    found = spectra(model)
    try:
        return Structure(found, block_shares(model))
    except NotApplicable:
        return Structure(found, ())


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
