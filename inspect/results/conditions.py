"""Fixed tasks, query initialisation and learning rates: von Oswald et al. 2023, appendix A.11; Rossi et al. 2024."""

from ..reproduction import Result

RESULTS: tuple[Result, ...] = ()
