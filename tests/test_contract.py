"""What every model of the zoo keeps, whoever wrote it. A new model is under test as soon as it is registered."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_close, random_prompt, trees_equal

from iclzoo.zoo.checkpoint import load, save
from iclzoo.zoo.factory import create, hyperparameters, list_models, model_class
from iclzoo.zoo.frozen import trainable
from iclzoo.zoo.tensors import named_arrays
from iclzoo.zoo.token_model import TokenModel
from iclzoo.zoo.trace import trace

# Sizes that make a transposition or a squeezed axis show: (num_examples, input_dim, output_dim).
SIZES = [(7, 5, 1), (1, 3, 1), (5, 1, 1), (11, 3, 2), (1, 1, 1)]


def build(name: str, key, *, input_dim: int = 5, output_dim: int = 1, **more):
    return create(name, key=key, input_dim=input_dim, output_dim=output_dim, **more)


def build_large(name: str, key):
    """With weights of order one where the model lets one choose: small weights would hide what is tested."""
    return build(name, key, init_scale=1.0) if fits(name, init_scale=1.0) else build(name, key)


def fits(name: str, **given) -> bool:
    """Whether a model takes these hyperparameters at all."""
    model = eqx.filter_eval_shape(lambda: create(name, key=jr.key(0)))
    return set(given) <= set(hyperparameters(model))


@pytest.fixture(params=list_models())
def name(request):
    return request.param


def test_builds_from_its_defaults(name, getkey):
    model = create(name, key=getkey())
    prompt = random_prompt(getkey(), num_examples=7, input_dim=model.input_dim, output_dim=model.output_dim)
    assert model(prompt).shape == (model.output_dim,)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_awkward_sizes_give_finite_predictions(name, size, getkey):
    num_examples, input_dim, output_dim = size
    model = build(name, getkey(), input_dim=input_dim, output_dim=output_dim)
    prompt = random_prompt(getkey(), num_examples=num_examples, input_dim=input_dim, output_dim=output_dim)
    prediction = jax.jit(lambda m, p: m(p))(model, prompt)
    assert prediction.shape == (output_dim,)
    assert jnp.isfinite(prediction).all()


def test_heads_of_another_size_than_the_embedding(name, getkey):
    if fits(name, num_heads=3, head_dim=2):
        model = build(name, getkey(), num_heads=3, head_dim=2)
        assert model(random_prompt(getkey(), input_dim=5)).shape == (1,)


def test_every_parameter_gets_a_gradient(name, getkey):
    """In every layer but the last, for there only what reaches the query's y entry counts: so by array, not by entry."""
    model = build_large(name, getkey())
    parameters, rest = eqx.partition(model, trainable(model))
    prompt = random_prompt(getkey(), input_dim=5)
    gradient = jax.grad(lambda p: (eqx.combine(p, rest)(prompt) ** 2).sum())(parameters)
    for path, array in named_arrays(gradient).items():
        assert jnp.isfinite(array).all(), path
        assert (array != 0).any(), f"{path} gets no gradient"


def test_vmap_equals_a_loop(name, getkey, x64):
    model = build(name, getkey())
    prompts = [random_prompt(getkey(), input_dim=5) for _ in range(3)]
    batch = jax.tree.map(lambda *arrays: jnp.stack(arrays), *prompts)
    assert_close(jax.vmap(model)(batch), jnp.stack([model(prompt) for prompt in prompts]))


def test_a_second_call_compiles_nothing(name, getkey):
    model, other = build(name, getkey()), build(name, getkey())
    function = jax.jit(lambda m, p: m(p))
    function(model, random_prompt(getkey(), input_dim=5))
    function(other, random_prompt(getkey(), input_dim=5))
    assert function._cache_size() == 1  # pyright: ignore[reportAttributeAccessIssue]


def test_a_file_brings_back_the_same_bits(name, getkey, tmp_path):
    model = build(name, getkey())
    save(tmp_path / "model.v1", model)
    loaded = load(tmp_path / "model.v1")
    assert type(loaded) is type(model)
    assert hyperparameters(loaded) == hyperparameters(model)
    assert trees_equal(loaded, model)


def test_hyperparameters_rebuild_the_architecture(name, getkey):
    model = build(name, getkey(), input_dim=3, output_dim=2)
    again = create(name, key=getkey(), **hyperparameters(model))
    assert jax.tree.structure(again) == jax.tree.structure(model)
    assert {p: a.shape for p, a in named_arrays(again).items()} == {p: a.shape for p, a in named_arrays(model).items()}


def test_wrong_prompt_is_named(name, getkey):
    model = build(name, getkey())
    with pytest.raises(Exception, match=r"input_dim 5.*prompt\.xs has 4"):
        model(random_prompt(getkey(), input_dim=4))


@pytest.mark.parametrize("name", [name for name in list_models() if issubclass(model_class(name), TokenModel)])
def test_trace_ends_in_the_prediction(name, getkey, x64):
    model = build_large(name, getkey())
    prompt = random_prompt(getkey(), input_dim=5)
    seen = trace(model, prompt)
    assert_close(seen.predictions[-1], model(prompt))
    assert len(seen.residual) == len(model.stack) + 1 == len(seen.scores) + 1 == len(seen.pattern) + 1
    for scores, pattern in zip(seen.scores, seen.pattern, strict=True):
        assert scores.shape == pattern.shape
        assert scores.shape[1] == seen.residual.shape[1]


def test_the_order_of_examples_matters_only_with_positions(name, getkey, x64):
    model = build_large(name, getkey())
    prompt = random_prompt(getkey(), input_dim=5)
    order = jr.permutation(getkey(), prompt.num_examples)
    shuffled = eqx.tree_at(lambda p: (p.xs, p.ys), prompt, (prompt.xs[order], prompt.ys[order]))
    before, after = model(prompt), model(shuffled)
    if getattr(model, "has_positions", False):
        assert not np.allclose(before, after)
    else:
        assert_close(after, before)


def test_no_two_models_are_the_same_class():
    classes = [type(eqx.filter_eval_shape(lambda n=n: create(n, key=jr.key(0)))) for n in list_models()]
    assert len(set(classes)) == len(classes)
