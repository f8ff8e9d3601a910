"""What every instrument keeps, whoever wrote it: it is put to learners of different kinds."""

import os
import tempfile
import warnings
from collections.abc import Iterator

import jax.numpy as jnp
import jax.random as jr

from ..inspect.instrument import INSTRUMENTS, Content
from ..inspect.pictures.style import drawn
from ..inspect.report.page import flattened, plain
from ..inspect.subject import Subject
from ..train.tasks.regression import LinearRegression, SineRegression
from ..zoo.algorithms.least_squares import LeastSquares
from ..zoo.errors import NotApplicable
from ..zoo.factory import create
from .contract import Contract, require

INSTRUMENT = Contract("instrument")
NUM_TASKS = 20
SHORTEST_REASON = 4  # words


def check_instrument(name: str) -> None:
    """Check that the instrument registered under `name` keeps the contract.

    Raises:
        ContractError: which clause it breaks, and how to mend it.
        UnknownNameError: no instrument of that name is registered.

    Example:
        >>> iclzoo.testing.check_instrument("weights")
    """
    _ = INSTRUMENTS[name]
    INSTRUMENT.check(name)


def answer(name: str, subject: Subject) -> Content | str:
    """What an instrument shows of a subject, or why it does not apply to it. **Raises** `AssertionError` for anything less."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what a picture marks, such as a product that is zero
            content = INSTRUMENTS[name](subject)
            image = b"" if content.figure is None else drawn(content.figure, "png", dpi=30)
    except NotApplicable as reason:
        require(len(str(reason).split()) >= SHORTEST_REASON, f"the reason {str(reason)!r} is no sentence")
        return str(reason)
    require(isinstance(content, Content), f"it returned a {type(content).__name__} and no Content")
    numbers = [value for _, value in flattened(plain(content.numbers)) if isinstance(value, int | float)]
    require(numbers and any(jnp.isfinite(value) for value in numbers), "it measured no finite number")
    require(image or content.tables, "it shows neither a picture nor a table")
    require(content.alternative or not image, "its picture has no alternative in words")
    return content


def subjects() -> Iterator[Subject]:
    """Learners of different kinds in memory: attention over (x, y), over separate tokens, an LSTM, an algorithm; and other tasks."""
    task = LinearRegression(input_dim=2, num_examples=4)
    for model in ("lsa", "copying_transformer", "lstm"):
        start, end = (create(model, input_dim=2, key=jr.key(seed)) for seed in (0, 1))
        yield Subject.of(end, task, steps={0: start, 5: end}, baselines={"zero": LeastSquares()}, num_tasks=NUM_TASKS)
    yield Subject.of(LeastSquares(), SineRegression(num_examples=4), num_tasks=NUM_TASKS)
    yield Subject.of(LeastSquares(), LinearRegression(input_dim=3, output_dim=2, num_examples=4), num_tasks=NUM_TASKS)


@INSTRUMENT.clause(
    "Raise iclzoo.NotApplicable with a sentence where it does not apply; else give numbers, a picture and its words."
)
def answers_or_says_why_not(name: str) -> None:
    """For any learner it gives finite numbers and a picture, or says in a sentence why it does not apply."""
    for subject in subjects():
        answer(name, subject)


@INSTRUMENT.clause("Write nothing: the report writes what it returns.")
def writes_nothing(name: str) -> None:
    """It leaves no file in the working directory."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        try:
            os.chdir(folder)
            answer(name, next(subjects()))
            require(not os.listdir(folder), f"it wrote {', '.join(os.listdir(folder))}")
        finally:
            os.chdir(here)


@INSTRUMENT.clause("Say what it asks in `question`, a sentence that ends in a full stop.")
def says_what_it_asks(name: str) -> None:
    """It has a title and a question."""
    one = INSTRUMENTS[name]
    require(one.title.strip() and one.question.strip().endswith((".", "?")), f"its question is {one.question!r:.60}")
