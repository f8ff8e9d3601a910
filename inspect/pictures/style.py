"""The look of the pictures: matplotlib's own defaults, whatever the settings of the person who draws them."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import RLock
from typing import Any, ParamSpec, TypeVar

import matplotlib.figure
import matplotlib.style
from matplotlib.backend_bases import RendererBase
from matplotlib.transforms import Bbox

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


@styled
def drawn(figure: matplotlib.figure.Figure, format: str, *, dpi: int) -> bytes:
    """The picture as the bytes of a file."""
    data = io.BytesIO()
    figure.savefig(data, format=format, dpi=dpi)
    return data.getvalue()


def label(name: str) -> str:
    """A name as matplotlib draws it letter by letter: its dollar signs begin no formula."""
    return one_line(name).replace("$", r"\$")
