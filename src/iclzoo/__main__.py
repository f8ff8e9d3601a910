"""The command line: `iclzoo list | show | heatmap | plot | train | verify | identify | inspect | reproduce | new | demo`."""

import os
import shlex
import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from .output import check_picture, complain, leave_streams, open_streams, say, show, show_warning, write_out
from .zoo.checks.values import MAX_DEVICES, MAX_MEMBERS, MAX_SEED, MAX_SIZE, MAX_TASKS
from .zoo.checks.values import seed as checked_seed
from .zoo.errors import ConfigError, UnknownNameError, ZooError

UsageError: Any = typer.BadParameter.__base__  # click's, of which later versions of typer have a copy

app = typer.Typer(
    name="iclzoo",
    help="A zoo of small sequence models that learn in context.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def at_home(value: Any) -> Any:
    """A path, or a list of them, with `~` as the home folder."""
    if isinstance(value, str | Path):
        return type(value)(os.path.expanduser(value))
    return value and [*map(at_home, value)]


def picture_path(path: Path | None) -> Path | None:
    """The path of a picture that can be written."""
    if path is not None:
        check_picture(path := Path(os.path.expanduser(path)))
    return path


Name = Annotated[str, typer.Argument(help="a shipped checkpoint, or the path of a folder", callback=at_home)]
Step = Annotated[int | None, typer.Option(help="a point of its training; the end unless given")]
A_PICTURE = typer.Option(
    "-o", "--output", help="a picture: .png, .svg, .pdf, .jpg, .webp, .tif or .eps", callback=picture_path
)


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    from_: Annotated[
        list[Path] | None,
        typer.Option(
            "--from", metavar="FILE.py", help="import this file first, for what it registers", callback=at_home
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="show the traceback of an error")] = False,
    version: Annotated[bool, typer.Option("--version", help="say which version this is")] = False,
) -> None:
    if debug:
        os.environ["ICLZOO_DEBUG"] = "1"
    if version:
        from importlib.metadata import version as version_of

        show(f"iclzoo {version_of('iclzoo')}")
        raise typer.Exit
    if from_:
        from .train.recipes.outside import import_file

        for file in from_:
            import_file(file)
    if context.invoked_subcommand is None:
        show(context.get_help())
        raise typer.Exit(2)


@app.command("list")
def list_(
    pattern: Annotated[str, typer.Argument(help="wildcards work")] = "*",
    csv: Annotated[
        bool,
        typer.Option("--csv", help="a row for each checkpoint, with its task, training, loss and nearest algorithm"),
    ] = False,
) -> None:
    """List checkpoints, recipes and models."""
    from .inspect.report.catalogue import catalogue
    from .inspect.report.tables import names_table
    from .zoo.table import as_csv

    if csv:
        write_out(as_csv(catalogue(pattern)))
        return
    table = names_table(pattern)
    if not table.rows:
        raise UnknownNameError(
            f"no checkpoint, recipe or model has a name that fits {pattern!r}; `iclzoo list` names all"
        )
    show(table)


@app.command("show")
def show_(name: Name) -> None:
    """Show the card of a checkpoint."""
    from .inspect.report.card_tables import card_tables
    from .zoo.storage.reading import read_card

    show(*card_tables(name, read_card(name)))


@app.command()
def heatmap(
    name: Name,
    output: Annotated[Path, A_PICTURE] = Path("heatmap.png"),
    step: Step = None,
    beside: Annotated[
        str | None, typer.Option(help="a second checkpoint to draw below the first", callback=at_home)
    ] = None,
    minus: Annotated[
        str | None, typer.Option(help="a checkpoint to subtract, gauge fixed and heads matched", callback=at_home)
    ] = None,
    layer: Annotated[int | None, typer.Option(min=0, help="draw this layer only, counted from 0")] = None,
    head: Annotated[int | None, typer.Option(min=0, help="draw this head only")] = None,
    product: Annotated[str | None, typer.Option(help="draw W_KQ or W_PV only")] = None,
    annotate: Annotated[
        bool | None, typer.Option(help="write the values into the cells; small matrices have them anyway")
    ] = None,
    cmap: Annotated[str | None, typer.Option(help="a colour map of matplotlib, its middle at zero")] = None,
    width: Annotated[float | None, typer.Option(min=1, max=100, help="inches; the height follows")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="leave the gauge as it is")] = False,
) -> None:
    """Draw W_KQ and W_PV of every attention layer."""
    from .inspect.pictures.style import colour_map, figure_of, scaled_to
    from .inspect.weights import heatmap as pictures
    from .output import save_figure
    from .zoo.checks.values import one_of
    from .zoo.storage.checkpoint import load

    if product is not None:
        one_of("--product", product, ("W_KQ", "W_PV"))
    second, subtracted = (None if other is None else load(other) for other in (beside, minus))
    label = name if step is None else f"{name} at step {step}"
    figure = pictures.heatmap(
        load(name, step=step),
        beside=second,
        minus=subtracted,
        names=(label if minus is None else f"{label} − {minus}", beside or ""),
        fixed_gauge=not raw,
        layer=layer,
        head=head,
        product=product,  # pyright: ignore[reportArgumentType]
        annotate=annotate,
        cmap=None if cmap is None else colour_map(cmap),
    )
    save_figure(scaled_to(figure_of(figure), width), output)


