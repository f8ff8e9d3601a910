"""Instruments: questions to a learner, by name, whoever wrote them."""

from collections.abc import Callable, Mapping
from functools import update_wrapper, wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from ..zoo.checks.gate import gate
from ..zoo.checks.values import Text, Whole
from ..zoo.determinism import key_of
from ..zoo.errors import ArgumentError, ContractError, ZooError
from ..zoo.registry import Registry
from .checkpoint import Checkpoint, checkpoint_named
from .measurement import About, Measurement

Parameters = ParamSpec("Parameters")
Measured = TypeVar("Measured", bound=Measurement)

LAST = 1000
MEASURING_SEED = 1_000_003  # of the tasks that everything is measured on: far from those of any training


class Supplied:
    """The default of a parameter that an instrument fills in by itself, from the checkpoint that it is asked of."""

    def __init__(self, meaning: str, of: Callable[[Checkpoint], Any]):
        self.meaning, self.of = meaning, of

    def __repr__(self) -> str:
        return self.meaning


OWN_TASK: Any = Supplied("the task of its card", lambda checkpoint: checkpoint.task)
FIRST_BASELINE: Any = Supplied("the first baseline of its card", lambda checkpoint: checkpoint.first_baseline[1])
FIXED_KEY: Any = Supplied(f"the key of seed {MEASURING_SEED}", lambda _: key_of(MEASURING_SEED))

# What the first parameter of an instrument gets of a checkpoint, by its name.
_PARTS: dict[str, Callable[[Checkpoint], Any]] = {
    "learner": lambda checkpoint: checkpoint.model,
    "model": lambda checkpoint: checkpoint.model,
    "learners": lambda checkpoint: {checkpoint.name: checkpoint.model, **checkpoint.baselines},
    "training": lambda checkpoint: checkpoint.steps,
    "task": lambda checkpoint: checkpoint.task,
    "checkpoint": lambda checkpoint: checkpoint,
}
OTHER = "other"  # the parameter that `--beside` fills


class Instrument:
    """A question to a learner: called as the function it was made of, or `of` a checkpoint, it gives a `Measurement`.

    It raises `NotApplicable` with the reason where it does not apply. A checkpoint, by name, path or `Checkpoint`, may stand in the place
    of its first argument: the task is then that of its card, unless another is given, which the measurement says. A key that is not given
    is that of `MEASURING_SEED`.
    """

    def __init__(
        self,
        name: str,
        title: str,
        question: str,
        measure: Callable[..., Measurement],
        order: int = LAST,
        cost: str = "",
        films: tuple[str, ...] = (),
    ):
        self.name, self.title, self.question, self.cost, self.order = name, title, question, cost, order
        self.films = films
        self.measure = measure
        self.parameters = signature(measure).parameters
        update_wrapper(self, measure)
        self.__name__ = measure.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Measurement:
        try:
            given = signature(self.measure).bind_partial(*args, **kwargs).arguments
        except TypeError:
            return self.measure(*args, **kwargs)  # Python says what is wrong
        first = next(iter(self.parameters))
        checkpoint = checkpoint_named(given.get(first))
        if checkpoint is None and first == "checkpoint" and first in given:
            raise ArgumentError(
                f"{self.__name__}() needs a checkpoint, got {_called(given[first])!r}; "
                "pass its name or path, or iclzoo.Checkpoint.of(model, task)"
            )
        if checkpoint is not None:
            del given[first]
        elif first == "learners" and first in given:
            given[first] = _by_name(given[first])
        return self._ask(checkpoint, given)

    def of(
        self, checkpoint: Checkpoint, *, other: Any = None, num_tasks: int | None = None, at_most: int | None = None
    ) -> Measurement:
        """Ask of a checkpoint: beside `other` where it takes one, on `num_tasks` tasks, or its own number and `at_most` so many."""
        given: dict[str, Any] = {}
        if other is not None:
            if OTHER not in self.parameters:
                raise ArgumentError(f"the instrument {self.name!r} looks at one learner; nothing can stand beside it")
            given[OTHER] = other
        if "num_tasks" in self.parameters:
            own = self.parameters["num_tasks"].default
            if num_tasks is not None or at_most is not None:
                given["num_tasks"] = num_tasks if num_tasks is not None else min(own, at_most or own)
        elif num_tasks is not None:
            raise ArgumentError(f"the instrument {self.name!r} draws no tasks, so their number means nothing to it")
        return self._ask(checkpoint, given)

    def _ask(self, checkpoint: Checkpoint | None, given: Mapping[str, Any]) -> Measurement:
        wanted: dict[str, Any] = {}
        for place, (name, parameter) in enumerate(self.parameters.items()):
            if name in given:
                wanted[name] = given[name]
                continue
            default = parameter.default
            supply = default.of if isinstance(default, Supplied) else _PARTS.get(name) if place == 0 else None
            if supply is None:
                continue
            if checkpoint is None and default is not FIXED_KEY:
                raise ArgumentError(
                    f"{self.__name__}() needs {name}: pass it, or begin with the name of a checkpoint, whose card says it; "
                    f"the order is {self.__name__}({', '.join(self.parameters)})"
                )
            wanted[name] = supply(checkpoint)  # pyright: ignore[reportArgumentType]
        measured = self.measure(**wanted)
        if not isinstance(measured, Measurement):
            raise ContractError(
                f"the instrument {self.name!r} must return a Measurement, got {type(measured).__name__}; "
                "docs/adding-an-instrument.md has one"
            )
        measured.said_of(self._about(checkpoint, given, wanted))
        return measured

    def _about(self, checkpoint: Checkpoint | None, given: Mapping[str, Any], wanted: Mapping[str, Any]) -> About:
        """What was measured, in words."""
        if checkpoint is None:
            return About(_called(next(iter(wanted.values()))), _called(given.get(OTHER)))
        supplied = OTHER not in given and OTHER in wanted  # the first baseline
        other = checkpoint.first_baseline[0] if supplied else _called(given.get(OTHER))
        return About(checkpoint.name, other, _another_task(checkpoint, given["task"]) if "task" in given else "")

    def __repr__(self) -> str:
        return f"<instrument {self.name!r}: {self.title}>"


