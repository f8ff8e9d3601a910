"""Sine regression and its control: von Oswald et al. 2023, Figure 4."""

from ..reproduction import Result

RESULTS: tuple[Result, ...] = ()
