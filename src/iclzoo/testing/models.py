"""What every model keeps, whoever wrote it. The clauses of its `__init__` are checked when it is registered."""

import tempfile
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from ..zoo.errors import ShapeError
from ..zoo.factory import create, hyperparameters, model_class
from ..zoo.frozen import trainable
from ..zoo.storage.checkpoint import load, save
from ..zoo.storage.tensors import named_arrays
from ..zoo.token_model import TokenModel
from ..zoo.trace import trace
from .contract import Contract, keys, random_prompt, require, require_close, require_prediction, same_bits

MODEL = Contract("model")

# Sizes that make a transposition or a squeezed axis show: (num_examples, input_dim, output_dim).
SIZES = [(7, 5, 1), (1, 3, 1), (5, 1, 1), (11, 3, 2), (1, 1, 1)]


def check_model(name: str) -> None:
    """Check that the model registered under `name` keeps the contract.

    Raises:
        ContractError: which clause it breaks, and how to mend it.
        UnknownNameError: no model of that name is registered.

    Example:
        >>> iclzoo.testing.check_model("lsa")
    """
    model_class(name)
    MODEL.check(name)


def small(name: str, key: Any, *, input_dim: int = 5, output_dim: int = 1, **more: Any) -> Any:
    """A small model of that name, with weights of order one where it lets one choose: small ones would hide what is tested."""
    large = {"init_scale": 1.0} if takes(name, "init_scale") else {}
    return create(name, key=key, **(large | {"input_dim": input_dim, "output_dim": output_dim} | more))


def takes(name: str, *hyperparameter: str) -> bool:
    """Whether a model has these hyperparameters."""
    return set(hyperparameter) <= set(hyperparameters(eqx.filter_eval_shape(lambda: create(name, key=jr.key(0)))))


@MODEL.clause("Give every hyperparameter a default that fits the others, and return an array of shape [output_dim].")
def builds_from_its_defaults(name: str) -> None:
    """With its default hyperparameters it predicts one number for each output."""
    model = create(name, key=jr.key(0))
    prompt = random_prompt(jr.key(1), input_dim=model.input_dim, output_dim=model.output_dim)
    require_prediction(model(prompt), model.output_dim)


@MODEL.clause("Look for a squeezed axis, a transposition, or a division by something that can be 0.")
def predicts_at_awkward_sizes(name: str) -> None:
    """Its predictions are finite for one example, one input and several outputs, and it can be compiled by jax.jit."""
    call, key = jax.jit(lambda model, prompt: model(prompt)), keys()
    for num_examples, input_dim, output_dim in SIZES:
        model = small(name, next(key), input_dim=input_dim, output_dim=output_dim)
        prompt = random_prompt(next(key), num_examples=num_examples, input_dim=input_dim, output_dim=output_dim)
        require_prediction(call(model, prompt), output_dim)


@MODEL.clause("Do not take the size of a head for embed_dim.")
def heads_may_be_of_another_size(name: str) -> None:
    """Where it has num_heads and head_dim, they need not divide the embedding."""
    if takes(name, "num_heads", "head_dim"):
        require_prediction(small(name, jr.key(0), num_heads=3, head_dim=2)(random_prompt(jr.key(1))), 1)


@MODEL.clause("Take out what is not used, or wrap what is not to be trained in iclzoo.Frozen.")
def every_parameter_gets_a_gradient(name: str) -> None:
    """Every array that is trained takes part in the prediction, and its gradient is finite."""
    model, prompt = small(name, jr.key(0)), random_prompt(jr.key(1))
    parameters, rest = eqx.partition(model, trainable(model))
    gradient = jax.grad(lambda p: (eqx.combine(p, rest)(prompt) ** 2).sum())(parameters)
    for path, array in named_arrays(gradient).items():
        require(jnp.isfinite(array).all(), f"the gradient of {path} is not finite")
        require((array != 0).any(), f"{path} gets no gradient")


@MODEL.clause(
    "Read one prompt at a time, use no Python numbers computed from its entries, and make new arrays of its dtype."
)
def vmap_is_a_loop(name: str) -> None:
    """jax.vmap over prompts gives what a loop gives, in double precision, too."""
    with jax.enable_x64(True):
        key = keys()
        model, prompts = small(name, next(key)), [random_prompt(next(key)) for _ in range(3)]
        batch = jax.tree.map(lambda *arrays: jnp.stack(arrays), *prompts)
        loop = jnp.stack([model(prompt) for prompt in prompts])
        require_close(jax.vmap(model)(batch), loop, "jax.vmap(model)(prompts)")


