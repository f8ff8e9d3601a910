"""The command line: `iclzoo list | show | heatmap | train | verify | identify | inspect | reproduce | demo`."""

import os
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from .zoo.errors import ZooError

app = typer.Typer(
    name="iclzoo",
    help="A zoo of small sequence models that learn in context.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(help="a shipped checkpoint, or the path of a folder")]
Step = Annotated[int | None, typer.Option(help="a point of its training; the end unless given")]


@app.callback()
def options(debug: Annotated[bool, typer.Option("--debug", help="show the traceback of an error")] = False) -> None:
    if debug:
        os.environ["ICLZOO_DEBUG"] = "1"


@app.command("list")
def list_(pattern: Annotated[str, typer.Argument(help="wildcards work")] = "*") -> None:
    """List checkpoints, recipes and models."""
    from .inspect.tables import names_table
    from .output import show

    show(names_table(pattern))


@app.command()
def show(name: Name) -> None:
    """Show the card of a checkpoint."""
    from .inspect.tables import card_tables
    from .output import show
    from .zoo.checkpoint import read_card

    show(*card_tables(name, read_card(name)))


@app.command()
def heatmap(
    name: Name,
    output: Annotated[Path, typer.Option("-o", "--output", help="PNG, SVG or PDF")] = Path("heatmap.png"),
    step: Step = None,
    beside: Annotated[str | None, typer.Option(help="a second checkpoint to draw below the first")] = None,
    head: Annotated[int | None, typer.Option(min=0, help="draw this head only")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="leave the gauge as it is")] = False,
) -> None:
    """Draw W_KQ and W_PV of every attention layer."""
    from .inspect import heatmap as pictures
    from .output import save_figure
    from .zoo.checkpoint import load

    second = None if beside is None else load(beside)
    label = name if step is None else f"{name} at step {step}"
    figure = pictures.heatmap(
        load(name, step=step), beside=second, names=(label, beside or ""), fixed_gauge=not raw, head=head
    )
    save_figure(figure, output)


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(help="a recipe of `iclzoo list`")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="the run's folder; runs/RECIPE unless given")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with a run that was cut short")] = False,
    seed: Annotated[int | None, typer.Option(help="another seed than the recipe's")] = None,
    seeds: Annotated[
        str | None,
        typer.Option(help="train an ensemble at once: 0:16, or 0,3,7; each member is a checkpoint of its own"),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="another number of steps than the recipe's")] = None,
    tasks: Annotated[int, typer.Option(min=2, help="tasks to measure the figures of the card on")] = 200_000,
    devices: Annotated[int, typer.Option(min=1, help="split each batch between as many devices of this machine")] = 1,
    coordinator: Annotated[
        str | None, typer.Option(help="HOST:PORT of the first of several processes; `auto` on a cluster that JAX knows")
    ] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="how many processes take part")] = None,
    process: Annotated[int | None, typer.Option(min=0, help="which of them this is, from 0")] = None,
) -> None:
    """Train by a recipe; the folder is a checkpoint when it is done."""
    from dataclasses import replace

    from .inspect.figures import measure_checkpoint, standard_probe
    from .inspect.tables import figures_tables
    from .output import say, show, working
    from .train import recipe_book
    from .train.devices import Team, first_devices, join, leave
    from .train.run import fit, fit_ensemble

    chosen = recipe_book.recipe(recipe)
    changes = {"seed": seed, "num_steps": steps}
    chosen = replace(chosen, **{name: value for name, value in changes.items() if value is not None})
    folder = output or Path("runs") / chosen.name
    members = None if seeds is None else parse_seeds(seeds)
    if coordinator is not None:
        join(coordinator, processes, process, devices=devices)
    team = first_devices(devices)  # before anything else starts JAX
    options = {"probe": standard_probe(chosen), "resume": resume, "devices": team}
    try:
        if members is None:
            fit(chosen, folder, **options)
        else:
            fit_ensemble(chosen, members, folder, **options)
        leads = Team(team).leads
        leave()
        for checkpoint in (folder,) if members is None else [folder / f"seed-{member}" for member in members]:
            if leads:
                with working(f"measuring on {tasks:,} tasks"):
                    card = measure_checkpoint(checkpoint, num_tasks=tasks)
                show(*figures_tables(card))
                say(f"wrote {checkpoint}")
    except KeyboardInterrupt:
        again = shlex.join(["iclzoo", *(argument for argument in sys.argv[1:] if argument != "--resume"), "--resume"])
        say(f"stopped; the state is saved. Go on with: {again}")
        raise typer.Exit(130) from None


def parse_seeds(text: str) -> list[int]:
    """The seeds that `0:16` or `0,3,7` stand for."""
    try:
        if ":" in text:
            first, end = text.split(":")
            return list(range(int(first or 0), int(end)))
        return [int(seed) for seed in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"seeds are a range as in 0:16, or a list as in 0,3,7; got {text!r}") from None


