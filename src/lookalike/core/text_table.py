"""Small tables of text, for printing results."""

from collections.abc import Sequence

__all__ = ["aligned", "percent", "times"]


def aligned(table: Sequence[Sequence[str]], left: int = 1) -> str:
    """Rows of cells as lines: the first column, or so many, to the left, the others to the right.

    >>> print(aligned([["model", "pairs"], ["a", "12"]]))
    model  pairs
    a         12
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = (
        [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in table
    )
    return "\n".join("  ".join(line).rstrip() for line in lines)


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
