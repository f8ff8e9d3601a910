"""The contracts of the zoo, for everybody: `iclzoo.testing.check_model("mine")` says which clause a model breaks, and how to mend it.

The zoo's own tests call these, so that what is shipped keeps what is asked of others.
"""

from .algorithms import ALGORITHM, check_algorithm
from .contract import Contract
from .instruments import INSTRUMENT, check_instrument
from .models import MODEL, check_model
from .tasks import TASK, check_task

__all__ = [
    "ALGORITHM",
    "INSTRUMENT",
    "MODEL",
    "TASK",
    "Contract",
    "check_algorithm",
    "check_instrument",
    "check_model",
    "check_task",
]
