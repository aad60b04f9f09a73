"""Numbers and what they say, in words."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lookalike.report.entries import Comparison, Entry

MISSING = "–"
SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

__all__ = [
    "MISSING",
    "all_codes",
    "entropy",
    "listed",
    "number",
    "percent",
    "plural",
    "random_codes",
    "seconds",
    "summary",
    "whole",
]


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


def all_codes(n_bits: int) -> str:
    """How many codes there are.

    >>> all_codes(12), all_codes(48)
    ('4,096', '2⁴⁸')
    """
    return f"{2**n_bits:,}" if n_bits <= 20 else f"2{str(n_bits).translate(SUPERSCRIPT)}"


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


def random_codes(items: int, n_bits: int) -> float:
    """How many distinct codes evenly random bits are expected to give."""
    if n_bits > 50:
        return float(items)
    return float(-np.expm1(items * np.log1p(-(2.0**-n_bits))) * 2**n_bits) if n_bits else 1.0


def summary(comparison: Comparison) -> list[str]:
    """What the numbers say, a sentence each."""
    lengths = f"{listed(comparison.lengths)} {'bit' if comparison.lengths == [1] else 'bits'}"
    searched = f"{plural(comparison.n_queries, 'query')} × {plural(comparison.n_items, 'item')}"
    sentences = [f"{plural(len(comparison.hashers), 'hasher')} at {lengths}; {searched}."]
    undefined = comparison.entries[0].trial.evaluation["AP"].undefined
    if undefined:
        sentences.append(
            f"{plural(undefined, 'query')} of these {'has' if undefined == 1 else 'have'} nothing relevant to find: "
            "mAP counts 0 for them, and the curves of precision and recall leave them out."
        )
    best = comparison.top("mAP")
    if best is not None:
        exact = comparison.exact_score
        without = "" if math.isnan(exact) else f" The features themselves, {comparison.exact_name}: {number(exact)}."
        interval = f"95\u202f% interval over queries {number(best['low'])} to {number(best['high'])}"
        sentences.append(f"Highest mAP: {_named(best)}, {number(best['mAP'])} ({interval}).{without}")
    tied = comparison.top("ties")
    if tied is not None and tied["ties"] > 0:
        sentences.append(
            f"At {_bits(tied)} ties alone could move the mAP of {tied.hasher} from {number(tied['worst'])} "
            f"to {number(tied['best'])}: the same codes, tied items in another order."
        )
    sentences += _leaders(comparison)
    crowded = comparison.top("possible_utilisation", choose=min)
    if crowded is not None:
        used = crowded.trial.usage
        even = random_codes(used.items, used.n_bits)
        only = "only " if used.distinct < even / 2 else ""
        sentences.append(
            f"{_named(crowded)} puts {plural(used.items, 'item')} on {only}{used.distinct:,} of "
            f"{all_codes(used.n_bits)} codes, where evenly random bits would take about {even:,.0f}."
        )
    return sentences


def _leaders(comparison: Comparison) -> list[str]:
    """Who leads at the shortest length by mAP, and who by mLGAP@2."""
    shortest = comparison.of_length(comparison.lengths[0])
    accurate, spread = comparison.top("mAP", shortest), comparison.top("LGAP@2", shortest)
    if accurate is None or spread is None or len(shortest) < 2:
        return []
    if accurate is spread:
        return [f"At {_bits(accurate)} {accurate.hasher} leads both by mAP and by mLGAP@2."]
    leads = f"{accurate.hasher} leads by mAP ({number(accurate['mAP'])})"
    other = f"{spread.hasher} by mLGAP@2 ({number(spread['LGAP@2'])})"
    uses = f"{accurate.hasher} uses {percent(accurate['possible_utilisation'])} of the codes it could"
    return [
        f"At {_bits(accurate)} {leads} but {other}: {uses}, {spread.hasher} {percent(spread['possible_utilisation'])}."
    ]


def _bits(entry: Entry) -> str:
    return plural(entry.bits, "bit")


def _named(entry: Entry) -> str:
    return f"{entry.hasher} at {_bits(entry)}"
