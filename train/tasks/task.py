"""Interface: a distribution that learners are trained and measured on."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from ...zoo.checks.gate import gated
from ...zoo.checks.memory import check_memory
from ...zoo.determinism import split
from ...zoo.errors import NotApplicable
from ...zoo.moments import Moments
from ...zoo.prompt import Learner, Prompt
from ...zoo.storage.config import SETTINGS, setting, settings_repr, to_config
from ...zoo.table import settings_table

Target = Float[Array, " output_dim"]
Value = float | int | str
Values = Sequence[Value] | None


@dataclass(frozen=True)
class Sweep:
    """A setting, its values, and the task at each; or, where it is the length of prompts, one task of the longest."""

    setting: str  # as an axis says it
    values: tuple[Value, ...]
    training: Value | None  # where learners were trained; None where that is no value of this setting
    tasks: "tuple[Task, ...]"
    lengths: tuple[int, ...] = ()


class Task(eqx.Module):
    """Interface: a distribution over (prompt, target)."""

    input_dim: eqx.AbstractVar[int]
    output_dim: eqx.AbstractVar[int]
    num_examples: eqx.AbstractVar[int]

    __repr__ = settings_repr

    def _repr_html_(self) -> str:
        """Every setting, as a notebook shows it."""
        return settings_table(type(self).__name__, to_config(self))._repr_html_()

    @property
    def population(self) -> "Task":
        """The task without end that learners are measured on: itself, unless it is a finite set of prompts."""
        return self

    def moments(self) -> Moments:
        """The moments of the task. **Raises** `NotApplicable`, saying why, where it is not linear regression with a Gaussian teacher."""
        raise NotApplicable(f"{type(self).__name__} is not linear regression with a Gaussian teacher")

    def bayes_predictor(self) -> Learner:
        """The learner of least expected loss. **Raises** `NotApplicable` where it is not known."""
        raise NotApplicable(f"the best predictor of {type(self).__name__} is not known")

    def sweeps(self) -> Mapping[str, Callable[[Values], Sweep]]:
        """The settings that can be moved away from where learners are trained, by name: each a function of the values to take,
        `None` for those of its own choice. It **raises** `NotApplicable` where this task has no such setting.
        """
        return {}

    def check_memory(self, num_tasks: int = 1) -> None:
        """`ConfigError` unless so many prompts of the task, and a linear teacher of each, fit into this machine."""
        d, n_y, N = self.input_dim, self.output_dim, self.num_examples
        prompts = "a prompt" if num_tasks == 1 else f"a batch of {num_tasks} prompts"
        sizes = f"input_dim {d}, output_dim {n_y} and num_examples {N}"
        check_memory(f"{prompts} of {sizes}", num_tasks * ((N + 1) * (d + n_y) + d * n_y))

    @abstractmethod
    def draw(self, key: PRNGKeyArray) -> tuple[Prompt, Target]:
        """What `sample` gives, by whichever generator JAX is set to: for classes to define, not to call."""

    @gated
    def sample(self, key: PRNGKeyArray) -> tuple[Prompt, Target]:
        """One prompt and the label of its query.

        The numbers of one task come from JAX's threefry generator in its original form, several times faster than the partitionable one.
        What that gives up, splitting one array's stream over devices, is not missed: batches are split between tasks, each
        with a key of its own.
        """
        with jax.threefry_partitionable(False):
            return self.draw(key)

    @gated
    def sample_batch(self, key: PRNGKeyArray, num_tasks: int) -> tuple[Prompt, Float[Array, "{num_tasks} output_dim"]]:
        """`num_tasks` independent prompts and targets, with a leading axis on every array."""
        self.check_memory(num_tasks)
        return jax.vmap(self.sample)(split(key, num_tasks))


@gated
def register_task(kind: str, *, formerly: tuple[str, ...] = ()) -> Callable[[type], type]:
    """Class decorator: let a task, or a distribution of inputs or of teachers, be written on cards as `kind`, and read from those that
    hold one that it had `formerly`.

    **Raises** `ConfigError` if the class is no dataclass, `ContractError` if the kind is taken.
    """
    return setting(kind, formerly=formerly)


@gated
def list_tasks(pattern: str = "*") -> list[str]:
    """The kinds of all tasks, those of installed packages included; `pattern` may hold wildcards."""
    return [kind for kind in SETTINGS.names(pattern) if issubclass(SETTINGS[kind], Task)]