def _by_name(learners: Any) -> Any:
    """One learner, or several in a list, by what they are called, each by a name of its own; a mapping as it is."""
    if isinstance(learners, Mapping):
        return learners
    named: dict[str, Any] = {}
    for learner in learners if isinstance(learners, list | tuple) else [learners]:
        name = _called(learner) or "learner"
        named[name if name not in named else f"{name} ({len(named) + 1})"] = learner
    return named


def _called(learner: Any) -> str:
    if learner is None or isinstance(learner, Mapping):
        return "" if learner is None else "learner"
    checkpoint = checkpoint_named(learner)
    if checkpoint is not None:
        return checkpoint.name
    return learner if isinstance(learner, str) else type(learner).__name__


def _another_task(checkpoint: Checkpoint, task: Any) -> str:
    """Which settings of `task` are not those of the checkpoint's card, in words; nothing where all are."""
    try:
        own = checkpoint.task
    except ZooError:
        return ""
    if type(own) is not type(task):
        return f"measured on {type(task).__name__}, trained on {type(own).__name__}"
    different = [name for name in vars(own) if repr(getattr(task, name, None)) != repr(getattr(own, name))]
    if not different:
        return ""
    here, there = (", ".join(f"{name} {getattr(one, name)}" for name in different) for one in (task, own))
    return f"measured on tasks with {here}, trained with {there}"


def _check(name: str, instrument: Any) -> Instrument:
    if not isinstance(instrument, Instrument):
        raise ContractError(f"the instrument {name!r} must be a function that is decorated with @register_instrument")
    return instrument


_ROOMS = ("identification", "weights", "behaviour", "activations", "theory", "report")
INSTRUMENTS = Registry(
    "instrument",
    group="iclzoo.instruments",
    folders=tuple(f"{__package__}.{room}" for room in _ROOMS),
    check=_check,
)
instruments = INSTRUMENTS  # as the front door has them


@gate(title=Text(), question=Text(), cost=Text(), order=Whole(0))
def register_instrument(
    name: str,
    *,
    title: str = "",
    question: str,
    cost: str = "seconds",
    order: int = LAST,
    formerly: tuple[str, ...] = (),
    films: tuple[str, ...] = (),
) -> Callable[[Callable[Parameters, Measured]], Callable[Parameters, Measured]]:
    """Decorator: add a function that returns a `Measurement` to the instruments.

    Its first parameter says what it wants of a checkpoint: `learner` or `model`, `learners` (with its baselines), `training` (the models
    by step), `task`, or the `checkpoint` itself. `other` is what is set beside it, perhaps by default `FIRST_BASELINE`; then come
    `task = OWN_TASK`, `num_tasks` and `key = FIXED_KEY`.

    Args:
        name: as it is called at the command line, and its files in a report.
        title: of its section in a report; the name unless given.
        question: what it asks, and how to read the answer, in a sentence or two.
        cost: about how long it takes, as "seconds" or "a minute".
        order: its place in a report; those of others come last, by name.
        formerly: names it had before.
        films: the endings of moving pictures that its measurements can make, as "gif".

    Raises:
        ContractError: the name is taken.
    """

    def decorate(measure: Callable[Parameters, Measured]) -> Callable[Parameters, Measured]:
        instrument = Instrument(name, title or name, question, measure, order, cost, films)
        INSTRUMENTS.register(name, formerly=formerly)(instrument)

        @wraps(measure)
        def asked(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Measured:
            return instrument(*args, **kwargs)  # pyright: ignore[reportReturnType]

        return asked

    return decorate


def in_order() -> list[Instrument]:
    """Every instrument, in the order of a report."""
    return sorted(INSTRUMENTS.items().values(), key=lambda one: (one.order, one.name))