@app.command()
def plot(
    instrument: Annotated[str | None, typer.Argument(help="an instrument; without one, all are listed")] = None,
    name: Annotated[
        str | None, typer.Argument(help="a shipped checkpoint, or a folder's path", callback=at_home)
    ] = None,
    beside: Annotated[
        str | None,
        typer.Option(help="a second learner: a checkpoint, or an algorithm at its best", callback=at_home),
    ] = None,
    step: Step = None,
    tasks: Annotated[int | None, typer.Option(min=1, max=MAX_TASKS, help="tasks to measure on")] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="a picture, or .csv, .json, .gif; INSTRUMENT-NAME.png unless given"),
    ] = None,
) -> None:
    """Ask an instrument of a checkpoint: its picture or its numbers, by the ending of the file, and its table."""
    from .inspect.checkpoint import Checkpoint
    from .inspect.instrument import INSTRUMENTS
    from .inspect.report.tables import instruments_table
    from .output import FORMATS, NUMBERS, check_picture, save_answer, working

    if instrument is None:
        show(instruments_table())
        return
    chosen = INSTRUMENTS[instrument]
    if name is None:
        raise ConfigError(f"name a checkpoint, as in: iclzoo plot {instrument} lsa")
    checkpoint = Checkpoint(name, step)
    path = at_home(output) or Path(f"{chosen.name}-{checkpoint.name.replace(' ', '-')}.png")
    check_picture(path, (*FORMATS, *NUMBERS, *chosen.films))
    with working(f"asking {chosen.name} of {checkpoint.name}"):
        measured = chosen.of(checkpoint, other=beside, num_tasks=tasks)
    save_answer(measured, path)
    show(*(table.shortened() for table in measured.tables()))


@app.command()
def train(
    recipe: Annotated[
        str,
        typer.Argument(
            help="a recipe of `iclzoo list`, FILE.py:RECIPE, package.module:RECIPE, or JSON, as a run's run.json",
            callback=at_home,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="the run's folder; runs/RECIPE unless given", callback=at_home),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with a run that was cut short")] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="another setting, as in optimiser.learning_rate=0.01; repeat"),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=MAX_SEED, help="another seed than the recipe's")] = None,
    seeds: Annotated[
        str | None,
        typer.Option(help="train an ensemble: 0:16, or 0,3,7; each member is a run of its own"),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, max=MAX_SIZE, help="another number of steps than the recipe's")
    ] = None,
    tasks: Annotated[
        int, typer.Option(min=2, max=MAX_TASKS, help="tasks to measure the metrics of the card on")
    ] = 200_000,
    devices: Annotated[
        int, typer.Option(min=1, max=MAX_DEVICES, help="split each batch between as many devices of this machine")
    ] = 1,
    coordinator: Annotated[
        str | None, typer.Option(help="HOST:PORT of the first of several processes; `auto` on a cluster that JAX knows")
    ] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="how many processes take part")] = None,
    process: Annotated[int | None, typer.Option(min=0, help="which of them this is, from 0")] = None,
) -> None:
    """Train by a recipe; the folder is a checkpoint when it is done."""
    from dataclasses import replace

    from .inspect.report.card_tables import metrics_tables
    from .inspect.report.metrics import measure_checkpoint, standard_probe
    from .output import working
    from .train.devices import Team, first_devices, join, leave
    from .train.recipes import catalogue
    from .train.recipes.outside import changed
    from .train.run import fit, fit_ensemble
    from .zoo.storage.checkpoint import read_card

    if coordinator is None and (processes is not None or process is not None):
        raise ConfigError("--processes and --process are for several processes that meet at a --coordinator; name it")
    chosen = changed(catalogue.recipe(recipe), set_ or ())
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
        checkpoints = (folder,) if members is None else [folder / f"seed-{member}" for member in members]
        cards = {}
        for checkpoint in checkpoints if leads else ():
            with working(f"measuring {checkpoint} on {tasks:,} tasks"):
                known = read_card(checkpoint)  # that of a run that was done before has its metrics
                cards[checkpoint] = known if known.metrics else measure_checkpoint(checkpoint, num_tasks=tasks)
        for checkpoint, card in cards.items():  # all is on disk before standard output is needed
            show(*metrics_tables(card.metrics))
            say(f"wrote {checkpoint}")
    except KeyboardInterrupt:
        again = shlex.join(["iclzoo", *(argument for argument in sys.argv[1:] if argument != "--resume"), "--resume"])
        say(f"stopped; the state is saved. Go on with: {again}")
        raise typer.Exit(130) from None


