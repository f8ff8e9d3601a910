"""The gates of public functions: their arguments are checked at the door, by one table.

The name of a parameter says what it takes (docs/conventions.md): a `task` is a task, a `key` a random key. Where it means something else,
the decorator says what.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, Signature, signature
from os import PathLike
from typing import Any, TypeVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..errors import ShapeError, ZooError
from ..prompt import Learner, Prompt
from .arguments import (
    LEARNER,
    LEARNERS,
    NAME,
    NAME_OR_LEARNER,
    PATH,
    PRODUCTS,
    PROMPT,
    PROMPTS,
    RECIPE,
    STEPS,
    TASK,
    Check,
    array,
    described,
    function,
    key,
    layered,
    of_sort,
    or_array,
    several,
    training,
)
from .process import check_process
from .values import MAX_DEVICES, MAX_MEMBERS, MAX_SEED, MAX_SIZE, MAX_TASKS, Real, Truth, Whole

Function = TypeVar("Function", bound=Callable)

COUNT = Whole(1, MAX_SIZE)
POINTS = Whole(1, 10_000)  # of a curve
POSITIVE = Real(above=0)

# What a parameter takes, by its name.
PARAMETERS: dict[str, Check] = {
    **dict.fromkeys(("learner", "other", "baseline", "model", "start", "end", "beside", "algorithm"), LEARNER),
    **dict.fromkeys(("learners", "others"), LEARNERS),
    **{
        "task": TASK,
        "prompt": PROMPT,
        "prompts": PROMPTS,
        "key": key,
        "recipe": RECIPE,
        "layer": PRODUCTS,
        "steps": STEPS,
    },
    **dict.fromkeys(("target", "targets", "predictions"), array),
    **dict.fromkeys(("name", "pattern", "kind", "distribution"), NAME),
    **dict.fromkeys(("candidates", "baselines"), several(NAME_OR_LEARNER, least=0)),
    **{"training": training, "path": PATH, "folder": PATH},
    **dict.fromkeys(("measure", "probe"), function),
    **dict.fromkeys(("num_tasks", "chunk"), Whole(1, MAX_TASKS)),
    "num_examples": COUNT,
    **dict.fromkeys(("num_points", "num_applications", "resolution"), POINTS),
    "num_prompts": Whole(1, 36),  # on one figure
    **{"seed": Whole(0, MAX_SEED), "seeds": several(Whole(0, MAX_SEED), most=MAX_MEMBERS), "step": Whole(0)},
    "devices": several(of_sort("a device"), most=MAX_DEVICES),
    **{"step_size": or_array(Real()), "scale": or_array(POSITIVE), "duration": POSITIVE},
    **dict.fromkeys(("dampings", "t"), several(Real())),
    **dict.fromkeys(("overwrite", "resume", "progress", "metrics", "fixed_gauge"), Truth()),
}


def gate(**checks: Check | None) -> Callable[[Function], Function]:
    """Decorator: check the arguments of a function by `PARAMETERS`, and by `checks` where a name means something else or anything.

    The function gets what the checks give back: an `int` for NumPy's. The default of a parameter is not checked.

    The function **raises** a `ZooError` that names the parameter, and the order of the arguments where it was another one.
    """

    def decorate(function: Function) -> Function:
        own = signature(function)
        wanted = {name: check for name in own.parameters if (check := (PARAMETERS | checks).get(name))}

        computes = any(check not in (NAME, PATH) for check in wanted.values())

        @wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            if computes:
                check_process()
            try:
                bound = own.bind(*args, **kwargs)
            except TypeError:
                return function(*args, **kwargs)  # Python says what is missing
            given = bound.arguments
            for name in wanted:
                if name in given and given[name] is not own.parameters[name].default:
                    try:
                        given[name] = wanted[name](name, _named(wanted[name], given[name], given.get("task")))
                    except ZooError as error:
                        raise type(error)(f"{error}{_order(name, wanted, given, function)}") from None
            _fit_together(wanted, given)
            return function(*bound.args, **bound.kwargs)

        return checked  # pyright: ignore[reportReturnType]

    return decorate


def gated(function: Function) -> Function:
    """Decorator: check the arguments of a function by their names, as `gate()` does; an argument in the wrong place is named."""
    return gate()(function)


@gated
def predict(learner: Learner, prompt: Prompt) -> Float[Array, " output_dim"]:
    """The prediction of any learner for one prompt. **Raises** `ShapeError` unless it is floating-point numbers [output_dim]."""
    prediction = learner(prompt)
    floating = jnp.issubdtype(getattr(prediction, "dtype", object), jnp.floating)
    if not floating or getattr(prediction, "shape", None) != (prompt.output_dim,):
        raise ShapeError(
            f"a learner must predict floating-point numbers of shape [output_dim] = [{prompt.output_dim}], "
            f"but {described(learner)} predicts {described(prediction)}"
        )
    return prediction


def _named(check: Check, value: Any, task: Any) -> Any:
    """A learner in place of its name."""
    from ..names import named_learner  # which reads checkpoints, by functions with gates

    if check is LEARNERS and isinstance(value, Mapping):
        return {name: _named(LEARNER, learner, task) for name, learner in value.items()}
    is_name = isinstance(value, str | PathLike)
    return named_learner(value, task) if is_name and check in (LEARNER, layered) else value


def _fit_together(wanted: Mapping[str, Check], given: Mapping[str, Any]) -> None:
    """**Raises** `ShapeError` unless the learners read such prompts as are given, and the targets are those of the prompts."""
    learners = [given[name] for name in given if name == "self" or wanted.get(name) in (LEARNER, layered)]
    learners += [learner for name in given if wanted.get(name) is LEARNERS for learner in given[name].values()]
    for name in (name for name in given if wanted.get(name) in (TASK, PROMPT, PROMPTS)):
        for dim, rows in (("input_dim", "xs"), ("output_dim", "ys")):
            has = getattr(given[name], dim)
            says = (
                f"{name} has {has} ({type(given[name]).__name__})"
                if wanted[name] is TASK
                else f"{name}.{rows} has {has} entries a row"
            )
            for learner in learners:
                reads = getattr(learner, dim, has)
                if isinstance(reads, int) and reads != has:
                    raise ShapeError(f"{type(learner).__name__} reads prompts of {dim} {reads}, but {says}")
    for name in given:
        if wanted.get(name) is array:
            prompts = given["prompt" if name == "target" else "prompts"]
            shape = (*prompts.xs.shape[:-2], prompts.output_dim)
            if given[name].shape != shape:
                raise ShapeError(
                    f"{name} must have the shape {shape}, a label for each prompt, got {given[name].shape}"
                )


def _order(name: str, wanted: Mapping[str, Check], given: Mapping[str, Any], function: Callable) -> str:
    """The order of the arguments, where what came as `name` belongs to another one, and what came there does not."""

    def passes(check: Check, value: Any) -> bool:
        try:
            check("", value)
        except ZooError:
            return False
        return True

    others = wanted.keys() & given.keys()
    if not any(passes(wanted[other], given[name]) and not passes(wanted[other], given[other]) for other in others):
        return ""
    parameters = [
        p.replace(default=Parameter.empty, annotation=Parameter.empty)
        for p in signature(function).parameters.values()
        if p.name != "self"
    ]
    return f"; the order is {function.__name__}{Signature(parameters)}"
