"""Preconditioned steps, their sizes and their symmetry, and ReLU attention: Ahn et al. 2023."""

from ..reproduction import Result

RESULTS: tuple[Result, ...] = ()
