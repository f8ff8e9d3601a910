"""The algorithms a learner may be running, each brought as close to it as it can come."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..train.baselines import fitted_baseline
from ..train.step_size import fitted_step_size
from ..zoo.algorithms.gradient_descent import GradientDescent
from ..zoo.errors import NotApplicable
from ..zoo.gate import gated
from ..zoo.mlp import MLPEmbedding
from ..zoo.models.mlp_gradient_descent import MLPGradientDescent
from ..zoo.models.mlp_lsa import MLPLSA
from ..zoo.prompt import Learner, Prompt
from ..zoo.tensors import named_arrays
from ..zoo.token_model import TokenModel

MOST_STEPS = 5
KERNEL = "kernel-gd"
Predictions = Float[Array, "num_tasks output_dim"]


@dataclass(frozen=True)
class Fit:
    """An algorithm with the parameters that bring its predictions closest to a learner's.

    A parameter that the predictions do not depend on is `None`: γ of the last step of GD++. Steps of gradient descent with free η
    commute, so the order of their step sizes is arbitrary.
    """

    name: str
    algorithm: Learner
    parameters: Mapping[str, Any]
    num_parameters: int


class KernelGradientDescent(eqx.Module):
    """One step of gradient descent on a linear read-out of the features m of a model that has them.

        ŷ = W₀ m(x_query) − (η/N) Σᵢ (W₀ m(xᵢ) − yᵢ) k(xᵢ, x_query),   k(x, x') = m(x)ᵀ m(x')

    von Oswald et al. 2023, Proposition 2.
    """

    embedding: MLPEmbedding
    W_0: Float[Array, "output_dim feature_dim"] | None
    step_size: Float[Array, ""]

    def features(self, x: Float[Array, " input_dim"]) -> Float[Array, " feature_dim"]:
        """m(x); an embedding of whole tokens is given y = 0."""
        label = jnp.zeros(self.embedding.affine.weight.shape[1] - len(x), x.dtype)
        return self.embedding(jnp.concatenate([x, label]))

    @gated
    def mapped(self, prompt: Prompt) -> Prompt:
        """The prompt with features in place of inputs."""
        return Prompt(xs=jax.vmap(self.features)(prompt.xs), ys=prompt.ys, query=self.features(prompt.query))

    @gated
    def __call__(self, prompt: Prompt) -> Float[Array, " output_dim"]:
        return GradientDescent(self.step_size, W_0=self.W_0)(self.mapped(prompt))


@gated
def default_candidates(learner: Learner) -> tuple[str, ...]:
    """The algorithms worth trying: those with steps, for up to as many steps as the learner has layers, and `MOST_STEPS` at most."""
    depth = min(len(learner.stack), MOST_STEPS) if isinstance(learner, TokenModel) else MOST_STEPS
    steps = range(2, depth + 1)
    names = ["zero", "least-squares", "ridge", "knn-1", "knn-3", "nadaraya-watson", "softmax-smoother", "gd-1"]
    names += ["preconditioned-gd", *(f"gd-{k}" for k in steps), *(f"gd++-{k}" for k in steps)]
    names += [f"{name}-{depth}-free" for name in ("gd", "gd++") if depth > 1]
    return (*names, KERNEL) if _embedding(learner) else tuple(names)


@gated
def fit_candidate(name: str, learner: Learner, prompts: Prompt, predictions: Predictions) -> Fit:
    """The algorithm called `name`, tuned to the predictions of `learner` on these prompts, and not to their targets.

    `kernel-gd` takes its features from the learner, and only η is tuned.

    **Raises** `UnknownNameError` for an unknown algorithm; `ZooError` if it cannot read such prompts, or is `kernel-gd` and the learner
    has no features.
    """
    if name == KERNEL:
        algorithm = _kernel(learner, prompts, predictions)
        return Fit(name, algorithm, {"step_size": float(algorithm.step_size)}, 1)
    algorithm = fitted_baseline(name, prompts, predictions)
    eqx.filter_eval_shape(algorithm, jax.tree.map(lambda array: array[0], prompts))
    parameters = named_parameters(name, algorithm)
    leaves = jax.tree.leaves(list(parameters.values()))  # without those that are None
    return Fit(name, algorithm, parameters, len(leaves))


@gated
def named_parameters(name: str, algorithm: Learner) -> dict[str, Any]:
    """The parameters of the algorithm called `name`, those that its predictions do not depend on as `None`."""
    parameters = {path: np.asarray(array).tolist() for path, array in named_arrays(algorithm).items()}
    kind, num_steps = family(name)
    if kind.startswith("gd++"):
        gamma = parameters["gamma"]
        parameters["gamma"] = [*gamma[:-1], None] if isinstance(gamma, list) else gamma if num_steps > 1 else None
    return parameters


@gated
def family(name: str) -> tuple[str, int]:
    """`gd++-2-free` as its family `gd++-free` and its number of steps."""
    match = re.fullmatch(r"(gd|gd\+\+)-(\d+)(-free)?", name)
    return (match[1] + (match[3] or ""), int(match[2])) if match else (name, 1)


def contains(general: str, special: str) -> bool:
    """Whether an algorithm can do exactly what another does, for some choice of its parameters or in their limit."""
    if general == special:
        return True
    if (general, special) in (("preconditioned-gd", "gd-1"), ("ridge", "least-squares"), ("nadaraya-watson", "knn-1")):
        return True
    (family_g, steps_g), (family_s, steps_s) = family(general), family(special)
    if family_s not in _SPECIAL_CASES.get(family_g, ()):
        return special == "zero" and family_g in (*_SPECIAL_CASES, "gd", "preconditioned-gd", "ridge", KERNEL)
    return steps_g >= steps_s if family_g.endswith("free") else steps_g == steps_s


_SPECIAL_CASES: dict[str, Sequence[str]] = {
    "gd++": ("gd",),
    "gd-free": ("gd", "gd-free"),
    "gd++-free": ("gd", "gd-free", "gd++", "gd++-free"),
}


def _embedding(learner: Learner) -> tuple[MLPEmbedding, Array | None] | None:
    if isinstance(learner, MLPLSA):
        return learner.embedding, None
    if isinstance(learner, MLPGradientDescent):
        return learner.features, learner.W_0
    return None


def _kernel(learner: Learner, prompts: Prompt, predictions: Predictions) -> KernelGradientDescent:
    """With W₀ given, ŷ − W₀ m(x_query) is one step from zero on the labels that W₀ leaves, and η has a closed form."""
    found = _embedding(learner)
    if found is None:
        raise NotApplicable(
            f"{KERNEL} needs the features of the learner, and {type(learner).__name__} has none that are known"
        )
    embedding, W_0 = found
    algorithm = KernelGradientDescent(embedding, W_0, jnp.zeros(()))

    def left(prompt: Prompt) -> Prompt:
        mapped = algorithm.mapped(prompt)
        return mapped if W_0 is None else Prompt(mapped.xs, mapped.ys - mapped.xs @ W_0.T, mapped.query)

    mapped = jax.vmap(left)(prompts)
    if W_0 is not None:
        predictions = predictions - mapped.query @ W_0.T
    return eqx.tree_at(lambda a: a.step_size, algorithm, fitted_step_size(mapped, predictions))
