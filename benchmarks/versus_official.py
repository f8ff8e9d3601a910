"""Training speed beside the paper's own code: `python benchmarks/versus_official.py --official PATH`.

PATH is a checkout of google-research/self-organising-systems, or its folder `transformers_learn_icl_by_gd`; it needs dm-haiku,
ml-collections, absl-py and pytz beside iclzoo. Nothing of it is contained here; the one name it uses that JAX has removed is put back
while it runs.

Both train the same model on the same task with the same batch and optimiser, in turns, in one process; so what else the machine does
falls on both. Ours may split each batch between several devices (`--devices`, two unless given): on a CPU these are its cores, which the
official code has too, as one device. Printed are the steps per second of each (the median over the turns), and their ratio. With
`--quality`, also the time from a cold start, compilation included, until the half-MSE is within 0.5 % of the optimum, each in a fresh
process, for one layer.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from rich import box
from rich.console import Console
from rich.table import Table

from iclzoo.train.devices import Team, first_devices
from iclzoo.train.loop import MAX_STEPS, compile_advance, start
from iclzoo.train.optimiser import Adam
from iclzoo.train.recipes.catalogue import recipe
from iclzoo.train.recipes.recipe import Recipe
from iclzoo.train.run import evaluate
from iclzoo.train.tasks.regression import LinearRegression, SineRegression
from iclzoo.train.tuning.step_size import optimal_step_size
from iclzoo.zoo.algorithms.gradient_descent import GradientDescent

SLOW, FAST = Adam(learning_rate=0.0005, b2=0.98, clip_norm=10.0), Adam(learning_rate=0.001, b2=0.98, clip_norm=10.0)

# Ours, and the settings that make the official code train the same.
CASES: dict[str, tuple[Recipe, dict]] = {
    "one layer": (Recipe(name="one", model="lsa", optimiser=FAST), {}),
    "two recurrent layers": (
        Recipe(name="two", model="recurrent_lsa", hyperparameters={"num_loops": 2}, optimiser=FAST),
        {"num_layers": 2},
    ),
    "five layers": (
        Recipe(name="five", model="deep_lsa", hyperparameters={"num_layers": 5, "clip": 10.0}, optimiser=SLOW),
        {"num_layers": 5, "deq": False, "clip": 10.0, "lr": 0.0005},
    ),
    "copying": (
        Recipe(name="copying", model="copying_transformer", optimiser=FAST),
        {
            "num_layers": 2,
            "deq": False,
            "classic_token_const": True,
            "first_layer_sm": True,
            "pos_enc": True,
            "concat_pos_enc": True,
            "pos_enc_size": 10,
            "key_size": 20,
            "init_scale": 0.01,
        },
    ),
    "sine": (
        Recipe(name="sine", model="mlp_lsa", task=SineRegression(), optimiser=FAST),
        {
            "non_linear_reg_task": True,
            "input_size": 39,
            "key_size": 40,
            "input_range": 10,
            "input_mlp": True,
            "input_mlp_out_dim": 40,
            "in_proj": True,
            "emb_size": 40,
        },
    ),
}


class Official:
    """The official code, set up to train one of the cases."""

    def __init__(self, path: Path, settings: dict):
        folder = path / "transformers_learn_icl_by_gd"
        sys.path.insert(0, str(folder if folder.is_dir() else path))
        jnp.DeviceArray = jax.Array  # removed from JAX; the official code names it in annotations
        for name in [name for name in sys.modules if name == "src" or name.startswith("src.")]:
            del sys.modules[name]
        from src import train  # pyright: ignore[reportMissingImports]

        self.train, config = train, train.config
        config.update({"bs": 2048, "lr": 0.001, "grad_clip_value": 10.0, "analyse": False, "deq": True})
        config.update(settings)
        train.change_dataloader()
        self.batch_size = config.bs
        self.sizes = (
            config.input_size,
            config.dataset_size,
            config.size_distract,
            config.input_range,
            config.weight_scale,
        )
        self.optimiser, self.state, _, self.rng = train.init()

    def tasks(self, key: Any, number: int) -> Any:
        return self.train.data_creator(jax.random.split(key, num=number), *self.sizes)

    def __call__(self, num_steps: int) -> float:
        """Train for some steps; the seconds it took."""
        began = time.perf_counter()
        for _ in range(num_steps):
            self.rng, key = jax.random.split(self.rng)
            self.state, _ = self.train.update(self.state, self.tasks(key, self.batch_size), self.optimiser)
        jax.block_until_ready(self.state.params)
        return time.perf_counter() - began

    def evaluation_tasks(self) -> Any:
        return self.tasks(jax.random.key_data(jax.random.key(5)), 10_000)

    def evaluate(self, tasks: Any) -> float:
        return float(self.train.predict_test.apply(self.state.params, self.rng, tasks, False)[0])


def ours(recipe: Recipe, devices: int) -> Callable[[int], float]:
    """A function that trains our code for some steps and returns the seconds it took."""
    advance, state = compile_advance(recipe, Team(first_devices(devices))), start(recipe)

    def run(num_steps: int) -> float:
        nonlocal state
        began = time.perf_counter()
        while num_steps:
            chunk = min(num_steps, MAX_STEPS)
            state, _ = advance(state, int(state.step) + chunk, recipe.seed)
            num_steps -= chunk
        jax.block_until_ready(state)
        return time.perf_counter() - began

    return run


def speeds(path: Path, case: str, turns: int, seconds: float, devices: int) -> tuple[list[float], list[float]]:
    """Steps per second of the official code and of ours, in each turn."""
    chosen, settings = CASES[case]
    runs = Official(path, settings), ours(chosen, devices)
    for run in runs:
        run(3)  # compile
    lengths = [max(3, int(seconds * 10 / run(10))) for run in runs]
    measured = [[length / run(length) for run, length in zip(runs, lengths, strict=True)] for _ in range(turns)]
    theirs, own = zip(*measured, strict=True)
    return list(theirs), list(own)


def time_to_quality(path: Path, whose: str, target: float, began: float) -> dict[str, float]:
    """Where the seconds went, since the process was started, until a layer had a half-MSE of `target` on 10,000 tasks."""
    clock = {"imports and first draw": time.time() - began}

    def timed(part: str, work: Callable, *arguments: Any) -> Any:
        start = time.perf_counter()
        value = jax.block_until_ready(work(*arguments))
        clock[part] = clock.get(part, 0.0) + time.perf_counter() - start
        return value

    if whose == "ours":
        fast = recipe("lsa-fast")
        advance = timed("imports and first draw", compile_advance, fast, Team(first_devices()))
        state = timed("imports and first draw", start, fast)
        state, _ = timed("first step, compiled", advance, state, 1, fast.seed)
        loss = timed("first evaluation, compiled", evaluate, state.model, fast)
        while loss > target:
            state, _ = timed("steps", advance, state, int(state.step) + 50, fast.seed)
            loss = timed("evaluations", evaluate, state.model, fast)
    else:
        code = timed("imports and first draw", Official, path, {})
        tasks = timed("imports and first draw", code.evaluation_tasks)
        timed("first step, compiled", code, 1)
        loss = timed("first evaluation, compiled", code.evaluate, tasks)
        while loss > target:
            timed("steps", code, 50)
            loss = timed("evaluations", code.evaluate, tasks)
    return clock


def quality(path: Path, turns: int = 3) -> Table:
    """The time to quality of both, in turns, each in a process of its own; the optimum is known before the clock starts."""
    targets = {
        "official": 1.005 * official_optimum(Official(path, {}).evaluation_tasks()),
        "ours": 1.005 * own_optimum(),
    }
    clocks: dict[str, list[dict[str, float]]] = {whose: [] for whose in targets}
    for _ in range(turns):
        for whose, target in targets.items():
            command = [sys.executable, __file__, "--official", str(path), "--time-to-quality", whose, str(target)]
            done = subprocess.run([*command, str(time.time())], capture_output=True, text=True, check=True)
            clocks[whose].append(json.loads(done.stdout.splitlines()[-1]))
    medians = {
        whose: {part: statistics.median(clock[part] for clock in runs) for part in runs[0]}
        for whose, runs in clocks.items()
    }
    table = Table("part", "official, s", "iclzoo, s", box=box.MARKDOWN)
    for part in medians["ours"]:
        table.add_row(part, *(f"{medians[whose][part]:.2f}" for whose in targets))
    theirs, own = (statistics.median(sum(clock.values()) for clock in clocks[whose]) for whose in targets)
    table.add_row("all", f"{theirs:.2f}", f"{own:.2f}")
    free = sum(seconds for part, seconds in medians["ours"].items() if part not in ("steps", "evaluations"))
    table.add_row("official / iclzoo", "", f"{theirs / own:.1f}")
    table.add_row("the same, if our steps and evaluations took no time", "", f"{theirs / free:.1f}")
    return table


def own_optimum() -> float:
    """The half-MSE of one step of gradient descent with η*, on the recipe's evaluation tasks."""
    fast = recipe("lsa-fast")
    return evaluate(GradientDescent(optimal_step_size(fast.task).step_size), fast)


