"""Risk of the best one-layer step."""

from ..instrument import Content, register_instrument
from ..subject import Subject
from ..theory.risk import preconditioned_risk


@register_instrument(
    "risk",
    title="Risk of the best one-layer step",
    question="One step through Γ⁻¹, the best a layer can learn on this task, against the length of the test prompt: "
    "squared bias and variance.",
    order=80,
)
def measure(subject: Subject) -> Content:
    from ..theory.exact_losses_plot import risk_figure

    risk = preconditioned_risk(subject.task)
    return Content(
        figure=risk_figure(risk),
        alternative="Risk of the best preconditioned step against the length of the prompt: bias, variance and noise.",
        numbers=risk,
    )
