"""He et al. 2018 as printed: eq. 13 and 16 of counts with their own infinities, and the bound of eq. 21."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import lookalike as la
from lookalike.learning import inverse_rank_error_bound, relaxed_ap_as_printed, relaxed_dcg_as_printed


def printed_ap(bins: list[tuple[float, float]]) -> mpmath.mpf:
    """Eq. 13, summed over bins of (items, relevant), letter by letter in 40 digits; bins without relevant add 0."""
    with mpmath.workdps(40):
        total, C_before, P_before = mpmath.mpf(0), mpmath.mpf(0), mpmath.mpf(0)  # noqa: N806
        n_plus = mpmath.mpf(sum(p for _, p in bins))
        for c, p in [(mpmath.mpf(c), mpmath.mpf(p)) for c, p in bins]:
            if p:
                slope = (p - 1) / (c - 1)
                total += p * (p - 1) / ((c - 1) * n_plus)
                total += (
                    p / (c * n_plus) * (P_before + 1 - slope * (C_before + 1)) * mpmath.log((C_before + c) / C_before)
                )
            C_before, P_before = C_before + c, P_before + p  # noqa: N806
        return total


def printed_dcg(bins: list[tuple[float, float]]) -> mpmath.mpf:
    """Eq. 16 of bins of (items, gain)."""
    with mpmath.workdps(40):
        total, before = mpmath.mpf(0), mpmath.mpf(0)
        for c, g in bins:
            if g:
                total += mpmath.log(2) * g / c * (mpmath.li(before + c + 1) - mpmath.li(before + 1))
            before += c
        return total


FINITE = [
    [(2, 0), (3, 2), (4, 1)],
    [(1, 0), (0, 0), (2, 2), (7, 3)],
    [(0.25, 0), (0.75, 0.5), (2.5, 1.25), (40, 0.125)],
    [(1000, 0), (500, 499)],
]


@pytest.mark.parametrize("bins", FINITE)
def test_eq_13_and_16_are_computed_letter_by_letter(bins: list[tuple[float, float]]) -> None:
    items, relevant = np.array(bins).T
    assert relaxed_ap_as_printed(items, relevant) == pytest.approx([float(printed_ap(bins))], rel=1e-12)
    assert relaxed_dcg_as_printed([items] * 2, [relevant] * 2) == pytest.approx(
        [float(printed_dcg(bins))] * 2, rel=1e-12
    )


@pytest.mark.parametrize(
    "bins", [[(2, 1)], [(5, 2), (3, 1)], [(0, 0), (3, 3), (2, 0)], [(1, 1), (4, 2)], [(1.5, 0.5), (2, 1)]]
)
def test_a_first_occupied_bin_that_holds_something_relevant_is_infinite(bins: list[tuple[float, float]]) -> None:
    items, relevant = np.array(bins).T
    assert relaxed_ap_as_printed(items, relevant).tolist() == [math.inf]
    assert relaxed_dcg_as_printed(items, relevant).tolist() == [math.inf]


def test_where_the_print_has_no_value() -> None:
    assert relaxed_ap_as_printed([0.5, 2], [0.25, 1]).tolist() == [-math.inf]  # its factor is negative below one item
    assert np.isnan(relaxed_ap_as_printed([2, 1, 3], [0, 1, 1])).all()  # one item: (1 - 1) / (1 - 1)
    assert np.isnan(relaxed_ap_as_printed([2, 3], [0, 0])).all()  # nothing relevant
    assert relaxed_dcg_as_printed([2, 3], [0, 0]).tolist() == [0]


def test_the_print_is_as_near_the_tie_aware_metric_as_its_bound_says() -> None:
    """Behind a first bin of other items: eq. 21 for each logarithm, times what it is multiplied by in eq. 13."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        items = rng.integers(2, 30, 5)
        relevant = np.array([0, *(rng.integers(0, n + 1) for n in items[1:])])
        relevant[1] = max(1, relevant[1])
        exact = la.metrics.average_precision(relevant[None], items[None]).expected.item()
        before, relevant_before = items.cumsum() - items, relevant.cumsum() - relevant
        factors = relevant_before + 1 - (relevant - 1) / (items - 1) * (before + 1)
        weights = np.abs(relevant / items * factors)[1:] / relevant.sum()
        allowed = (weights * inverse_rank_error_bound(before[1:], items[1:])).sum()
        assert abs(relaxed_ap_as_printed(items, relevant).item() - exact) <= allowed + 1e-12


def test_the_bound_holds_behind_one_item_and_more() -> None:
    for before, items in itertools.product([*range(1, 40), 1000], [*range(1, 40), 1000]):
        exact = sum((Fraction(1, before + j) for j in range(1, items + 1)), Fraction())
        away = abs(float(exact) - math.log((before + items) / before))
        bound = float(inverse_rank_error_bound(before, items))
        assert bound == pytest.approx(items / (2 * before * (before + items)), rel=1e-15)
        assert away <= bound <= items / (2 * before**2)  # the last form in print is larger
    assert inverse_rank_error_bound(7, 0) == 0  # an empty bin has an empty sum


def test_in_front_of_all_items_the_bound_bounds_nothing() -> None:
    assert inverse_rank_error_bound([0, 0, 0], [1, 2, 50]).tolist() == [math.inf] * 3
    assert inverse_rank_error_bound(0, 0) == 0


def test_bad_counts_are_named() -> None:
    for call, words in (
        (lambda: relaxed_ap_as_printed([[1, 2]], [[1, 2, 3]]), "items and relevant must both be"),
        (lambda: relaxed_ap_as_printed([2, 3], [1, 4]), "relevant must be at most items"),
        (lambda: relaxed_ap_as_printed([2, -3], [1, 0]), "0 or more and finite"),
        (lambda: relaxed_dcg_as_printed([2, 0], [1, 1]), "a bin without items has no gain"),
        (lambda: inverse_rank_error_bound(-1, 2), "before must be whole numbers from 0"),
        (lambda: inverse_rank_error_bound(1, 2.5), "items must be whole numbers from 0"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
