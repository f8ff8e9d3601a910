"""Pictures hold: in what the renderer draws, no text is cut off, overlaps another, or is too small to read."""

from collections.abc import Iterator
from itertools import combinations

import matplotlib.figure
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.transforms import Bbox

from iclzoo.inspect.checkpoint import Checkpoint
from iclzoo.inspect.instrument import INSTRUMENTS, in_order
from iclzoo.inspect.pictures.style import figure_of, our_style
from iclzoo.zoo.errors import NotApplicable

pytestmark = pytest.mark.slow

SMALLEST = 6.0  # points
SLACK = 1.5  # pixels
FEW = 20  # tasks
SHOWN = {"lsa-fast", "deep-lsa-2", "copying-seed-2", "softmax-2-heads-1", "lstm-1"}
QUICK = [one.name for one in in_order() if one.name not in ("identify", "shifts", "copying")]


def texts(figure: matplotlib.figure.Figure) -> Iterator[tuple[str, float, Bbox]]:
    """Every text that is drawn, its size in points, and its box in pixels."""
    canvas, drawn = FigureCanvasAgg(figure), {}
    renderer = canvas.get_renderer()
    draw_text = renderer.draw_text

    def recorded(*arguments, mtext=None, **options):
        drawn[id(mtext)] = mtext
        draw_text(*arguments, mtext=mtext, **options)

    renderer.draw_text = recorded
    with our_style():
        canvas.draw()
        for text in drawn.values():
            if text is not None and text.get_text().strip():
                yield text.get_text(), text.get_fontsize(), text.get_window_extent(renderer)


def faults(figure: matplotlib.figure.Figure) -> list[str]:
    """What is wrong with the texts of a figure, in words."""
    drawn = list(texts(figure))
    page = figure.bbox
    found = [f"{text!r} has {size} points" for text, size, _ in drawn if size < SMALLEST]
    for text, _, box in drawn:
        if min(box.x0 - page.x0, box.y0 - page.y0, page.x1 - box.x1, page.y1 - box.y1) < -SLACK:
            found.append(f"{text!r} is cut off")
    for (text, _, box), (other, _, its) in combinations(drawn, 2):
        wide, high = min(box.x1, its.x1) - max(box.x0, its.x0), min(box.y1, its.y1) - max(box.y0, its.y0)
        if wide > SLACK and high > SLACK:
            found.append(f"{text!r} overlaps {other!r}")
    return found


def test_a_bad_picture_is_found():
    figure = matplotlib.figure.Figure(figsize=(2, 2))
    figure.text(0.5, 0.5, "one over")
    figure.text(0.5, 0.5, "the other")
    figure.text(0.9, 0.1, "beyond the edge")
    figure.text(0.1, 0.9, "tiny", fontsize=4)
    assert faults(figure) == [
        "'tiny' has 4.0 points",
        "'beyond the edge' is cut off",
        "'one over' overlaps 'the other'",
    ]


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_no_text_of_an_instrument_is_cut_small_or_covered(name):
    checkpoint, found = Checkpoint(name), {}
    for instrument in QUICK:
        try:
            measured = INSTRUMENTS[instrument].of(checkpoint, at_most=FEW)
        except NotApplicable:
            continue
        if problems := faults(figure_of(measured.plot())):
            found[instrument] = problems
    assert not found
