"""Spectrum and blocks."""

from typing import Any

from ...zoo.errors import NotApplicable
from ..instrument import Content, register_instrument
from ..report.tables import blocks_table
from ..subject import Subject
from ..weights.block_shares import block_shares
from ..weights.spectrum import spectra


@register_instrument(
    "structure",
    title="Spectrum and blocks",
    question="Singular values of the products, with their effective rank; and how the squared norm divides between blocks.",
    order=40,
)
def measure(subject: Subject) -> Content:
    from ..behaviour.training_path_plot import spectrum_figure

    found = spectra(subject.model)
    numbers: dict[str, Any] = {"spectra": found}
    try:
        shares = block_shares(subject.model)
        numbers["block_shares"], tables = shares, (blocks_table(shares),)
    except NotApplicable as reason:
        numbers["block_shares"], tables = str(reason), ()
    return Content(
        figure=spectrum_figure(found), alternative="Singular values of the products.", numbers=numbers, tables=tables
    )
