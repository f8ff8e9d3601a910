"""What gradient flow converges to, and how its predictor generalises: Zhang et al. 2024."""

from ..reproduction import Result

RESULTS: tuple[Result, ...] = ()
