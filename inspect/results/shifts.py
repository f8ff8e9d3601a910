"""One layer and one step of gradient descent where the task is not the one of training: von Oswald et al. 2023, appendices A.2 and A.6."""

from ..reproduction import Result

RESULTS: tuple[Result, ...] = ()
