"""The models a training went through, by step."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..zoo.checks.gate import gated
from ..zoo.errors import NotApplicable
from ..zoo.storage.checkpoint import checkpoint_folder, load, read_card

Training = Mapping[int, Any] | str | Path


@gated
def stored_models(training: Training) -> dict[int, Any]:
    """The model at each stored step, in order: of a checkpoint by name or path, or of a mapping from step to model.

    **Raises** `ZooError` if no step is stored, or the checkpoint cannot be read.
    """
    if isinstance(training, Mapping):
        models = {step: training[step] for step in sorted(training)}
    else:
        folder = checkpoint_folder(training)
        models = {step: load(folder, step=step) for step in read_card(folder).steps}
    if not models:
        raise NotApplicable(
            "a path of training needs the model at one step or more, and none is stored; train with `keep` set"
        )
    return models
