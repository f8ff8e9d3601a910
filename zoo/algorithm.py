"""Classical algorithms by name: what each is, and how its parameters are found. They know no task.

A name is a family and, where the family counts steps or neighbours, a number: `gd-3` is `gd-K` with K = 3.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from .checks.gate import gated
from .errors import ContractError, NotApplicable, unknown_name
from .moments import Moments
from .prompt import Learner, Prompt
from .registry import Registry
from .storage.config import setting
from .storage.tensors import named_arrays

Targets = Float[Array, "num_tasks output_dim"]
NUMBER = "([1-9][0-9]{0,2})"
FEW = 1000  # prompts, for the size of the parameters that tuning starts from


class Algorithm:
    """Interface: one algorithm by name, and how its parameters are found."""

    family: ClassVar[str] = ""  # as it is registered, "gd-K"
    special_cases: ClassVar[
        tuple[str, ...]
    ] = ()  # what it can imitate: algorithms by name, and families of as many steps
    fewer_steps: ClassVar[bool] = False  # … or of fewer

    def __init__(self, number: int = 1):
        self.number = number

    @property
    def name(self) -> str:
        return self.family.replace("K", str(self.number))

    @abstractmethod
    def start(self, prompts: Prompt, targets: Targets) -> Learner:
        """The algorithm with parameters, all positive, from which tuning to labelled prompts starts; as it is if it has none."""

    @property
    def has_closed_form(self) -> bool:
        """Whether it is at its best on most tasks without any sample of them."""
        return False

    def best(self, moments: Moments) -> Learner:
        """The algorithm at its best on a task of these moments. **Raises** `NotApplicable` where no closed form is known."""
        raise NotApplicable(f"no closed form of {self.name} is known")

    def fitted(self, prompts: Prompt, targets: Targets, *, tolerance: float) -> Learner:
        """The algorithm closest to labelled prompts, where that needs no search; `tolerance` is that of a gradient.

        **Raises** `NotApplicable` where it does.
        """
        raise NotApplicable(f"{self.name} is fitted by a search")

    def settled(self, learner: Any) -> Learner:
        """A tuned algorithm, parameters that do nothing being set to 0."""
        return learner

    def parameters(self, learner: Any) -> dict[str, Any]:
        """The parameters of a tuned algorithm by name, `None` where its predictions do not depend on one."""
        return {path: np.asarray(array).tolist() for path, array in named_arrays(learner).items()}

    def beside(self, learner: Any) -> "Algorithm":
        """The algorithm to compare with a learner, of which it may take something. **Raises** `NotApplicable` if that is not there."""
        return self

    @classmethod
    def numbers(cls, depth: int) -> Sequence[int]:
        """Which K are worth comparing with a learner of so many layers."""
        return (1,) if "K" not in cls.family else range(1, depth + 1)

    def imitates(self, other: "Algorithm") -> bool:
        """Whether it can do exactly what another does, for some choice of its parameters or in their limit."""
        if self.name == other.name or other.name in self.special_cases:
            return True
        steps = other.number <= self.number if self.fewer_steps else other.number == self.number
        return other.family in self.special_cases and steps


def _check(name: str, thing: Any) -> type[Algorithm]:
    """An algorithm as it is kept: a learner without parameters stands for itself."""
    if not isinstance(thing, type):
        raise ContractError(f"the algorithm {name!r} must be a class, got {thing!r:.60}")
    if issubclass(thing, Algorithm):
        thing.family = name
        return thing
    if not issubclass(thing, eqx.Module) or not callable(getattr(thing, "__call__", None)):  # noqa: B004 — of its instances
        raise ContractError(
            f"the algorithm {name!r} must be an equinox.Module with __call__(prompt), or an iclzoo.Algorithm"
        )
    setting(name)(thing)
    body = {"family": name, "start": lambda self, prompts, targets: thing(*([self.number] if "K" in name else []))}
    body |= {"__doc__": thing.__doc__, "__module__": thing.__module__, "__qualname__": thing.__qualname__}
    return type(thing.__name__, (Algorithm,), body)


ALGORITHMS = Registry("algorithm", group="iclzoo.algorithms", folders=(f"{__package__}.algorithms",), check=_check)


@gated
def register_algorithm(name: str) -> Callable[[type], type]:
    """Class decorator: add an algorithm under `name`, in which `K` stands for a number from 1 to 999.

    A class with parameters to find is an `Algorithm`; one without is the learner itself, made with K if there is one.

    **Raises** `ContractError` if it is neither, or the name is taken.
    """
    return ALGORITHMS.register(name)


@gated
def list_algorithms(pattern: str = "*") -> list[str]:
    """The names of all algorithms, those of installed packages included; `pattern` may hold wildcards."""
    return ALGORITHMS.names(pattern)


@gated
def algorithm(name: str) -> Algorithm:
    """The algorithm called `name`, as in `gd-3`. **Raises** `UnknownNameError`, with the closest matches."""
    for found in (ALGORITHMS.known, ALGORITHMS.items):
        for family, kind in found().items():
            match = re.fullmatch(re.escape(family).replace("K", NUMBER), name)
            if match:
                return kind(int(match[1]) if match.groups() else 1)
    raise unknown_name("algorithm", name, ALGORITHMS.names())


def average(statistic: Callable[[Prompt], Float[Array, ""]], prompts: Prompt) -> Float[Array, ""]:
    """The mean of a number over the first thousand prompts: for the size of the parameters that tuning starts from."""
    return jax.vmap(statistic)(jax.tree.map(lambda array: array[:FEW], prompts)).mean()
