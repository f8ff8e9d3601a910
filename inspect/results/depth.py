"""Several layers and several steps: von Oswald et al. 2023, Figure 3 and appendix A.10; Rossi et al. 2024."""

from ..reproduction import Result

RESULTS: tuple[Result, ...] = ()
