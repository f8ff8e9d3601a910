"""Write the table of the README from the cards of the shipped checkpoints: `python docs/figures.py`; with `--check`, only compare."""

import sys
from pathlib import Path

import iclzoo

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- figures: made by `python docs/figures.py` -->\n", "<!-- end of figures -->\n"


def table() -> str:
    """One row for each checkpoint: its loss, its nearest baseline, and the steps its weights spell."""
    rows = [
        "| checkpoint | half-MSE | nearest algorithm | its half-MSE | excess | sensitivity cosine | the weights spell |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in iclzoo.list_checkpoints():
        figures = iclzoo.read_card(name).figures
        baselines = figures["baselines"]
        nearest = max(baselines, key=lambda b: baselines[b]["alignment"]["sensitivity_cosine"]["value"] or -1)
        comparison = baselines[nearest]
        excess = comparison["excess"]["value"] / comparison["half_mse"]["value"]
        steps = "; ".join(
            f"η/N {step['step_size_over_num_examples']:.3f}, γ {abs(step['gamma']):.3f}" for step in figures["steps"]
        )
        rows.append(
            f"| `{name}` | {figures['half_mse']['value']:.5f} | {nearest} | {comparison['half_mse']['value']:.5f} | {excess:+.2%} "
            f"| {comparison['alignment']['sensitivity_cosine']['value']:.4f} | {steps} |"
        )
    return "\n".join(rows) + "\n"


def main() -> None:
    text = README.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    wanted = before + BEGIN + table() + END + after
    if "--check" in sys.argv:
        sys.exit("the README's figures are not those of the cards: run python docs/figures.py" if wanted != text else 0)
    README.write_text(wanted)


if __name__ == "__main__":
    main()
