"""Numbers as text for pages: short, never rounded to 0 or to all, and a dash for nan."""

import math
from collections.abc import Sequence
from typing import Any

MISSING = "–"

__all__ = ["MISSING", "entropy", "listed", "number", "percent", "plural", "seconds", "whole"]


def number(value: float) -> str:
    """A metric or a correlation, three digits.

    >>> number(0.73749), number(0.0002), number(float("nan")), number(0)
    ('0.737', '<0.001', '–', '0.000')
    """
    if math.isnan(value):
        return MISSING
    return "<0.001" if 0 < value < 0.0005 else f"{value:.3f}".replace("-", "−")


def percent(share: float) -> str:
    r"""A share, never rounded to none or all.

    >>> percent(0.0679), percent(1e-9), percent(0.9994), percent(1), percent(0.45)
    ('6.8\u202f%', '<0.01\u202f%', '99.9\u202f%', '100\u202f%', '45\u202f%')
    """
    if math.isnan(share):
        return MISSING
    value = 100 * share
    if 0 < value < 0.01:
        text = "<0.01"
    elif 99 < value < 100:
        text = f"{min(value, 99.9):.1f}"
    elif 0 < value < 1:
        text = f"{value:.2f}"
    elif 1 <= value < 10:
        text = f"{value:.1f}"
    else:
        text = f"{value:.0f}"
    return f"{text}\u202f%"


def seconds(value: float) -> str:
    """A time, to about three digits.

    >>> seconds(0.0123), seconds(1234.5), seconds(0.00004)
    ('0.012', '1,234', '<0.001')
    """
    if math.isnan(value):
        return MISSING
    if 0 < value < 0.0005:
        return "<0.001"
    return f"{value:.3f}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def entropy(value: float) -> str:
    """Bits of entropy.

    >>> entropy(8.8372), entropy(float("nan"))
    ('8.84', '–')
    """
    return MISSING if math.isnan(value) else f"{value:.2f}"


def whole(value: float) -> str:
    """A count.

    >>> whole(1619.0)
    '1,619'
    """
    return MISSING if math.isnan(value) else f"{int(value):,}"


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "hasher"), plural(1619, "item"), plural(2, "query")
    ('1 hasher', '1,619 items', '2 queries')
    """
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") else f"{count:,} {noun}s"


def listed(words: Sequence[Any]) -> str:
    """Words joined as in a sentence.

    >>> listed([12, 24, 48]), listed(["a"])
    ('12, 24 and 48', 'a')
    """
    *others, last = [str(word) for word in words]
    return f"{', '.join(others)} and {last}" if others else last
