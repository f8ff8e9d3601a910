"""What training and inspection cost: `python benchmarks/cost.py -o docs/performance.md` (some minutes; on an idle machine).

Every table is measured in one run, its rows in turns, so that what else the machine does falls on all of them; read the ratios. With
`--official PATH` the page begins with what `versus_official.py` prints, which says what PATH is and what must be installed.
"""

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import typer

jax.config.update("jax_num_cpu_devices", 2)

from iclzoo.inspect.estimates.means import mean_over_tasks  # noqa: E402 — the devices come first
from iclzoo.train.devices import Team, first_devices  # noqa: E402
from iclzoo.train.loop import compile_advance, largest_array, mean_over_parts, start  # noqa: E402
from iclzoo.train.losses import half_mse, squared_error  # noqa: E402
from iclzoo.train.recipes.catalogue import list_recipes, recipe  # noqa: E402
from iclzoo.train.recipes.recipe import Recipe  # noqa: E402
from iclzoo.train.run import fit, fit_ensemble  # noqa: E402
from iclzoo.train.tasks.regression import LinearRegression  # noqa: E402
from iclzoo.zoo.frozen import trainable  # noqa: E402
from iclzoo.zoo.storage.checkpoint import load  # noqa: E402

TURNS, SECONDS = 5, 0.6
Work = Callable[[], None]


def trainer(recipe: Recipe, devices: int = 1) -> Callable[[int], float]:
    """A function that trains for some steps and returns the seconds it took."""
    advance, state = compile_advance(recipe, Team(first_devices(devices))), start(recipe)

    def run(num_steps: int) -> float:
        nonlocal state
        began = time.perf_counter()
        state, _ = advance(state, int(state.step) + num_steps, recipe.seed)
        jax.block_until_ready(state)
        return time.perf_counter() - began

    run(2)
    return run


def steps_per_second(runs: Sequence[Callable[[int], float]]) -> list[float]:
    """The median over the turns, for each of several trainings."""
    lengths = [min(900, max(2, int(SECONDS * 4 / run(4)))) for run in runs]
    turns = [[length / run(length) for run, length in zip(runs, lengths, strict=True)] for _ in range(TURNS)]
    return [statistics.median(turn[i] for turn in turns) for i in range(len(runs))]


def seconds_per_call(calls: Sequence[Work]) -> list[float]:
    """The same for functions that do one piece of work."""

    def timed(call: Work) -> Callable[[int], float]:
        def run(number: int) -> float:
            began = time.perf_counter()
            for _ in range(number):
                call()
            return time.perf_counter() - began

        run(1)
        return run

    return [1 / rate for rate in steps_per_second([timed(call) for call in calls])]


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    lines = [f"## {title}", "", *([note, ""] if note else []), f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows), ""])


def sweep(title: str, what: str, recipes: dict[str, Recipe], note: str = "") -> str:
    """Steps and tasks per second of several recipes."""
    rates = steps_per_second([trainer(one) for one in recipes.values()])
    rows = [
        (name, f"{rate:.1f}", f"{rate * one.batch_size:,.0f}", f"{rate / rates[0]:.2f}")
        for (name, one), rate in zip(recipes.items(), rates, strict=True)
    ]
    return table(title, (what, "steps/s", "tasks/s", "steps/s, relative"), rows, note)


LSA = replace(recipe("lsa"), name="lsa")
FIVE = replace(recipe("deep-lsa-5"), batch_size=2048)
CASES = {
    "one layer": LSA,
    "two recurrent layers": replace(recipe("recurrent-lsa-2"), batch_size=2048),
    "five layers": FIVE,
    "copying": replace(recipe("copying"), batch_size=2048),
    "sine": replace(recipe("mlp-lsa-sine"), batch_size=2048),
}


def batches() -> str:
    sizes = (256, 1024, 2048, 4096, 16384)
    return sweep("Batch", "tasks in a batch, one layer", {str(b): replace(LSA, batch_size=b) for b in sizes})


def depths() -> str:
    deep = {str(k): replace(FIVE, hyperparameters={"num_layers": k}) for k in (1, 2, 3, 5, 10)}
    return sweep("Depth", "layers with weights of their own, batch 2048", deep)


