"""Softmax heads, layer norms and temperature: von Oswald et al. 2023, appendix A.9."""

from ..reproduction import Result

RESULTS: tuple[Result, ...] = ()
