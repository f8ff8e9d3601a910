"""Write docs/checkpoints.md, and its short form in the README, from the cards: `python docs/metrics.py`; with `--check`, only compare."""

import sys
from collections.abc import Iterable
from pathlib import Path

import iclzoo

DOCS = Path(__file__).parent
README, PAGE = DOCS.parent / "README.md", DOCS / "checkpoints.md"
BEGIN, END = "<!-- metrics: made by `python docs/metrics.py` -->\n", "<!-- end of metrics -->\n"
IN_README = (
    "lsa",
    "recurrent-lsa-2",
    "deep-lsa-2",
    "deep-lsa-5",
    "merged-lsa-anisotropic",
    "softmax-1-head-1",
    "softmax-2-heads-1",
    "copying",
    "mlp-lsa-sine",
    "transformer-12-layer-norm",
    "lstm-2",
)
HEAD = """# The shipped checkpoints

Made by `python docs/metrics.py` from the cards. Half-MSE is ½ · mean of ‖ŷ − y‖² on the number of tasks given, on the task of each
card (`iclzoo show NAME`); beside it the algorithm whose sensitivity ∂ŷ/∂x is nearest of those the card compares with, at its best,
on the same tasks.
`iclzoo verify --all` measures all of it again.

"""


def table(names: Iterable[str]) -> str:
    """One row for each checkpoint: its loss, its nearest baseline, and the steps its weights imply."""
    rows = [
        "| checkpoint | tasks | half-MSE | nearest algorithm | its half-MSE | excess | sensitivity cosine | the weights imply |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in names:
        metrics = iclzoo.read_card(name).metrics
        baselines = metrics["baselines"]
        nearest = max(baselines, key=lambda b: baselines[b]["alignment"]["sensitivity_cosine"]["value"] or -1)
        comparison = baselines[nearest]
        excess = comparison["excess"]["value"] / comparison["half_mse"]["value"]
        cosine = comparison["alignment"]["sensitivity_cosine"]["value"]
        steps = "; ".join(
            f"η/N {step['step_size_over_num_examples']:.3f}, γ {abs(step['gamma']):.3f}"
            for step in metrics["implied_steps"]
        )
        rows.append(
            f"| `{name}` | {metrics['num_tasks']:,} | {metrics['half_mse']['value']:.5f} | {nearest} "
            f"| {comparison['half_mse']['value']:.5f} | {excess:+.2%} | {'–' if cosine is None else f'{cosine:.4f}'} | {steps} |"
        )
    return "\n".join(rows) + "\n"


def main() -> None:
    readme = README.read_text(encoding="utf-8")
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    wanted = {README: before + BEGIN + table(IN_README) + END + after, PAGE: HEAD + table(iclzoo.list_checkpoints())}
    if "--check" in sys.argv:
        stale = [
            path.name for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text
        ]
        sys.exit(
            f"{', '.join(stale)}: the metrics are not those of the cards: run python docs/metrics.py" if stale else 0
        )
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
