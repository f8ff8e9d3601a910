"""Layers as steps of GD++."""

from ..activations.layers_as_steps import fitted_steps
from ..instrument import Content, register_instrument
from ..subject import Subject


@register_instrument(
    "fitted-steps",
    title="Layers as steps of GD++",
    question="η and γ fitted to what each layer does to the tokens, the map of eigenvalues λ(1 − γλ)² this implies, and "
    "the condition number of the examples before and after each layer.",
    order=100,
)
def measure(subject: Subject) -> Content:
    from ..activations.layers_as_steps_plot import fitted_steps_figure

    fit = fitted_steps(subject.model, subject.task, num_tasks=min(subject.num_tasks, 2_000), key=subject.key)
    return Content(
        figure=fitted_steps_figure(fit),
        alternative="How each layer maps the eigenvalues of the examples, and the condition numbers it leaves.",
        numbers=fit,
    )
