"""A task of squares."""

import equinox as eqx
import jax.random as jr

import iclzoo


@iclzoo.register_task("quadratic_regression")
class QuadraticRegression(iclzoo.Task):
    """y = Σ_c w_c x_c² with a fresh w ~ N(0, I) for every prompt."""

    input_dim: int = eqx.field(default=3, static=True)
    num_examples: int = eqx.field(default=8, static=True)
    inputs: iclzoo.Inputs = iclzoo.Uniform(1.0)

    @property
    def output_dim(self) -> int:
        return 1

    def draw(self, key):
        key_x, key_w = jr.split(key)
        xs = self.inputs.sample(key_x, self.num_examples + 1, self.input_dim)
        labels = xs**2 @ jr.normal(key_w, (self.input_dim, 1))
        return iclzoo.Prompt(xs=xs[:-1], ys=labels[:-1], query=xs[-1]), labels[-1]