def official_optimum(data) -> float:
    """The same on tokens of the official code."""
    tokens, targets = data[0], data[1][:, -1]
    xs, ys, query = tokens[:, :-1, :-1], tokens[:, :-1, -1], tokens[:, -1, :-1]
    eta_over_n = optimal_step_size(LinearRegression()).step_size / 10
    prediction = eta_over_n * jnp.einsum("bn,bnd,bd->b", ys, xs, query)
    return float(((prediction - targets) ** 2).mean() / 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--official", type=Path, required=True, help="a checkout of the official code")
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each turn")
    parser.add_argument(
        "--devices", type=int, default=2, help="ours splits each batch between as many; the official code has one"
    )
    parser.add_argument("--quality", action="store_true", help="also the time to quality of one layer")
    parser.add_argument("--time-to-quality", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", arguments.devices)
    if arguments.time_to_quality:
        whose, target, began = arguments.time_to_quality
        print(json.dumps(time_to_quality(arguments.official, whose, float(target), float(began))))
        return
    console = Console(width=None if sys.stdout.isatty() else 120)
    table = Table("case", "official, steps/s", "iclzoo, steps/s", "ratio", "ratio in the turns", box=box.MARKDOWN)
    for case in arguments.cases:
        theirs, own = speeds(arguments.official, case, arguments.turns, arguments.seconds, arguments.devices)
        ratios = sorted(b / a for a, b in zip(theirs, own, strict=True))
        table.add_row(
            case,
            f"{statistics.median(theirs):.1f}",
            f"{statistics.median(own):.1f}",
            f"{statistics.median(ratios):.2f}",
            f"{ratios[0]:.2f} – {ratios[-1]:.2f}",
        )
    console.print(table)
    if arguments.quality:
        console.print(quality(arguments.official))


if __name__ == "__main__":
    main()
