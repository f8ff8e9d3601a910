"""What else decides the last bits of a training, and cannot be fixed: it is recorded, and told apart from what is here.

Libraries and the kind of device round differently. In how many devices or processes a batch is split is not recorded: a run may be
resumed on others, and is then the same up to the order in which gradients are summed.
"""

from collections.abc import Mapping
from typing import Any

import jax

from ...zoo.storage.card import LIBRARIES, library_versions

PLATFORM = "platform"  # as in cpu


def provenance() -> dict[str, str]:
    """The versions of the libraries, and the platform that JAX computes on."""
    return {**library_versions(), PLATFORM: jax.default_backend()}


def differing_versions(recorded: Mapping[str, Any], names: tuple[str, ...] = (*LIBRARIES, PLATFORM)) -> list[str]:
    """What was another one when `recorded` was written, as in "jax 0.9.0 → 0.10.2"; what was not recorded is unknown.

    A platform that was not recorded, for earlier versions recorded none, is held to be this one.
    """
    here = provenance()
    then = {name: "unknown" for name in here} | {PLATFORM: here[PLATFORM]} | dict(recorded)
    return [f"{name} {then[name]!s:.40} → {here[name]}" for name in names if then[name] != here[name]]