def contexts() -> str:
    tasks = {str(n): replace(LSA, batch_size=256, task=LinearRegression(num_examples=n)) for n in (10, 100, 1000)}
    return sweep("Context", "examples in a prompt, one layer, batch 256", tasks)


def devices() -> str:
    rows = []
    for name, one in CASES.items():
        single, double = steps_per_second([trainer(one, 1), trainer(one, 2)])
        rows.append((name, f"{single:.1f}", f"{double:.1f}", f"{double / single:.2f}"))
    note = (
        "A CPU of two cores as one device, whose operations XLA splits between the cores where it sees fit, and as two, each of which "
        "takes half of the batch (`--devices 2`)."
    )
    return table("Devices", ("batch 2048", "one device, steps/s", "two devices, steps/s", "ratio"), rows, note)


def seeds(number: int = 16) -> str:
    fast = recipe("lsa-fast")
    began = time.perf_counter()
    alone = [fit(replace(fast, seed=seed), progress=False) for seed in range(number)]
    separate = time.perf_counter() - began
    began = time.perf_counter()
    together = fit_ensemble(fast, range(number), progress=False)
    joint = time.perf_counter() - began
    difference = max(
        float(jnp.abs(a - b).max())
        for one, other in zip(alone, together, strict=True)
        for a, b in zip(jax.tree.leaves(one.model), jax.tree.leaves(other.model), strict=True)
    )
    row = (f"{separate:.1f}", f"{joint:.1f}", f"{joint / separate:.2f}", f"{difference:.1e}")
    note = f"`lsa-fast` from {number} seeds: one after the other in one process, and as an ensemble; compilation and log included."
    return table("Seeds", ("separate, s", "ensemble, s", "ratio", "largest difference of a weight"), [row], note)


def forward() -> str:
    """The time of one forward pass against the length of the prompt, and its slope in logarithms."""
    model, lengths = load("lsa"), [10**3, 10**4, 10**5, 10**6]
    apply = jax.jit(lambda model, prompt: model(prompt))
    prompts = [LinearRegression(num_examples=n).sample(jr.key(0))[0] for n in lengths]
    times = seconds_per_call([lambda p=p: apply(model, p).block_until_ready() for p in prompts])
    slope = np.polyfit(np.log(lengths[1:]), np.log(times[1:]), 1)[0]
    temporary = [apply.lower(model, p).compile().memory_analysis().temp_size_in_bytes for p in prompts]
    rows = [
        (f"{n:,}", f"{1e3 * t:.3f}", f"{1e9 * t / n:.2f}", f"{m / n:.0f}")
        for n, t, m in zip(lengths, times, temporary, strict=True)
    ]
    note = f"One layer, one prompt. Slope of log time against log N from {lengths[1]:,} on: {slope:.3f}."
    return table("Long prompts", ("examples", "ms", "ns an example", "temporary bytes an example"), rows, note)


def evaluation() -> str:
    """Measuring on many tasks: each count in a process of its own, for its peak of memory."""
    rows = []
    for number in (10**5, 10**6, 10**7):
        command = [sys.executable, __file__, "--evaluate", str(number)]
        rows.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    return table("Evaluation", ("tasks", "half-MSE of `lsa`", "standard error", "s", "peak memory, MiB"), rows)


def evaluate(number: int) -> None:
    began = time.perf_counter()
    mean = mean_over_tasks(squared_error, load("lsa"), LinearRegression(), num_tasks=number, key=jr.key(0))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{number:,} {mean.value / 2:.6f} {mean.standard_error / 2:.6f} {time.perf_counter() - began:.1f} {peak:.0f}")


