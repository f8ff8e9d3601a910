"""What functions take beside numbers: each check lets an argument through, or says what was expected, what came, and what to write.

Things are recognised by what they can do, and traced ones too, so that a check works within `jit`, `vmap` and `grad`.
"""

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ArgumentError, ShapeError
from ..prompt import Prompt
from .values import is_traced, shown, whole_number

Check = Callable[[str, Any], Any]  # (the name of the parameter, what was given) -> what the function gets


class _Sort(NamedTuple):
    holds: Callable[[Any], bool]
    example: str = ""  # what to write for one


def _is(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


def _has(*names: str) -> Callable[[Any], bool]:
    return lambda value: all(hasattr(value, name) for name in names)


def _prompts(num_axes: int) -> Callable[[Any], bool]:
    """Whether this is a `Prompt` with so many leading axes, and its arrays belong together: those made by `vmap` are unchecked."""

    def holds(value: Any) -> bool:
        if not isinstance(value, Prompt) or len(np.shape(value.xs)) != num_axes + 2 or 0 in value.xs.shape[:num_axes]:
            return False
        *axes, num_examples, input_dim = value.xs.shape
        return np.shape(value.ys)[:-1] == (*axes, num_examples) and np.shape(value.query) == (*axes, input_dim)

    return holds


def _keys(num_axes: int) -> Callable[[Any], bool]:
    """Whether these are random keys with so many leading axes, typed or of the old form, which is uint32[2] or uint32[4]."""

    def holds(value: Any) -> bool:
        if not isinstance(value, jax.Array | np.ndarray):
            return False
        typed = jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
        old = value.dtype == np.uint32 and value.shape[-1:] in ((2,), (4,))
        return (typed or old) and value.ndim == num_axes + (not typed)

    return holds


# A thing is called by the first of these that holds.
_SORTS = {
    "a class": _Sort(_is(type)),
    "a string": _Sort(_is(str)),
    "a path": _Sort(_is(PathLike)),
    "a mapping": _Sort(_is(Mapping)),
    "one prompt": _Sort(_prompts(0), "prompt, target = task.sample(key)"),
    "a batch of prompts": _Sort(_prompts(1), "prompts, targets = task.sample_batch(key, 100)"),
    "a random key": _Sort(_keys(0), "jax.random.key(0)"),
    "a batch of random keys": _Sort(_keys(1)),
    "a task": _Sort(_has("sample", "input_dim", "output_dim", "num_examples"), "iclzoo.LinearRegression()"),
    "a recipe": _Sort(_has("task", "optimiser", "batch_size", "num_steps"), 'iclzoo.recipe("lsa-fast")'),
    "the products of a layer": _Sort(_has("W_KQ", "W_PV", "labels"), "iclzoo.products(model)[0]"),
    "a device": _Sort(_has("platform", "process_index"), "jax.devices()[0]"),
    "a learner": _Sort(callable, 'iclzoo.load("lsa") or iclzoo.LeastSquares()'),
}
# What to do about the commonest mistakes, by what was wanted and what came.
_ADVICE = {
    ("a learner", "a recipe"): "write iclzoo.fit(recipe).model",
    ("a recipe", "a string"): "write iclzoo.recipe({0!r})",
    ("one prompt", "a batch of prompts"): "use jax.vmap, as in jax.vmap(model)(prompts)",
    ("a random key", "a batch of random keys"): "use jax.vmap, or one of them, as in keys[0]",
}


def of_sort(*wanted: str, example: str = "") -> Check:
    """The check for things of these sorts. It **raises** `ShapeError` about prompts, else `ArgumentError`."""

    def check(name: str, value: Any) -> Any:
        came = _sort(value)
        if came in wanted:
            return value
        advice = f"write {example or _SORTS[wanted[0]].example}"
        if came == "a class" and "a string" not in wanted:
            advice = f"write {value.__name__}(…)"
        if (wanted[0], came) in _ADVICE:
            advice = _ADVICE[wanted[0], came].format(value)
        error = ShapeError if "prompt" in wanted[0] or "batch" in came else ArgumentError
        raise error(f"{name} must be {' or '.join(wanted)}, got {described(value)}; {advice}")

    return check


def mapping(keys: Check, values: Check, example: str) -> Check:
    """The check for a mapping, by a check of its keys and one of its values."""

    def check(name: str, value: Any) -> dict[Any, Any]:
        entries = of_sort("a mapping", example=example)(name, value)
        return {keys(f"a key of {name}", key): values(f"{name}[{key!r}]", entry) for key, entry in entries.items()}

    return check


def several(each: Check, least: int = 1, most: int = 10_000) -> Check:
    """The check for things in order, one or more unless said otherwise, by a check of each."""

    def check(name: str, value: Any) -> Any:
        ordered = isinstance(value, list | tuple | range) or np.ndim(value) == 1
        if not ordered or not least <= len(value) <= most:
            raise ArgumentError(f"{name} must be a list or a tuple of {least} to {most}, got {described(value)}")
        return tuple(each(f"{name}[{place}]", entry) for place, entry in enumerate(value))

    return or_array(check)


def or_array(check: Check) -> Check:
    """The check for numbers that JAX may differentiate by: its arrays stay what they are, and traced ones have no values to check."""

    def check_value(name: str, value: Any) -> Any:
        checked = value if is_traced(value) else check(name, value)
        return value if isinstance(value, jax.Array) else checked

    return check_value


def array(name: str, value: Any) -> Any:
    """The check for an array of floating-point numbers."""
    if not isinstance(value, jax.Array | np.ndarray) or not jnp.issubdtype(value.dtype, jnp.floating):
        raise ArgumentError(f"{name} must be an array of floating-point numbers, got {described(value)}")
    return jnp.asarray(value)


def function(name: str, value: Any) -> Any:
    """The check for a function of any kind."""
    if isinstance(value, type) or not callable(value):
        raise ArgumentError(f"{name} must be a function, got {described(value)}")
    return value


def training(name: str, value: Any) -> Any:
    """The check for a checkpoint, by name or path, or the models of a training by step."""
    if isinstance(value, Mapping):
        return STEPS(name, value)
    return of_sort("a string", "a path", "a mapping", example='"runs/mine", or {0: model}')(name, value)


def described(value: Any) -> str:
    """What came, in a few words."""
    sort, kind = _sort(value), getattr(value, "__name__", type(value).__name__)
    if "batch" in sort:
        return sort.replace("batch of", f"batch of {len(jax.tree.leaves(value)[0])}")
    if isinstance(value, type | str | PathLike):
        return f"{sort.replace('a ', 'the ')} {kind if sort == 'a class' else repr(str(value))}"[:80]
    if hasattr(value, "shape") and not sort:
        return f"an array of shape {value.shape} and dtype {getattr(value, 'dtype', 'unknown')}"
    if isinstance(value, tuple | list | set | range):
        return f"a {kind} of {len(value)}"
    return f"{sort} ({kind})" if sort else shown(value)


def _sort(value: Any) -> str:
    return next((sort for sort in _SORTS if _SORTS[sort].holds(value)), "")


def key(name: str, value: Any) -> Any:
    """The check for a random key, NumPy's arrays of the old form among them."""
    value = of_sort("a random key")(name, value)
    return jnp.asarray(value) if isinstance(value, np.ndarray) else value


def layered(name: str, value: Any) -> Any:
    """The check for a `TokenModel`, whose layers can be looked into."""
    if not hasattr(LEARNER(name, value), "stack"):
        raise ArgumentError(f"{name} must have layers over tokens, as a TokenModel has, got {described(value)}")
    return value


LEARNER, TASK, RECIPE = of_sort("a learner"), of_sort("a task"), of_sort("a recipe")
PROMPT, PROMPTS, PRODUCTS = of_sort("one prompt"), of_sort("a batch of prompts"), of_sort("the products of a layer")
NAME = of_sort("a string", example="a name in quotation marks")
PATH = of_sort("a string", "a path", example='a path, such as "runs/mine"')
NAME_OR_LEARNER = of_sort("a string", "a learner", example='"gd-2" or iclzoo.LeastSquares()')
LEARNERS = mapping(NAME, LEARNER, '{"mine": model}')


def _step(name: str, value: Any) -> int:
    return whole_number(name, value, least=0)


STEPS = mapping(_step, LEARNER, "{0: model}")
