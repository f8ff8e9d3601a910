"""Tokens that must be copied together first: von Oswald et al. 2023, Figure 5."""

from ..reproduction import Result

RESULTS: tuple[Result, ...] = ()
