"""Text that others wrote, made safe to show."""

from unicodedata import category


def printable(text: str) -> str:
    """`text` with whatever is not seen written out, as in `\\x1b`: control characters, marks of direction, halves of surrogates.

    Spaces and line ends stay.
    """
    return "".join(
        c if c == "\n" or c.isprintable() or category(c) == "Zs" else c.encode("unicode_escape").decode() for c in text
    )


def one_line(text: str) -> str:
    """`printable` text without line ends."""
    return printable(" ".join(text.split()))
