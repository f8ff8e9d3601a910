"""The zoo at a glance: a row for each checkpoint."""

import re
from math import prod
from typing import Any

from ...zoo.errors import CheckpointError
from ...zoo.storage.card import Card
from ...zoo.storage.reading import list_checkpoints, read_card


def catalogue(pattern: str = "*") -> list[dict[str, Any]]:
    """A row for each shipped checkpoint whose name fits `pattern`, from its card, ready for `pandas.DataFrame`.

    `nearest` is the baseline of the card with the least prediction distance, and `excess` the half-MSE of the model beyond that of this
    one. What a card does not say is `None`; a damaged card has a row that says so in `description`.

    Example:
        >>> iclzoo.catalogue("lsa-fast")[0]["nearest"]
        'gd-1'
    """
    return [_row(name) for name in list_checkpoints(pattern)]


def _row(name: str) -> dict[str, Any]:
    try:
        card = read_card(name)
    except (CheckpointError, OSError) as error:
        return _entries(name, Card(), f"damaged: {error}")
    return _entries(name, card, card.description)


def _entries(name: str, card: Card, description: str) -> dict[str, Any]:
    task = card.task.get("task", card.task)  # of a pool of prompts, the task that they are of
    training, metrics = card.training, card.metrics
    baselines = metrics.get("baselines", {})
    distances = {b: m["alignment"]["prediction_distance"]["value"] for b, m in baselines.items()}
    known = {b: distance for b, distance in distances.items() if distance is not None}
    nearest = min(known, key=known.__getitem__, default=None)
    inputs = task.get("inputs", {})
    return {
        "name": name,
        "model": card.model,
        "parameters": sum(
            prod(map(int, re.findall(r"\d+", shape[shape.index("[") :]))) for shape in card.tensors.values()
        ),
        "num_examples": task.get("num_examples"),
        "input_dim": task.get("input_dim"),
        "inputs": " ".join([inputs["kind"], *(f"{n}={v}" for n, v in inputs.items() if n != "kind")])
        if inputs
        else None,
        "noise_std": task.get("noise_std"),
        "num_steps": training.get("num_steps"),
        "batch_size": training.get("batch_size"),
        "half_mse": metrics.get("half_mse", {}).get("value"),
        "half_mse_standard_error": metrics.get("half_mse", {}).get("standard_error"),
        "nearest": nearest,
        "excess": None if nearest is None else baselines[nearest]["excess"]["value"],
        "description": description,
    }
