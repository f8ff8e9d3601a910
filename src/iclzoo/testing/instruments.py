"""What every instrument keeps, whoever wrote it: it is put to learners of different kinds."""

import os
import tempfile
import warnings
from collections.abc import Iterator

import jax.numpy as jnp
import jax.random as jr

from ..inspect.checkpoint import Checkpoint
from ..inspect.instrument import INSTRUMENTS
from ..inspect.measurement import Measurement
from ..inspect.pictures.style import drawn, figure_of
from ..inspect.report.page import flattened
from ..train.tasks.regression import LinearRegression, SineRegression
from ..zoo.algorithms.least_squares import LeastSquares
from ..zoo.errors import NotApplicable
from ..zoo.factory import create
from .contract import Contract, require

INSTRUMENT = Contract("instrument")
NUM_TASKS = 20
SHORTEST_REASON = 4  # words
MOST_CHARACTERS = 400  # of a repr


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


def answer(name: str, checkpoint: Checkpoint) -> Measurement | str:
    """What an instrument says of a checkpoint, or why it does not apply to it. **Raises** `AssertionError` for anything less."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what a picture marks, such as a product that is zero
            measured = INSTRUMENTS[name].of(checkpoint, at_most=NUM_TASKS)
            image = drawn(figure_of(measured.plot()), "png", dpi=30)
    except NotApplicable as reason:
        require(len(str(reason).split()) >= SHORTEST_REASON, f"the reason {str(reason)!r} is no sentence")
        return str(reason)
    numbers = [value for _, value in flattened(measured.to_dict()) if isinstance(value, int | float)]
    require(numbers and any(jnp.isfinite(value) for value in numbers), "it measured no finite number")
    require(bool(image), "it shows no picture")
    require(measured.summary, "its picture has no summary in words")
    records = measured.records()
    require(records, "it has no records")
    plain = (str, int, float, bool, type(None))
    strange = [name for row in records for name, value in row.items() if not isinstance(value, plain)]
    require(not strange, f"the records hold what is no plain value, in the column {strange[:1]}")
    require(all(name.isascii() for row in records for name in row), "the columns of its records are not plain ASCII")
    require(
        measured.tables() and str(measured) and len(repr(measured)) < MOST_CHARACTERS,
        "it has no table or no short repr",
    )
    return measured


def checkpoints() -> Iterator[Checkpoint]:
    """Learners of different kinds in memory: attention over (x, y), over separate tokens, an LSTM, an algorithm; and other tasks."""
    task = LinearRegression(input_dim=2, num_examples=4)
    for model in ("lsa", "copying_transformer", "lstm"):
        start, end = (create(model, input_dim=2, key=jr.key(seed)) for seed in (0, 1))
        yield Checkpoint.of(end, task, steps={0: start, 5: end}, baselines={"zero": LeastSquares()})
    yield Checkpoint.of(LeastSquares(), SineRegression(num_examples=4))
    yield Checkpoint.of(LeastSquares(), LinearRegression(input_dim=3, output_dim=2, num_examples=4))


@INSTRUMENT.clause(
    "Raise iclzoo.NotApplicable with a sentence where it does not apply; else give a Measurement: numbers, a picture and its summary."
)
def answers_or_says_why_not(name: str) -> None:
    """For any learner it gives finite numbers, records and a picture, or says in a sentence why it does not apply."""
    for checkpoint in checkpoints():
        answer(name, checkpoint)


@INSTRUMENT.clause("Write nothing: the report writes what it returns.")
def writes_nothing(name: str) -> None:
    """It leaves no file in the working directory."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        try:
            os.chdir(folder)
            answer(name, next(checkpoints()))
            require(not os.listdir(folder), f"it wrote {', '.join(os.listdir(folder))}")
        finally:
            os.chdir(here)


@INSTRUMENT.clause("Say what it asks in `question`, a sentence that ends in a full stop.")
def says_what_it_asks(name: str) -> None:
    """It has a title and a question."""
    one = INSTRUMENTS[name]
    require(one.title.strip() and one.question.strip().endswith((".", "?")), f"its question is {one.question!r:.60}")
