"""Measurements as plain data."""

from dataclasses import asdict, is_dataclass
from typing import Any

import jax
import numpy as np


def plain(value: Any) -> Any:
    """`value` as JSON holds it: dataclasses as objects, arrays as lists, and numbers that are not finite as `None`."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return plain(np.asarray(value).tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
