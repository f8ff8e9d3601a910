"""The look of the pictures: matplotlib's own defaults, whatever the settings of the person who draws them."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import RLock
from typing import Any, ParamSpec, TypeVar

import matplotlib
import matplotlib.colors
import matplotlib.figure
import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.transforms import Bbox

from ...zoo.errors import unknown_name
from ...zoo.text import one_line

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")

_lock = RLock()  # matplotlib's settings are those of the whole process
_depth = 0


@contextmanager
def our_style() -> Iterator[None]:
    """Inside, matplotlib's settings are its defaults; outside, the user's."""
    global _depth
    with _lock:
        _depth += 1
        try:
            if _depth > 1:
                yield
            else:
                with matplotlib.style.context("default"):
                    yield
        finally:
            _depth -= 1


def styled(draw: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """A function that draws, in our style."""

    @wraps(draw)
    def in_our_style(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        with our_style():
            return draw(*args, **kwargs)

    return in_our_style


class Figure(matplotlib.figure.Figure):
    """A figure that is laid out, drawn and saved in our style, whoever saves it: matplotlib makes ticks only then."""

    @styled
    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)

    @styled
    def draw(self, renderer: RendererBase) -> None:
        super().draw(renderer)

    @styled
    def get_tightbbox(self, renderer: RendererBase | None = None, **options: Any) -> Bbox:
        return super().get_tightbbox(renderer, **options)

    @styled
    def savefig(self, fname: Any, **options: Any) -> None:
        super().savefig(fname, **options)

    def _repr_png_(self) -> bytes:
        """The picture, as the last line of a notebook cell, whichever backend it has."""
        return drawn(self, "png", dpi=100)


AnyFigure = matplotlib.figure.Figure | matplotlib.figure.SubFigure


def new_axes(size: tuple[float, float] | None = None) -> Axes:
    """Axes on a figure of their own."""
    return Figure(figsize=size, layout="constrained").subplots()


def on_figure(figure: AnyFigure | None, size: tuple[float, float]) -> AnyFigure:
    """The figure that is given, as large as it is, or a new one of this size in inches."""
    if figure is None:
        return Figure(figsize=size, layout="constrained")
    if isinstance(figure, matplotlib.figure.Figure) and figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")
    return figure


def figure_of(place: Axes | AnyFigure) -> matplotlib.figure.Figure:
    """The whole figure that axes, or a part of a figure, are on."""
    figure = place.figure if isinstance(place, Axes) else place
    while isinstance(figure, matplotlib.figure.SubFigure):
        figure = figure.figure
    return figure  # pyright: ignore[reportReturnType]


def colour_map(name: str) -> matplotlib.colors.Colormap:
    """A colour map of matplotlib by name. **Raises** `UnknownNameError`."""
    if name not in matplotlib.colormaps:
        raise unknown_name("colour map", name, matplotlib.colormaps)
    return matplotlib.colormaps[name]


def scaled_to(figure: matplotlib.figure.Figure, width: float | None) -> matplotlib.figure.Figure:
    """The figure at this width in inches, its proportions kept; as it is without one."""
    if width is not None:
        own, height = figure.get_size_inches()
        figure.set_size_inches(width, height * width / own)
    return figure


def noted_axes(ax: Axes, note: str) -> Axes:
    """The axes with a note in the title."""
    if note:
        ax.set_title("\n".join(filter(None, (ax.get_title(), note))), fontsize="small")
    return ax


def noted_figure(figure: AnyFigure, note: str) -> AnyFigure:
    """The figure with a note in the title over all panels."""
    if note:
        figure.suptitle("\n".join(filter(None, (figure.get_suptitle(), note))), fontsize="small")
    return figure


@styled
def drawn(figure: matplotlib.figure.Figure, format: str, *, dpi: int) -> bytes:
    """The picture as the bytes of a file."""
    data = io.BytesIO()
    figure.savefig(data, format=format, dpi=dpi)
    return data.getvalue()


def label(name: str) -> str:
    """A name as matplotlib draws it letter by letter: its dollar signs begin no formula."""
    return one_line(name).replace("$", r"\$")
