"""Sentences about the numbers of hashers."""

import math

import numpy as np

from lookalike.report.hashers.entries import HasherComparison, HasherEntry
from lookalike.report.numbers import listed, number, percent, plural

SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

__all__ = ["all_codes", "random_codes", "summary"]


def all_codes(n_bits: int) -> str:
    """The number of possible codes, as text.

    >>> all_codes(12), all_codes(48)
    ('4,096', '2⁴⁸')
    """
    return f"{2**n_bits:,}" if n_bits <= 20 else f"2{str(n_bits).translate(SUPERSCRIPT)}"


def random_codes(items: int, n_bits: int) -> float:
    """How many distinct codes evenly random bits are expected to give."""
    if n_bits > 50:
        return float(items)
    return float(-np.expm1(items * np.log1p(-(2.0**-n_bits))) * 2**n_bits) if n_bits else 1.0


def summary(comparison: HasherComparison) -> list[str]:
    """Sentences on what was measured, the highest mAP, the effect of ties, who leads, and use of codes."""
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


def _leaders(comparison: HasherComparison) -> list[str]:
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


def _bits(entry: HasherEntry) -> str:
    return plural(entry.bits, "bit")


def _named(entry: HasherEntry) -> str:
    return f"{entry.hasher} at {_bits(entry)}"
