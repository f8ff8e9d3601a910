"""Which package or file supplies each name that a checkpoint needs, for those that are not of the zoo."""

import hashlib
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

from ..algorithm import algorithm
from ..errors import UnknownNameError
from .config import SETTINGS

Origin = dict[str, str]


def origins(model: type, model_name: str, *configs: Any) -> dict[str, Origin]:
    """The origin of a model and of what is named in the settings of its task and training, by name; the zoo's own have none."""
    needed = {model_name: model}
    for config in configs:
        needed |= {kind: SETTINGS[kind] for kind in _kinds(config) if kind in SETTINGS}
        for baseline in config.get("baselines", ()) if isinstance(config, Mapping) else ():
            if isinstance(baseline, str):
                needed[baseline] = type(algorithm(baseline))
    return {name: origin for name, thing in needed.items() if (origin := _origin(thing))}


def how_to_get(missing: Mapping[str, Mapping[str, str]]) -> str:
    """What to do for the names that a checkpoint needs, in a sentence; empty where it needs none."""
    advice = []
    for name, origin in missing.items():
        if "package" in origin:
            advice.append(f"install {origin['package']} {origin.get('version', '')}".strip() + f" for {name!r}")
        elif "file" in origin:
            advice.append(f"write iclzoo --from {origin['file']} COMMAND, or import that file, for {name!r}")
        else:
            advice.append(f"define {name!r} again, which was defined in {origin.get('module', 'another program')}")
    return "; ".join(advice)


def differing(recorded: Mapping[str, Mapping[str, str]], here: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The names that another version or file supplies here than when they were recorded."""
    return [
        f"{name} is of {_told(recorded[name])}, here of {_told(here[name])}"
        for name in recorded.keys() & here.keys()
        if dict(recorded[name]) != dict(here[name])
    ]


def _told(origin: Mapping[str, str]) -> str:
    return " ".join(value[:12] for value in origin.values())


def _kinds(config: Any) -> Iterator[str]:
    if isinstance(config, Mapping):
        if isinstance(config.get("kind"), str):
            yield config["kind"]
        for value in config.values():
            yield from _kinds(value)
    elif isinstance(config, list | tuple):
        for value in config:
            yield from _kinds(value)


def _origin(thing: type) -> Origin:
    top = thing.__module__.partition(".")[0]
    if top == "iclzoo":
        return {}
    if packages := packages_distributions().get(top):
        return {"package": packages[0], "version": version(packages[0])}
    file = getattr(sys.modules.get(thing.__module__), "__file__", None)
    if file is None or not Path(file).is_file():
        return {"module": thing.__module__}
    return {"file": Path(file).name, "sha256": hashlib.sha256(Path(file).read_bytes()).hexdigest()}


def with_advice(error: UnknownNameError, recorded: Mapping[str, Mapping[str, str]]) -> str:
    """What an unknown name of a checkpoint comes to: the message, and what supplies the names it needs."""
    advice = how_to_get(recorded)
    return f"{error}; {advice}" if advice else str(error)
