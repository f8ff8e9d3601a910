"""The singular values of a layer's products."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ...zoo.checks.gate import gated
from .weight_products import gauge_fixed


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
