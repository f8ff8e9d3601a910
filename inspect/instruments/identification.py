"""Which algorithm is it?"""

from dataclasses import asdict
from typing import Any

from ..identification.verdict import identify
from ..instrument import Content, register_instrument
from ..report.tables import identification_tables
from ..subject import Subject


@register_instrument(
    "identification",
    title="Which algorithm is it?",
    question="Each algorithm is tuned to the learner; explained variance is the share of its predictions and sensitivities that "
    "it explains, inside and outside the training distribution.",
    order=20,
)
def measure(subject: Subject) -> Content:
    from ..identification.verdict_plot import identification_figure

    found = identify(subject.model, subject.task, num_tasks=min(subject.num_tasks, 5_000), key=subject.key)
    return Content(
        figure=identification_figure(found),
        alternative=f"ExplainedVariance of each algorithm with {subject.name}. {found.reason}",
        numbers={"verdict": found.verdict, "reason": found.reason, "ranking": [_candidate(c) for c in found.ranking]},
        tables=identification_tables(found),
    )


def _candidate(candidate: Any) -> dict[str, Any]:
    """A candidate without the algorithm itself."""
    return {name: value for name, value in vars(candidate).items() if name != "algorithm"} | {
        "explained": [asdict(one) for one in candidate.explained]
    }