@MODEL.clause("Keep what is no array in static fields, of a kind that compares equal when it is the same.")
def a_second_call_compiles_nothing(name: str) -> None:
    """Two models of the same hyperparameters share one compiled program."""
    key = keys()
    call = jax.jit(lambda model, prompt: model(prompt))
    for _ in range(2):
        call(small(name, next(key)), random_prompt(next(key)))
    count = call._cache_size()  # pyright: ignore[reportAttributeAccessIssue]
    require(count == 1, f"{count} programs were compiled")


@MODEL.clause("Make everything but arrays an argument of __init__, and read each back under its own name.")
def a_file_brings_back_the_same_bits(name: str) -> None:
    """Saved and loaded, it is the same model with the same bits."""
    model = small(name, jr.key(0))
    with tempfile.TemporaryDirectory() as folder:
        loaded = load(save(Path(folder) / "model.v1", model))
    require(type(loaded) is type(model), f"it comes back as {type(loaded).__name__}")
    require(hyperparameters(loaded) == hyperparameters(model), "its hyperparameters come back as others")
    require(same_bits(loaded, model), "its arrays come back as others")


@MODEL.clause("Let each shape follow from the hyperparameters alone, and not from the key.")
def hyperparameters_rebuild_the_architecture(name: str) -> None:
    """Made again from its hyperparameters with another key, it has the same structure and shapes."""
    model = small(name, jr.key(0), input_dim=3, output_dim=2)
    again = create(name, key=jr.key(1), **hyperparameters(model))
    require(jax.tree.structure(again) == jax.tree.structure(model), "its structure differs")
    shapes = [{path: array.shape for path, array in named_arrays(m).items()} for m in (model, again)]
    require(shapes[0] == shapes[1], "the shapes of its arrays differ")


@MODEL.clause("Decorate __call__ with iclzoo.gated, or inherit from iclzoo.TokenModel, which does it.")
def a_wrong_prompt_is_named(name: str) -> None:
    """A prompt of other dimensions is a ShapeError that says which."""
    try:
        small(name, jr.key(0))(random_prompt(jr.key(1), input_dim=4))
    except ShapeError as error:
        require("input_dim 5" in str(error), f"the error says: {error}")
    else:
        raise AssertionError("a prompt of input_dim 4 was read by a model of input_dim 5")


@MODEL.clause("Let embed, stack, context, advance and readout do all that __call__ does.")
def its_trace_ends_in_the_prediction(name: str) -> None:
    """Where it is a TokenModel, its trace has one residual stream more than layers, and ends in its prediction."""
    with jax.enable_x64(True):
        model, prompt = small(name, jr.key(0)), random_prompt(jr.key(1))
        if not isinstance(model, TokenModel):
            return
        seen = trace(model, prompt)
        require_close(seen.predictions[-1], model(prompt), "the last prediction of the trace")
        require(
            len(seen.residual) - 1 == len(model.stack) == len(seen.scores) == len(seen.pattern),
            "the trace has another number of stages than the model has layers",
        )
        for scores, pattern in zip(seen.scores, seen.pattern, strict=True):
            require(scores.shape == pattern.shape, f"scores {scores.shape} and pattern {pattern.shape} differ in shape")
            require(scores.shape[1] == seen.residual.shape[1], "a token of the trace has no scores")


@MODEL.clause("Set order_sensitive = True on the model if the order of the examples matters to it, and only then.")
def the_order_of_examples_matters_only_with_positions(name: str) -> None:
    """Shuffled examples change the prediction if, and only if, the model says that their order matters."""
    with jax.enable_x64(True):
        model, prompt = small(name, jr.key(0)), random_prompt(jr.key(1))
        order = jr.permutation(jr.key(2), prompt.num_examples)
        shuffled = eqx.tree_at(lambda p: (p.xs, p.ys), prompt, (prompt.xs[order], prompt.ys[order]))
        before, after = model(prompt), model(shuffled)
        if getattr(model, "order_sensitive", False):
            require(not jnp.allclose(before, after), "the order makes no difference, but order_sensitive is True")
        else:
            require_close(after, before, "the prediction for shuffled examples")
