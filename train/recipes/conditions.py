"""One layer under other conditions: teachers with a mean, and a fixed set of training tasks."""

from dataclasses import replace

from ..schedule import Every
from ..tasks.regression import LinearRegression, PromptPool
from ..tasks.teachers import GaussianTeacher
from .one_layer import SETTLING

TEACHER_MEAN = 2.0
NUM_TASKS = (128, 512, 2048, 8192)

_MEAN_TASK = LinearRegression(teacher=GaussianTeacher(mean=TEACHER_MEAN))
_MEAN = replace(
    SETTLING,
    name="query-init-zero",
    description=f"Teachers of mean {TEACHER_MEAN:g}, and a query token that starts at zero.",
    reference="Rossi et al. 2024",
    task=_MEAN_TASK,
    num_steps=5000,
    log=Every(500),
)

RECIPES = (
    _MEAN,
    replace(
        _MEAN,
        name="query-init-known",
        description=f"Teachers of mean {TEACHER_MEAN:g}, and a query token that starts at −W₀ x with W₀ the mean of the teachers.",
        hyperparameters={"init_scale": 0.005, "query_init": "known"},
        initial_values={"W_0.value": TEACHER_MEAN},
    ),
    replace(
        _MEAN,
        name="query-init-learned",
        description=f"Teachers of mean {TEACHER_MEAN:g}, and a query token that starts at −W₀ x with a W₀ that is learned.",
        hyperparameters={"init_scale": 0.005, "query_init": "learned"},
    ),
    *(
        replace(
            SETTLING,
            name=f"lsa-{num_tasks}-prompts",
            description=f"One layer that has met {num_tasks} prompts only, again and again.",
            reference="von Oswald et al. 2023, appendix A.11",
            task=PromptPool(num_tasks=num_tasks),  # pyright: ignore[reportCallIssue]
        )
        for num_tasks in NUM_TASKS
    ),
)