def parse_seeds(text: str) -> list[int]:
    """The seeds that `0:16` or `0,3,7` stand for. **Raises** `ConfigError`."""
    first, colon, end = text.partition(":")
    try:
        seeds = range(int(first or 0), int(end)) if colon else [int(seed) for seed in text.split(",")]
    except ValueError:
        raise ConfigError(f"--seeds are a range as in 0:16, or a list as in 0,3,7; got {text!r:.60}") from None
    if not seeds or seeds[MAX_MEMBERS:]:  # a range may be longer than any length
        raise ConfigError(f"--seeds must name from 1 to {MAX_MEMBERS:,} seeds, got {text!r:.60}")
    return [checked_seed("each of --seeds", seed) for seed in seeds]


@app.command("inspect")
def inspect_(
    name: Name,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="the report's folder; report/NAME unless given", callback=at_home),
    ] = None,
    only: Annotated[str | None, typer.Option(help="these sections, as in weights,copying")] = None,
    tasks: Annotated[int, typer.Option(min=2, max=MAX_TASKS, help="tasks to measure on, at most")] = 10_000,
) -> None:
    """Write a report: one page with all that applies, figures as PNG and SVG, numbers as JSON and CSV."""
    from .inspect.checkpoint import Checkpoint
    from .inspect.instrument import INSTRUMENTS, in_order
    from .inspect.report.page import check_report_folder, write_report
    from .output import counted

    sections = in_order() if only is None else [INSTRUMENTS[one.strip()] for one in only.split(",")]
    checkpoint = Checkpoint(name)
    folder = output or Path("report") / checkpoint.name
    check_report_folder(folder)
    checkpoint.read()
    with counted(len(sections), f"inspecting {checkpoint.name}") as advance:
        page = write_report(checkpoint, folder, sections, num_tasks=tasks, progress=advance)
    say(f"wrote {page}")


@app.command()
def verify(
    names: Annotated[list[str] | None, typer.Argument(help="checkpoints, by name or path", callback=at_home)] = None,
    all_: Annotated[bool, typer.Option("--all", help="every shipped checkpoint")] = False,
    metrics: Annotated[bool, typer.Option(help="measure the card's metrics again")] = True,
) -> None:
    """Check that checkpoints are what their cards say: files, steps, start, metrics."""
    from .inspect import verify as checks
    from .output import show_check
    from .zoo.storage.checkpoint import list_checkpoints

    if not names and not all_:
        raise ConfigError("name a checkpoint, or pass --all")
    failed = 0
    for name in list_checkpoints() if all_ else names or ():
        say(name)
        try:
            for check in checks.verify(name, metrics=metrics):
                show_check(check)
                failed += check.passed is False
        except (ZooError, OSError) as error:  # no readable card; those that follow are looked at all the same
            show_check(checks.Check("card", False, str(error)))
            failed += 1
    if failed:
        raise ZooError(f"{failed} {'check' if failed == 1 else 'checks'} failed")


@app.command()
def upgrade(names: Annotated[list[str], typer.Argument(help="checkpoints, by path", callback=at_home)]) -> None:
    """Write the cards of checkpoints anew, in today's format; what they say stays the same."""
    from .zoo.storage.checkpoint import upgrade_card

    for name in names:
        upgrade_card(name)
        say(f"wrote the card of {name}")