def limits() -> str:
    """Where a step's time goes: the data alone, the loss and its gradient alone, the whole step; beside a large matrix product."""
    big = jr.normal(jr.key(0), (2048, 2048))
    product = jax.jit(lambda a: a @ a)
    rows = []
    for name, one in CASES.items():
        draw = jax.jit(lambda key, one=one: one.task.sample_batch(key, one.batch_size))
        prompts, targets = draw(jr.key(1))
        model = start(one).model
        parameters, rest = eqx.partition(model, trainable(model))
        whole = jax.value_and_grad(lambda p, x, y, rest=rest: half_mse(eqx.combine(p, rest), x, y))
        flops = jax.jit(whole).lower(parameters, prompts, targets).compile().cost_analysis()["flops"]
        num_parts = Team(first_devices()).num_parts(one.batch_size, largest_array(one))
        gradient = jax.jit(
            lambda p, x, y, whole=whole, n=num_parts: mean_over_parts(lambda part: whole(p, *part), (x, y), n)
        )
        run = trainer(one)
        data, arithmetic, peak = seconds_per_call(
            [
                lambda draw=draw: jax.block_until_ready(draw(jr.key(1))),
                lambda g=gradient, p=parameters, x=prompts, y=targets: jax.block_until_ready(g(p, x, y)),
                lambda: product(big).block_until_ready(),
            ]
        )
        (rate,) = steps_per_second([run])
        fastest = 2 * 2048**3 / peak
        rows.append(
            (
                name,
                f"{1e3 / rate:.2f}",
                f"{1e3 * data:.2f}",
                f"{1e3 * arithmetic:.2f}",
                f"{flops / 1e6:.0f}",
                f"{flops / arithmetic / 1e9:.1f}",
                f"{100 * flops / arithmetic / fastest:.0f} %",
            )
        )
    header = (
        "batch 2048",
        "a step, ms",
        "its data alone, ms",
        "loss and gradient alone, ms",
        "Mflop",
        "Gflop/s",
        "of a 2048 × 2048 product",
    )
    return table("How far from the limit", header, rows)


def recipes() -> str:
    """How long each recipe takes, from the speed of some of its steps."""
    rows = []
    for name in list_recipes():
        one = recipe(name)
        run = trainer(one)
        rate = 1 / statistics.median(run(max(2, int(0.2 / run(2)))) / max(2, int(0.2 / run(2))) for _ in range(3))
        rows.append(
            (f"`{name}`", f"{one.num_steps:,}", f"{one.batch_size:,}", f"{rate:.1f}", f"{one.num_steps / rate:.0f}")
        )
    total = sum(float(row[-1]) for row in rows) / 60
    note = f"All together {total:.0f} minutes on one device; logging and the figures of the cards come on top."
    return table("Recipes", ("recipe", "steps", "batch", "steps/s", "s"), rows, note)


def beside_official(path: Path) -> str:
    """What `versus_official.py` prints."""
    script = Path(__file__).with_name("versus_official.py")
    command = [sys.executable, str(script), "--official", str(path), "--quality"]
    tables = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    note = (
        "Printed by `python benchmarks/versus_official.py --official PATH --quality`: steps per second at batch 2048, ours with "
        "`--devices 2`; and the seconds from the start of a process until one layer is within 0.5 % of the optimum. Of ours, all but the "
        "steps and the evaluations is importing and compiling; the last row is the bound that this sets."
    )
    return f"## Beside the official code\n\n{note}\n\n{tables.strip()}\n"


PARTS = (batches, depths, contexts, devices, seeds, forward, evaluation, limits, recipes)
HEAD = """# Performance

Made by `python benchmarks/cost.py --official PATH -o docs/performance.md` on {cores} CPU cores, JAX {jax}, float32. Times depend on
the machine; ratios within a table were measured side by side.
"""


def main(
    output: Annotated[Path | None, typer.Option("-o", "--output", help="where the page goes")] = None,
    only: Annotated[list[str] | None, typer.Option(help="a part by name; repeat for more")] = None,
    official: Annotated[Path | None, typer.Option(help="a checkout of the official code, to measure beside it")] = None,
    evaluate_tasks: Annotated[int | None, typer.Option("--evaluate", hidden=True)] = None,
) -> None:
    if evaluate_tasks is not None:
        evaluate(evaluate_tasks)
        return
    page = [HEAD.format(cores=os.cpu_count(), jax=jax.__version__)]
    if official is not None:
        page.append(beside_official(official))
        print(page[-1], flush=True)
    for part in PARTS:
        if not only or part.__name__ in only:
            page.append(part())
            print(page[-1], flush=True)
    if output is not None:
        output.write_text("\n".join(page))


if __name__ == "__main__":
    typer.run(main)
