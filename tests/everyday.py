"""What people do every day, by the command line and from Python, in one process: `python tests/everyday.py FOLDER`.

Writes to FOLDER, and ends with the numbers that came out as a line of JSON. `tests/test_environments.py` runs it under other people's
settings.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import iclzoo
from iclzoo.__main__ import open_streams, run

NUM_TASKS = 200
COMMANDS = (
    "list lsa*",
    "show lsa",
    "heatmap lsa -o {folder}/lsa.png",
    "train lsa -o {folder}/run --steps 1 --tasks 50",
    "verify {folder}/run --no-metrics",
    "identify lsa --tasks 50 --candidate gd-1 -o {folder}/identity.svg",
)


def numbers(folder: Path) -> dict[str, list[float | None]]:
    """What the calls give, by what they are."""
    model, task, key = iclzoo.load("lsa"), iclzoo.LinearRegression(), jax.random.key(0)
    xs = np.sin(np.arange(110, dtype=np.float32)).reshape(11, 10) / 2
    prompt = iclzoo.Prompt(xs=jnp.asarray(xs[:10]), ys=jnp.asarray(xs[:10, :1]), query=jnp.asarray(xs[10]))
    descent = iclzoo.GradientDescent(iclzoo.optimal_step_size(task).step_size)
    aligned = iclzoo.alignment(model, descent, task, num_tasks=NUM_TASKS, key=key)
    iclzoo.heatmap(model, beside=model).savefig(folder / "beside.png")
    iclzoo.save(folder / "saved", model)
    recipe = iclzoo.recipe("lsa")
    trained = iclzoo.fit(replace(recipe, num_steps=2, batch_size=16), progress=False)
    return {
        "predictions": [float(learner(prompt)[0]) for learner in (model, descent, iclzoo.load(folder / "saved"))],
        "sampled": [aligned.prediction_distance.value, aligned.sensitivity_cosine.value],
        "training": [row["half_mse"] for row in trained.log],
        "the run's metrics": [iclzoo.read_card(folder / "run").metrics["half_mse"]["value"]],
    }


def main(folder: Path) -> None:
    open_streams()
    for command in COMMANDS:
        arguments = [part.format(folder=folder) for part in command.split()]
        if status := run(arguments):
            sys.exit(f"{command} ends with {status}")
    print(json.dumps(numbers(folder)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