@app.command()
def identify(
    name: Name,
    tasks: Annotated[int, typer.Option(min=2, max=MAX_TASKS, help="tasks of each distribution to measure on")] = 5_000,
    step: Step = None,
    candidate: Annotated[
        list[str] | None,
        typer.Option(help="an algorithm to try, as in gd-5; repeat for more; those that suit unless given"),
    ] = None,
    output: Annotated[Path | None, A_PICTURE] = None,
) -> None:
    """Find the algorithm that a checkpoint runs: each is tuned to it, then compared inside and outside its distribution."""
    from .inspect.checkpoint import Checkpoint
    from .inspect.identification import verdict
    from .inspect.pictures.style import figure_of
    from .output import save_figure, working

    with working(f"tuning algorithms to {name}"):
        found = verdict.identify(Checkpoint(name, step), candidates=candidate, num_tasks=tasks)
    if output is not None:
        save_figure(figure_of(found.plot()), output)
    show(*found.tables())


@app.command()
def reproduce(
    ids: Annotated[list[str] | None, typer.Argument(help="results, by id; --list names them")] = None,
    all_: Annotated[bool, typer.Option("--all", help="every result")] = False,
    list_them: Annotated[bool, typer.Option("--list", help="name the results and what each claims")] = False,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="where the page reproduction.md and the pictures go", callback=at_home),
    ] = Path("."),
    retrain: Annotated[
        Path | None,
        typer.Option(help="train the checkpoints anew, in this folder, and measure those", callback=at_home),
    ] = None,
) -> None:
    """Reproduce published results: our number beside the published one, the verdict, and the figure."""
    from .inspect.reproduction import page as pages
    from .inspect.reproduction.catalogue import list_results, result
    from .inspect.reproduction.result import reproduce
    from .output import working

    if list_them:
        show(pages.results_table(map(result, list_results())))
        return
    if not ids and not all_:
        raise ConfigError("name a result, or pass --all; --list names them")
    chosen = [result(id) for id in (list_results() if all_ else ids or ())]
    for one in chosen:
        pages.check_place(output, one.id)
    for one in chosen:
        with working(f"reproducing {one.id}") if retrain is None else nullcontext():
            reproduction = reproduce(one, retrain_in=retrain)
        page = pages.write_page(output, list_results(), reproduction)
        show(pages.measurements_table(pages.record(reproduction)), f"{one.id}: {reproduction.verdict}\n")
        say(f"wrote {page} and {pages.picture_path(output, one.id)}")


@app.command()
def new(
    kind: Annotated[str, typer.Argument(help="model, task, algorithm or instrument")],
    name: Annotated[str, typer.Argument(help="the name to register it under, as in my_model")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="the file to write; NAME.py unless given", callback=at_home)
    ] = None,
) -> None:
    """Write a file that adds a model, a task, an algorithm or an instrument of your own, to begin with."""
    from . import new as templates
    from .zoo.checks.values import one_of

    path = templates.write(one_of("KIND", kind, templates.kinds()), name, output)
    say(f"wrote {path}; check it with: python {shlex.quote(str(path))}")


@app.command()
def demo(
    output: Annotated[Path, A_PICTURE] = Path("demo.png"),
) -> None:
    """Train a layer in seconds, beside the shipped one, and show that both take a step of gradient descent."""
    from .inspect.demo import run_demo
    from .output import save_figure

    tables, figure = run_demo()
    save_figure(figure, output)
    show(*tables)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line, by default that of the process; returns its exit status. An error is one line on standard error."""
    try:
        status = app(arguments, prog_name="iclzoo", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except SystemExit as error:  # how rich and typer leave when nobody reads on
        return error.code if isinstance(error.code, int) else 1
    except UsageError as error:
        command = error.ctx.command_path if error.ctx else "iclzoo"
        complain(f"{error.format_message()} ({command} --help says more)")
        return error.exit_code
    except Exception as error:
        if os.environ.get("ICLZOO_DEBUG"):
            raise
        if not isinstance(error, ZooError | OSError):
            error = cause_of(error)
        complain(
            str(error)
            if isinstance(error, ZooError | OSError)
            else f"{type(error).__name__}: {error} (iclzoo --debug shows where)"
        )
        return 1


def cause_of(error: Exception) -> Exception:
    """Why JAX does not start, where it does not, for that can come to light as any error."""
    from .zoo.determinism import check_jax

    try:
        check_jax()
    except ZooError as reason:
        return reason
    return error


def main() -> None:
    """The command `iclzoo`."""
    open_streams()
    os.environ["MPLBACKEND"] = "agg"  # all pictures go into files
    warnings.showwarning = show_warning
    try:
        status = run()
    finally:
        leave_streams()
    sys.exit(status)


if __name__ == "__main__":
    main()
