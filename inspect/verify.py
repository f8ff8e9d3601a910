"""Whether a checkpoint is what its card says."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..train.loop import initial_model
from ..train.recipes.provenance import differing_versions
from ..train.recipes.recipe import Recipe
from ..train.tasks.regression import Task
from ..train.tuning.baselines import baseline_name
from ..zoo.checks import values as checks
from ..zoo.checks.arguments import PATH
from ..zoo.checks.gate import gate
from ..zoo.errors import CardError, ConfigError, ZooError, said_by
from ..zoo.storage.card import Card
from ..zoo.storage.checkpoint import (
    MODEL_FILE,
    checkpoint_folder,
    load,
    read_card,
    read_tensors,
    recorded,
    settings_of,
    step_file,
)
from ..zoo.storage.config import to_config
from ..zoo.storage.tensors import named_arrays
from .report.metrics import measure

# What float32 leaves open between machines: a part of the figure itself, and a part of its standard error.
RELATIVE, OF_STANDARD_ERROR = 1e-3, 0.1


@dataclass(frozen=True)
class Check:
    """One thing a card claims. `passed` is `None` where it cannot be checked here, and the detail says why."""

    what: str
    passed: bool | None
    detail: str


@gate(name=PATH)
def verify(name: str | Path, *, metrics: bool = True) -> Iterator[Check]:
    """Check a checkpoint against its card: files, tensors, kept steps, the start of training, and the metrics.

    Each check is yielded as it is made. **Raises** `CheckpointError` or `UnknownNameError` if there is no readable card.
    """
    folder = checkpoint_folder(name)
    card = read_card(folder)
    yield _attempt("files", lambda: _check_files(folder, card))
    yield _attempt("tensors", lambda: f"{len(named_arrays(load(folder)))} tensors fit the architecture {card.model!r}")
    if card.steps:
        yield _attempt("steps", lambda: _check_steps(folder, card))
    yield _attempt("start", lambda: _check_start(folder, card))
    if not card.metrics:
        yield Check("metrics", None, "the card has none")
    elif metrics:
        yield _attempt("metrics", lambda: _check_metrics(folder, card))


class _FailedError(Exception):
    """A check that failed; its message is the detail."""


class _UncheckableError(Exception):
    """A check that cannot be made here; its message says why."""


def _attempt(what: str, check: Callable[[], str]) -> Check:
    try:
        return Check(what, True, check())
    except _UncheckableError as error:
        return Check(what, None, str(error))
    except (_FailedError, ZooError) as error:
        return Check(what, False, str(error))
    except Exception as error:  # what is checked may be anything
        return Check(what, False, f"cannot be checked ({type(error).__name__}: {said_by(error)})")


def _check_files(folder: Path, card: Card) -> str:
    for file in card.files:
        read_tensors(folder, file, card)
    kept = {file for file in card.files if file != MODEL_FILE}
    if kept != {step_file(step) for step in card.steps}:
        raise _FailedError(f"the card lists the steps {list(card.steps)}, but its files are {sorted(kept)}")
    return f"{len(card.files)} files have the length and the SHA-256 hash on the card"


def _check_steps(folder: Path, card: Card) -> str:
    recipe = _recipe(card)
    last = recipe.num_steps
    if card.steps != recipe.keep.steps(last):
        raise _FailedError(f"the steps must be those that the recipe keeps, from 0 to {last}, got {list(card.steps)}")
    hashes = [recorded(folder, step_file(step), card).get("sha256") for step in card.steps]
    for earlier, later, a, b in zip(card.steps, card.steps[1:], hashes, hashes[1:], strict=False):
        if a == b:
            raise _FailedError(f"steps {earlier} and {later} hold the same weights")
    if hashes[-1] != recorded(folder, MODEL_FILE, card).get("sha256"):
        raise _FailedError(f"the last step, {last}, is not the model")
    return f"{len(card.steps)} steps from 0 to {last}, as the recipe keeps them, each unlike the one before, the last being the model"


def _check_start(folder: Path, card: Card) -> str:
    recipe = _recipe(card)
    if 0 not in card.steps:
        raise _UncheckableError("the card has no kept step 0 to compare with")
    kept, fresh = named_arrays(load(folder, step=0)), named_arrays(initial_model(recipe))
    if kept.keys() == fresh.keys() and all(np.array_equal(kept[name], fresh[name]) for name in kept):
        return f"step 0 is what seed {recipe.seed} gives, bit for bit"
    if differing := differing_versions(card.versions, ("jax", "jaxlib")):
        raise _UncheckableError(
            f"step 0 differs from what seed {recipe.seed} gives here; so do the libraries: {', '.join(differing)}"
        )
    raise _FailedError(f"step 0 is not what seed {recipe.seed} gives with the same library versions")


def _check_metrics(folder: Path, card: Card) -> str:
    task, metrics = settings_of(card, "task"), card.metrics
    if not isinstance(task, Task):
        raise _UncheckableError("the card names no task to measure on")
    names, num_tasks, seed = (metrics.get(name) for name in ("baselines", "num_tasks", "seed"))
    if not isinstance(names, Mapping) or (
        card.training and set(names) != set(map(baseline_name, _recipe(card).baselines))
    ):
        raise _FailedError(f"the baselines must be those of the recipe, got {names!r:.60}")
    fresh = measure(
        load(folder),
        task.population,
        _recipe(card).baselines if card.training else tuple(names),
        num_tasks=checks.whole_number("num_tasks", num_tasks, 1, checks.MAX_TASKS),
        seed=checks.seed("seed", seed),
    ).to_json()
    wrong = list(_differences(metrics, fresh, "", 0.0))
    if wrong:
        raise _FailedError(f"{len(wrong)} metrics are not reproduced: {'; '.join(wrong[:3])}")
    return f"half-MSE {fresh['half_mse']['value']:.6f} on {fresh['num_tasks']} tasks, and all other metrics, come out as on the card"


def _recipe(card: Card) -> Recipe:
    """The recipe on the card, which trains its model on its task."""
    if not card.training:
        raise _UncheckableError("the card has no recipe to compare with")
    try:
        recipe, task = settings_of(card, "training"), settings_of(card, "task")
    except (CardError, ConfigError) as error:
        raise _FailedError(f"the recipe on the card cannot be read: {error}") from None
    if not isinstance(recipe, Recipe):
        raise _FailedError("what the card has as its training is no recipe")
    settings = {name: value for name, value in recipe.hyperparameters.items() if value is not None}
    if recipe.model != card.model or not settings.items() <= card.hyperparameters.items():
        raise _FailedError("the recipe on the card trains another model than that of the card")
    if to_config(recipe.task) != to_config(task):
        raise _FailedError("the recipe on the card trains on another task than that of the card")
    return recipe


def _differences(on_card: Any, here: Any, path: str, standard_error: float) -> Iterator[str]:
    if isinstance(on_card, Mapping) and isinstance(here, Mapping):
        if on_card.keys() != here.keys():
            yield f"{path} has the entries {sorted(on_card)} on the card, {sorted(here)} here"
            return
        error = here.get("standard_error") or 0.0
        for name in on_card:
            yield from _differences(on_card[name], here[name], f"{path}.{name}".lstrip("."), error)
    elif isinstance(on_card, list) and isinstance(here, list) and len(on_card) == len(here):
        for index, (a, b) in enumerate(zip(on_card, here, strict=True)):
            yield from _differences(a, b, f"{path}[{index}]", standard_error)
    elif isinstance(on_card, float) and isinstance(here, float):
        if abs(on_card - here) > RELATIVE * abs(here) + OF_STANDARD_ERROR * standard_error:
            yield f"{path} is {on_card} on the card, {here} here"
    elif on_card != here:
        yield f"{path} is {on_card!r} on the card, {here!r} here"
