"""How often the sign is right."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

import iclzoo


@dataclass(frozen=True, repr=False)
class Signs(iclzoo.OnAxes):
    share: float
    num_tasks: int

    @property
    def summary(self):
        return f"The sign is right on {self.share:.0%} of tasks."

    def rows(self):
        return [{"learner": self.about.learner, "share": self.share, "num_tasks": self.num_tasks}]

    def draw(self, ax):
        ax.bar([self.about.learner], [self.share])


@iclzoo.register_instrument("sign", title="Sign", question="How often the prediction has the sign of the label.")
def sign(learner, task=iclzoo.OWN_TASK, *, num_tasks=1_000, key=iclzoo.FIXED_KEY):
    if task.output_dim != 1:
        raise iclzoo.NotApplicable("a sign is that of one output, and this task has several")
    prompts, targets = task.sample_batch(key, num_tasks)
    predictions = jax.vmap(learner)(prompts)
    return Signs(float((jnp.sign(predictions) == jnp.sign(targets)).mean()), num_tasks)
