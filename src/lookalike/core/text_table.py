"""Small tables of text, for printing results."""

import unicodedata
from collections.abc import Collection, Sequence

__all__ = ["aligned", "padded", "percent", "times", "width_of"]


def aligned(table: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Rows of cells as lines: the first column to the left, the others to the right. left: columns to the left.

    >>> print(aligned([["model", "pairs"], ["a", "12"]]))
    model  pairs
    a         12
    """
    return "\n".join("  ".join(row).rstrip() for row in padded(table, left))


def padded(table: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[list[str]]:
    """The same cells, those of a column equally wide. left: which columns go to the left."""
    widths = [max(map(width_of, column)) for column in zip(*table, strict=True)]
    rows = []
    for row in table:
        spaces = [" " * (width - width_of(cell)) for cell, width in zip(row, widths, strict=True)]
        rows.append([row[i] + space if i in left else space + row[i] for i, space in enumerate(spaces)])
    return rows


def width_of(text: str) -> int:
    """How many places a text takes on a terminal: two for each wide letter, none for an accent that is combined.

    >>> width_of("naïve"), width_of("模型")
    (5, 4)
    """
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text
    )


def times(factor: float) -> str:
    """A factor as text, to a tenth if it is below 10.

    >>> times(1464.2), times(5.04)
    ('1,464', '5.0')
    """
    return f"{factor:,.0f}" if factor >= 10 else f"{factor:.1f}"


def percent(share: float) -> str:
    """A share as a percentage, a dash for nan.

    >>> percent(0.125), percent(float("nan"))
    ('12.5%', '-')
    """
    return "-" if share != share else f"{share:.1%}"
