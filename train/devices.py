"""Training on many devices: the tasks of each batch are split between them, and each holds a copy of the state.

After `jax.distributed.initialize` the devices are those of all processes together, which then run the same script side by side. The
numbers are those of one device, up to the order in which they are summed.
"""

import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from ..zoo.checks.values import MAX_DEVICES, whole_number
from ..zoo.determinism import check_jax
from ..zoo.errors import ConfigError, ZooError, said_by
from .stopping import Watch

Tree = TypeVar("Tree", bound=PyTree)
CPU_CACHE = 2**20  # bytes
MAX_PROCESSES = 2**16
HEARTBEAT_SECONDS = 30  # after which a process that is silent is held to be gone, and the others end
Device: TypeAlias = Any  # a jax.Device, whose name type checkers do not read as a type


def first_devices(number: int = 1) -> tuple[Device, ...]:
    """The first `number` devices of every process that takes part.

    A machine without accelerators is one device; asked for more before JAX has started, it is split into as many.

    **Raises** `ConfigError` if there are fewer, or JAX does not start.
    """
    split_cpu(number)
    check_jax()
    own = [jax.local_devices(process) for process in range(jax.process_count())]
    fewest = min(map(len, own))
    if number > fewest:
        raise ConfigError(
            f"{number} devices were asked for, but JAX has {fewest} ({own[0][0].platform}); "
            'a CPU is split by jax.config.update("jax_num_cpu_devices", number) before JAX starts'
        )
    return tuple(device for devices in own for device in devices[:number])


def split_cpu(number: int) -> None:
    """Make at least `number` devices of the CPU; where JAX has started, there are as many as there are.

    **Raises** `ConfigError` unless it is from 1 to `MAX_DEVICES`.
    """
    number = whole_number("devices", number, 1, MAX_DEVICES)
    if number > max(1, jax.config.jax_num_cpu_devices):  # pyright: ignore[reportAttributeAccessIssue]
        with suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", number)


@dataclass(frozen=True)
class Team:
    """The devices of a training, as one axis of a mesh."""

    devices: tuple[Device, ...]

    @property
    def mesh(self) -> Mesh:
        return Mesh(np.array(self.devices), ("devices",))

    @property
    def leads(self) -> bool:
        """Whether this process writes the run's folder: one of them does."""
        return jax.process_index() == self.devices[0].process_index

    def check_batch(self, batch_size: int) -> None:
        """**Raises** `ConfigError` unless a batch can be split evenly."""
        if batch_size % len(self.devices):
            raise ConfigError(
                f"a batch of {batch_size} tasks cannot be split evenly between {len(self.devices)} devices; "
                "choose a batch_size that is a multiple of them"
            )

    def num_parts(self, batch_size: int, bytes_per_task: int) -> int:
        """Into how many equal parts, one after the other, a batch is best cut: on a CPU until the arrays of a part stay in its cache."""
        own = batch_size // len(self.devices)
        if self.devices[0].platform != "cpu":
            return 1
        fitting = (n for n in range(1, own + 1) if own % n == 0 and own // n * bytes_per_task <= CPU_CACHE)
        return next(fitting, own)

    def split(self, tree: Tree) -> Tree:
        """Inside a compiled function: the leading axis of every array split between the devices."""
        return jax.lax.with_sharding_constraint(tree, NamedSharding(self.mesh, PartitionSpec("devices")))

    def copied(self, tree: Tree) -> Tree:
        """Inside a compiled function: a copy of every array on each device."""
        return jax.lax.with_sharding_constraint(tree, NamedSharding(self.mesh, PartitionSpec()))

    def place(self, tree: Tree) -> Tree:
        """A copy of every array of `tree` on each device."""
        arrays, rest = eqx.partition(tree, eqx.is_array)
        return eqx.combine(jax.device_put(jax.device_get(arrays), NamedSharding(self.mesh, PartitionSpec())), rest)

    def local(self, tree: Tree) -> Tree:
        """The copies on the first device of this process, as ordinary arrays."""
        return jax.tree.map(lambda leaf: leaf.addressable_data(0) if isinstance(leaf, jax.Array) else leaf, tree)

    def agree(self, value: Any) -> Any:
        """The value that the leading process has."""
        if jax.process_count() == 1:
            return value
        return multihost_utils.broadcast_one_to_all(value, is_source=self.leads)

    def meet(self, until: int, stop: bool) -> tuple[int, bool]:
        """Up to which step all go on next, as the leading process has it, and whether any process is to stop."""
        if jax.process_count() == 1:
            return until, stop
        table = multihost_utils.process_allgather(np.array([until, stop], np.int32))
        return int(table[self.devices[0].process_index, 0]), bool(table[:, 1].any())


def join(coordinator: str | None, num_processes: int | None, process_id: int | None, *, devices: int) -> None:
    """Take part, with `devices` devices, in a training of several processes that meet at `coordinator`, a HOST:PORT of the first one.

    "auto" leaves all to JAX, which knows clusters such as Slurm's. One process that is asked to stop stops all: see train/stopping.py.

    **Raises** `ConfigError` if it does not come about.
    """
    address = _checked(coordinator, num_processes, process_id)
    split_cpu(devices)
    Watch.start(connected=False)
    try:
        jax.distributed.initialize(**address, heartbeat_timeout_seconds=HEARTBEAT_SECONDS)
        check_jax()
    except (RuntimeError, ValueError, TypeError) as error:
        Watch.end()
        if isinstance(error, ZooError):
            raise
        raise ConfigError(f"the processes do not come together at {coordinator!r}: {said_by(error)}") from None
    if jax.process_count() > 1:
        Watch.start(connected=True)
    else:
        Watch.end()


def leave() -> None:
    """Wait for the other processes, if there are any, and part from them."""
    if Watch.current is not None:
        Watch.current.part()
    if jax.process_count() > 1:
        jax.distributed.shutdown()
    Watch.end()


def _checked(coordinator: str | None, num_processes: int | None, process_id: int | None) -> dict[str, Any]:
    """What JAX is to be told. **Raises** `ConfigError` for what cannot be."""
    given = {"coordinator": coordinator, "processes": num_processes, "process": process_id}
    if coordinator == "auto":
        if (num_processes, process_id) != (None, None):
            raise ConfigError("with the coordinator 'auto' JAX numbers the processes; leave out processes and process")
        return {}
    missing = [name for name, value in given.items() if value is None]
    if missing:
        raise ConfigError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing: a training of several processes needs "
            "the coordinator's HOST:PORT, how many processes take part, and which of them this is, from 0"
        )
    number = whole_number("processes", num_processes, 1, MAX_PROCESSES)
    process = whole_number("process", process_id, 0, number - 1)
    host, _, port = str(coordinator).rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ConfigError(f"the coordinator must be HOST:PORT, as in localhost:1234, or auto, got {coordinator!r:.60}")
    try:
        socket.getaddrinfo(host.strip("[]"), int(port))
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"the coordinator's host {host!r:.60} is not known here ({said_by(error)})") from None
    return {"coordinator_address": str(coordinator), "num_processes": number, "process_id": process}