@app.command("inspect")
def inspect_(
    name: Name,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="the report's folder; report/NAME unless given")
    ] = None,
    tasks: Annotated[int, typer.Option(min=2, help="tasks to measure on")] = 10_000,
) -> None:
    """Write a report: one page with all that applies, figures as PNG and SVG, numbers as JSON and CSV."""
    from .inspect.report import write_report
    from .inspect.sections import SECTIONS
    from .inspect.subject import Subject
    from .output import counted, say

    subject = Subject(name, num_tasks=tasks)
    subject.read()
    folder = output or Path("report") / subject.name
    with counted(len(SECTIONS), f"inspecting {subject.name}") as advance:
        page = write_report(subject, folder, SECTIONS, progress=advance)
    say(f"wrote {page}")


@app.command()
def verify(
    names: Annotated[list[str] | None, typer.Argument(help="checkpoints, by name or path")] = None,
    all_: Annotated[bool, typer.Option("--all", help="every shipped checkpoint")] = False,
    figures: Annotated[bool, typer.Option(help="measure the card's figures again")] = True,
) -> None:
    """Check that checkpoints are what their cards say: files, steps, start, figures."""
    from .inspect import verify as checks
    from .output import say, show_check
    from .zoo.checkpoint import list_checkpoints

    if not names and not all_:
        raise typer.BadParameter("name a checkpoint, or pass --all")
    failed = 0
    for name in list_checkpoints() if all_ else names or ():
        say(name)
        for check in checks.verify(name, figures=figures):
            show_check(check)
            failed += check.passed is False
    if failed:
        raise ZooError(f"{failed} {'check' if failed == 1 else 'checks'} failed")


@app.command()
def identify(
    name: Name,
    tasks: Annotated[int, typer.Option(min=2, help="tasks of each distribution to measure on")] = 5_000,
    step: Step = None,
    candidate: Annotated[
        list[str] | None,
        typer.Option(help="an algorithm to try, as in gd-5; repeat for more; those that suit unless given"),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="a picture: PNG, SVG or PDF")] = None,
) -> None:
    """Find the algorithm that a checkpoint runs: each is tuned to it, then compared inside and outside its distribution."""
    from .inspect.identification import identify_checkpoint
    from .inspect.identification_plot import identification_figure
    from .inspect.tables import identification_tables
    from .output import save_figure, show, working

    with working(f"tuning algorithms to {name}"):
        found = identify_checkpoint(name, step=step, candidates=candidate, num_tasks=tasks)
    show(*identification_tables(found))
    if output is not None:
        save_figure(identification_figure(found, name=name), output)


@app.command()
def reproduce(
    ids: Annotated[list[str] | None, typer.Argument(help="results, by id; --list names them")] = None,
    all_: Annotated[bool, typer.Option("--all", help="every result")] = False,
    list_them: Annotated[bool, typer.Option("--list", help="name the results and what each claims")] = False,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="where the page reproduction.md and the pictures go")
    ] = Path("."),
    retrain: Annotated[
        Path | None, typer.Option(help="train the checkpoints anew, in this folder, and measure those")
    ] = None,
) -> None:
    """Reproduce published results: our number beside the published one, the verdict, and the figure."""
    from .inspect import reproduction_page as pages
    from .inspect.reproduction import reproduce
    from .inspect.result_book import list_results, result
    from .output import save_figure, say, show, working

    if list_them:
        show(pages.results_table(map(result, list_results())))
        return
    if not ids and not all_:
        raise typer.BadParameter("name a result, or pass --all; --list names them")
    for one in [result(id) for id in (list_results() if all_ else ids or ())]:
        with working(f"reproducing {one.id}") if retrain is None else nullcontext():
            reproduction = reproduce(one, retrain_in=retrain)
        show(pages.findings_table(pages.record(reproduction)), f"{one.id}: {reproduction.verdict}\n")
        save_figure(reproduction.outcome.figure, output / "reproduction" / f"{one.id}.png")
        say(f"wrote {pages.write_page(output, list_results(), reproduction)}")


@app.command()
def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="where the picture goes")] = Path("demo.png"),
) -> None:
    """Train a layer in seconds, beside the shipped one, and show that both take a step of gradient descent."""
    from .inspect.demo import run_demo
    from .output import save_figure, show

    tables, figure = run_demo()
    show(*tables)
    save_figure(figure, output)


def main() -> None:
    """Run the command line: an error is one line on standard error and a non-zero exit."""
    try:
        app()
    except (ZooError, OSError) as error:
        if os.environ.get("ICLZOO_DEBUG"):
            raise
        print(f"iclzoo: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
