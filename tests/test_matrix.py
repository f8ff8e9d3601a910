"""Every model crossed with every instrument: numbers and a picture, or a reason that a person understands, and nothing else."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import pytest

from iclzoo.inspect.checkpoint import Checkpoint
from iclzoo.inspect.instrument import INSTRUMENTS
from iclzoo.testing.instruments import answer
from iclzoo.train.tasks.regression import LinearRegression
from iclzoo.zoo.algorithms.least_squares import LeastSquares
from iclzoo.zoo.factory import create, hyperparameters, list_models
from iclzoo.zoo.layers.attention import SelfAttention
from iclzoo.zoo.storage.checkpoint import list_checkpoints, read_card
from iclzoo.zoo.token_model import ConcatenatingModel

pytestmark = pytest.mark.slow

TASK = LinearRegression(input_dim=2, num_examples=4)
SMALL = {"num_layers": 2, "hidden_dim": 7, "hidden_size": 5, "embed_dim": 5, "num_heads": 2, "head_dim": 3}
# These ask nothing of a learner but predictions, and take seconds: the checkpoints are enough for them.
OF_CHECKPOINTS = {"identify", "shifts"}


def answers(checkpoint: Checkpoint, names: set[str]) -> dict[str, str]:
    """Of each instrument, why it does not apply; empty where it does."""
    said = {name: answer(name, checkpoint) for name in sorted(names)}
    return {name: one if isinstance(one, str) else "" for name, one in said.items()}


def small(name: str):
    """A model of tiny sizes; each has those of `SMALL` that it takes."""
    takes = hyperparameters(eqx.filter_eval_shape(lambda: create(name, key=jr.key(0))))
    sizes = {size: value for size, value in SMALL.items() if size in takes}
    return create(name, input_dim=2, output_dim=1, **sizes, key=jr.key(1))


def perturbed(model):
    """Other weights, as after a training."""
    leaves, structure = jax.tree.flatten(model)
    keys = jr.split(jr.key(2), len(leaves))
    moved = [leaf + 0.1 * jr.normal(key, jnp.shape(leaf)) for leaf, key in zip(leaves, keys, strict=True)]
    return jax.tree.unflatten(structure, moved)


@pytest.mark.parametrize("name", list_models())
def test_every_model_in_memory(name):
    start = small(name)
    steps = {0: start, 5: perturbed(start)}
    baselines = {"least-squares": LeastSquares()}
    checkpoint = Checkpoint.of(steps[5], TASK, steps=steps, baselines=baselines)
    said = answers(checkpoint, {*INSTRUMENTS.names()} - OF_CHECKPOINTS)
    assert "the card has no metrics" in said["metrics"]
    assert not said["landscapes"]


def one_of_each_model() -> dict[str, str]:
    """The smallest checkpoint of each model, with the fewest stored steps."""
    cards = {name: read_card(name) for name in list_checkpoints()}
    sizes = {name: (len(card.tensors), len(card.steps)) for name, card in cards.items()}
    return {cards[name].model: name for name in sorted(cards, key=lambda name: sizes[name], reverse=True)}


@pytest.mark.parametrize("name", one_of_each_model().values())
def test_one_checkpoint_of_every_model(name):
    said = answers(Checkpoint(name), {*INSTRUMENTS.names()})
    assert not said["metrics"]


def test_what_is_not_known_of_a_learner_in_memory_is_said():
    checkpoint = Checkpoint.of(LeastSquares(), TASK)
    assert checkpoint.name == "learner"
    for name, reason in {
        "weight-path": "none is stored",
        "alignment": "no baseline",
        "metrics": "no metrics",
    }.items():
        assert reason in str(answer(name, checkpoint))


class Foreign(SelfAttention):
    """Attention of somebody else's, by the interface alone: its products, and its pattern."""

    W_KQ: jax.Array  # pyright: ignore[reportIncompatibleVariableOverride]
    W_PV: jax.Array  # pyright: ignore[reportIncompatibleVariableOverride]

    def pattern(self, scores):
        return jnp.tanh(scores)


class ForeignModel(ConcatenatingModel):
    attention: Foreign
    W_0: None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    input_dim: int = eqx.field(static=True, default=2)
    output_dim: int = eqx.field(static=True, default=1)
    query_in_context: bool = eqx.field(static=True, default=False)

    @property
    def stack(self):
        return (self.attention,)


def test_attention_of_another_class_is_attention():
    model = ForeignModel(Foreign(*jr.normal(jr.key(1), (2, 1, 3, 3))))
    checkpoint = Checkpoint.of(model, TASK, steps={0: model, 1: model})
    said = answers(checkpoint, {*INSTRUMENTS.names()} - OF_CHECKPOINTS)
    assert {name for name, reason in said.items() if not reason} >= {"weights", "structure", "weight-path", "patterns"}
    assert "its layer is Foreign" in said["exact-loss"]
    assert "no law is known" in said["conserved-quantities"]
    assert "implies no step" in said["interpolation"] or "no linear attention" in said["interpolation"]
