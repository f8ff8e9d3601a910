"""LSTMs beside gradient descent: Rossi et al. 2024."""

from ..reproduction import Result

RESULTS: tuple[Result, ...] = ()
