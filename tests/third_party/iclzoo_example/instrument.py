"""How often the sign is right."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

import iclzoo


@dataclass(frozen=True)
class Signs:
    share: float
    num_tasks: int


@iclzoo.register_instrument("sign", title="Sign", question="How often the prediction has the sign of the label.")
def measure(subject: iclzoo.Subject) -> iclzoo.Content:
    if subject.task.output_dim != 1:
        raise iclzoo.NotApplicable("a sign is that of one output, and this task has several")
    prompts, targets = subject.task.sample_batch(subject.key, subject.num_tasks)
    predictions = jax.vmap(subject.model)(prompts)
    found = Signs(float((jnp.sign(predictions) == jnp.sign(targets)).mean()), subject.num_tasks)

    from matplotlib.figure import Figure

    figure = Figure(figsize=(3, 2), layout="constrained")
    figure.subplots().bar([subject.name], [found.share])
    return iclzoo.Content(figure=figure, alternative=f"Right on {found.share:.0%} of tasks.", numbers=found)
