"""Write docs/instruments.md, every instrument with its question, its one line, its cost, its source and a picture, from the registry:
`python docs/instruments.py`.

With `--check`, only compare the text. With names, draw only those pictures.
"""

import re
import sys
from pathlib import Path

from iclzoo.inspect.instrument import MEASURING_SEED, Instrument, in_order

FOLDER = Path(__file__).parent
HEAD = f"""# Instruments

Made by `python docs/instruments.py` from the registry. `iclzoo plot` lists the same, `iclzoo plot INSTRUMENT NAME` asks one of a
checkpoint, and `iclzoo inspect NAME` puts all that apply on one page.

- Each is a function at the front door: `iclzoo.alignment("lsa", "gd-1")`. In the place of its first argument may stand the name or
  path of a checkpoint, an `iclzoo.Checkpoint`, or a learner with a task. Where no task is given, it is that of the checkpoint's card;
  another one is said in the result and on its picture. Where no key is given, it is that of the seed {MEASURING_SEED:,}
  ({MEASURING_SEED} at `jax.random.key`).
- Each gives a measurement: `.plot()` draws it (`ax=` for one panel, `figure=` for several, a SubFigure too), `.table()` is the table
  of the command line, `.records()` is ready for `pandas.DataFrame`, `.to_dict()` for JSON. In a notebook it shows its picture. In a
  script, `measurement.plot(figure=plt.figure()); plt.show()` opens a window.
- `iclzoo plot … -o FILE` writes what the ending says: `.png`, `.svg`, `.pdf` and others, `.csv`, `.json`; `weight-path` makes a
  `.gif`, too.
- Half-MSE is ½ · mean of ‖ŷ − y‖².

| instrument | question | cost |
| --- | --- | --- |
"""

# What is drawn, where it is not `iclzoo.NAME("lsa")`.
EXAMPLES = {
    "alignment": 'iclzoo.alignment("lsa", "gd-1")',
    "fitted-steps": 'iclzoo.fitted_steps("recurrent-lsa-2")',
    "interpolation": 'iclzoo.interpolation("lsa", "lsa-seed-2")',
    "read-outs": 'iclzoo.read_outs("deep-lsa-5")',
    "structure": 'iclzoo.structure("deep-lsa-2")',
    "spectral-filter": 'iclzoo.spectral_filter("recurrent-lsa-2")',
    "patterns": 'iclzoo.patterns("copying", num_tasks=1)',
    "ablations": 'iclzoo.ablations("deep-lsa-5")',
    "softmax-heads": 'iclzoo.softmax_heads("softmax-2-heads-1")',
    "copying": 'iclzoo.copying("copying", num_tasks=50)',
    "landscapes": "iclzoo.landscapes(iclzoo.LeastSquares(), iclzoo.LinearRegression(input_dim=2, inputs=iclzoo.Uniform(1.0)))",
}


def example(one: Instrument) -> str:
    return EXAMPLES.get(one.name, f'iclzoo.{one.name.replace("-", "_")}("lsa")')


def sources(one: Instrument) -> str:
    """The papers its docstring cites."""
    text = " ".join((one.__doc__ or "").split())
    found = re.findall(
        r"(?:von )?[A-Z]\w+ et al\. (?:19|20)\d\d(?:, (?:section|Figure|appendix|Theorem) [\w.]+)?", text
    )
    return "; ".join(dict.fromkeys(found))


def page() -> str:
    lines = [f"| [`{one.name}`](#{one.name}) | {one.question} | {one.cost} |" for one in in_order()]
    parts = [HEAD + "\n".join(lines) + "\n"]
    for one in in_order():
        source = sources(one)
        text = f"{one.question} Cost: {one.cost}.{f' Source: {source}.' if source else ''}"
        picture = f"![{one.title}](instruments/{one.name}.png)"
        parts.append(f"## {one.name}\n\n{text}\n\n```python\n{example(one)}\n```\n\n{picture}\n")
    return "\n".join(parts)


def draw(one: Instrument) -> None:
    import iclzoo
    from iclzoo.inspect.pictures.style import figure_of

    measured = eval(example(one), {"iclzoo": iclzoo})
    (FOLDER / "instruments").mkdir(exist_ok=True)
    figure_of(measured.plot()).savefig(FOLDER / "instruments" / f"{one.name}.png", dpi=75)
    print(one.name, flush=True)


def main() -> None:
    path, arguments = FOLDER / "instruments.md", sys.argv[1:]
    if arguments == ["--check"]:
        if path.read_text(encoding="utf-8") != page():
            sys.exit("docs/instruments.md is not up to date: run python docs/instruments.py")
        return
    path.write_text(page(), encoding="utf-8")
    for one in in_order():
        if not arguments or one.name in arguments:
            draw(one)


if __name__ == "__main__":
    main()
