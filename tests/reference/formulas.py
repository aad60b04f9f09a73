"""The same metrics in exact arithmetic on group sizes, for groups too large to enumerate.

A group is a pair (n, n_rel): its items, and how many of them are relevant. Every formula here is checked against
`definitions` on small groups, and the library against both. Independence is worth more than speed: binomials and sums
over every possible h, no harmonic tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from .definitions import Bounds, discount_of, gain_of

Sizes = Sequence[tuple[int, int]]


def cut(groups: Sizes, k: int | None) -> Iterator[tuple[int, int, int, int, int]]:
    """(items before, relevant before, n, n_rel, places m that count) of each group that begins above the cutoff.

    >>> list(cut([(1, 1), (3, 2), (4, 0)], 2))
    [(0, 0, 1, 1, 1), (1, 1, 3, 2, 1)]
    """
    before = relevant_before = 0
    for n, n_rel in groups:
        places = n if k is None else min(n, k - before)
        if places > 0:
            yield before, relevant_before, n, n_rel, places
        before += n
        relevant_before += n_rel


def possible_hits(n: int, n_rel: int, m: int) -> range:
    """How many relevant items can be among m of the n places.

    >>> list(possible_hits(5, 3, 4))
    [2, 3]
    """
    return range(max(0, m - (n - n_rel)), min(m, n_rel) + 1)


def chance_of_hits(h: int, n: int, n_rel: int, m: int) -> Fraction:
    """Hypergeometric: h of the n_rel relevant items are among m of the n places.

    >>> chance_of_hits(1, 4, 2, 2)
    Fraction(2, 3)
    """
    return Fraction(math.comb(n_rel, h) * math.comb(n - n_rel, m - h), math.comb(n, m))


def average_precision(groups: Sizes, *, k: int | None = None, norm: str = "retrieved") -> Bounds | None:
    """AP@k: hypergeometric over h in the cutoff's group for the mean, the extreme over every h for best and worst.

    Given h relevant items in m places, place j holds one with chance h/m, and then (j-1)(h-1)/(m-1) more are expected
    above it in the group (He et al. 2018, supplement eq. 1-3).

    >>> float(average_precision([(10, 5)]).expected)
    0.6071649029982363
    """
    total = sum(n_rel for _, n_rel in groups)
    if total == 0:
        return None

    def denominator(found: int) -> int:
        return {"retrieved": found, "total": total, "min": total if k is None else min(k, total)}[norm]

    mean_sum, best_sum, worst_sum = Fraction(), Fraction(), Fraction()
    outcome = Bounds(Fraction(), Fraction(), Fraction())
    for before, relevant_before, n, n_rel, m in cut(groups, k):
        inverse_ranks = sum((Fraction(1, before + j) for j in range(1, m + 1)), Fraction())
        # Sum over places j of (j - 1) / (before + j), in terms of the sum of inverse ranks.
        weighted = m - (before + 1) * inverse_ranks
        firsts, lasts, last_inverse_ranks = [Fraction()], [Fraction()], Fraction()
        for h in range(1, max(possible_hits(n, n_rel, m)) + 1):
            firsts.append(firsts[-1] + Fraction(relevant_before + h, before + h))
            # The i-th of the last h places is rank t = before + m - h + i: (relevant_before + i) / t, summed over i.
            last_inverse_ranks += Fraction(1, before + m - h + 1)
            lasts.append(h + (relevant_before + h - before - m) * last_inverse_ranks)
        means, bests, worsts = [], [], []
        for h in possible_hits(n, n_rel, m):
            slope = Fraction(h - 1, m - 1) if m > 1 else Fraction()
            part = Fraction(h, m) * ((relevant_before + 1) * inverse_ranks + slope * weighted)
            d = denominator(relevant_before + h)
            means.append(chance_of_hits(h, n, n_rel, m) * ((mean_sum + part) / d if d else 0))
            bests.append((best_sum + firsts[h]) / d if d else Fraction())
            worsts.append((worst_sum + lasts[h]) / d if d else Fraction())
        outcome = Bounds(sum(means, Fraction()), max(bests), min(worsts))
        if m == n:  # h was n_rel, and nothing else
            mean_sum, best_sum, worst_sum = mean_sum + part, best_sum + firsts[n_rel], worst_sum + lasts[n_rel]
    return outcome


def relevant_in_top(groups: Sizes, *, k: int) -> Bounds:
    """Relevant items in the top k: the mean share of the places, as many as fit, as few as can be avoided.

    >>> relevant_in_top([(4, 2)], k=3)
    Bounds(expected=Fraction(3, 2), best=Fraction(2, 1), worst=Fraction(1, 1))
    """
    expected, best, worst = Fraction(), Fraction(), Fraction()
    for _, _, n, n_rel, m in cut(groups, k):
        expected += Fraction(m * n_rel, n)
        best += min(m, n_rel)
        worst += max(0, m - n + n_rel)
    return Bounds(expected, best, worst)


def hit(groups: Sizes, *, k: int | None = None) -> Bounds:
    """1 - C(n - n_rel, m) / C(n, m) in the first group with a relevant item.

    >>> hit([(4, 1)], k=1).expected
    Fraction(1, 4)
    """
    for _, _, n, n_rel, m in cut(groups, k):
        if n_rel:
            missed = Fraction(math.comb(n - n_rel, m), math.comb(n, m))
            return Bounds(1 - missed, Fraction(1), Fraction(int(m > n - n_rel)))
    return Bounds(Fraction(), Fraction(), Fraction())


def reciprocal_rank(groups: Sizes, *, k: int | None = None) -> Bounds | None:
    """The first relevant item of a group is at its place s with chance C(n - s, n_rel - 1) / C(n, n_rel).

    >>> reciprocal_rank([(2, 1)]).expected
    Fraction(3, 4)
    """
    if not any(n_rel for _, n_rel in groups):
        return None
    for before, _, n, n_rel, m in cut(groups, k):
        if n_rel:
            chances = [Fraction(math.comb(n - s, n_rel - 1), math.comb(n, n_rel)) for s in range(1, m + 1)]
            mean = sum((chance / (before + s) for s, chance in enumerate(chances, start=1)), Fraction())
            last = n - n_rel + 1
            return Bounds(mean, Fraction(1, before + 1), Fraction(1, before + last) if last <= m else Fraction())
    return Bounds(Fraction(), Fraction(), Fraction())


def auc(groups: Sizes) -> Bounds | None:
    """Pairs across groups in the right order, and half, all or none of the pairs inside a group.

    >>> auc([(2, 1)]).expected
    Fraction(1, 2)
    """
    relevant = sum(n_rel for _, n_rel in groups)
    pairs = relevant * (sum(n for n, _ in groups) - relevant)
    if pairs == 0:
        return None
    across = sum(relevant_before * (n - n_rel) for _, relevant_before, n, n_rel, _ in cut(groups, None))
    inside = sum(n_rel * (n - n_rel) for n, n_rel in groups)
    return Bounds(Fraction(2 * across + inside, 2 * pairs), Fraction(across + inside, pairs), Fraction(across, pairs))


def dcg(
    groups: Sequence[Sequence[int]], *, k: int | None = None, gain: str = "exponential", discount: str = "log2"
) -> Bounds:
    """Mean gain of each group times the discounts of its places; its gains sorted for best and worst.

    Here a group is a list of grades (He et al. 2018, supplement eq. 4).

    >>> dcg([[0, 1]], discount="reciprocal").expected
    0.75
    """
    terms: tuple[list[float], list[float], list[float]] = ([], [], [])
    before = 0
    for group in groups:
        gains = sorted((gain_of(grade, gain) for grade in group), reverse=True)
        places = len(gains) if k is None else min(len(gains), k - before)
        for place in range(places):
            weight = float(discount_of(before + place + 1, discount))
            terms[0].append(sum(gains) / len(gains) * weight)
            terms[1].append(gains[place] * weight)
            terms[2].append(gains[-1 - place] * weight)
        before += len(gains)
    return Bounds(*(math.fsum(t) for t in terms))
