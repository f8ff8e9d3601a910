"""The contracts of the zoo, for everybody: `iclzoo.testing.check_model("mine")` says which clause a model breaks, and how to mend it.

The zoo's own tests call these, so that what is shipped keeps what is asked of others.
"""

from .contract import Contract
from .models import MODEL, check_model
from .tasks import TASK, check_task

__all__ = ["MODEL", "TASK", "Contract", "check_model", "check_task"]
