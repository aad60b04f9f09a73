"""The reference against itself: printed numbers, hand-made cases, and its two halves against each other.

If the reference were wrong in the library's way, every other test would pass. So the numbers here come from papers or
from a pencil, `formulas` (exact arithmetic on group sizes) has to agree with `definitions` (every order, one by one),
and scikit-learn has the last word on the two areas.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from helpers.strategies import Rankings, rankings
from reference import definitions, formulas
from reference.definitions import Bounds


def assert_close(actual: Bounds | None, expected: Bounds | None, tolerance: float = 1e-12) -> None:
    if actual is None or expected is None:
        assert actual is expected
    else:
        assert [float(x) for x in actual] == pytest.approx([float(x) for x in expected], abs=tolerance)


def sizes(groups: list[list[int]], rel: int) -> list[tuple[int, int]]:
    return [(len(group), definitions.relevant_items(group, rel)) for group in groups]


def test_ten_items_on_one_code() -> None:
    """Ding et al. 2018, figure 2: the same codes score anything from 0.3544 to 1, as the sort happens to fall."""
    groups = [[1] * 5 + [0] * 5]
    assert_close(definitions.average_precision(groups), Bounds(0.607165, 1.0, 0.354365), 5e-7)
    for norm, expected in {"retrieved": 0.673611, "total": 0.235185, "min": 0.391975}.items():
        bounds = definitions.average_precision(groups, k=3, norm=norm)
        assert bounds is not None
        assert float(bounds.expected) == pytest.approx(expected, abs=5e-7)


def test_one_more_relevant_item_can_lower_retrieved_ap() -> None:
    """(1 + 2/11) / 2 = 0.590909 with the second relevant item at rank 11, 1 without it."""
    groups = [[1], [0] * 9, [1, 0]]
    assert_close(definitions.average_precision(groups, k=11), Bounds(0.795455, 1.0, 0.590909), 5e-7)


def test_lgap_worked_example() -> None:
    """Ding et al. 2018, eq. 12-15: (1 + 4/(2*5) + 5/(2*11)) / 3."""
    near = [[1, 0, 0, 0]] * 2 + [[0, 1, 0, 0]] * 2 + [[0, 0, 1, 0]]
    far = [[1, 1, 0, 0]] * 2 + [[0, 0, 1, 1]] * 2
    gallery, grades = [[0, 0, 0, 0], *near, *far], [1, 1, 1, 1, 0, 0, 1, 0, 0, 0]
    assert float(definitions.lgap([0] * 4, gallery, grades, radius=2)) == pytest.approx(0.542424, abs=5e-7)


def test_undefined_is_none() -> None:
    nothing, everything = [[0, 0], [0]], [[1], [1, 1]]
    assert definitions.average_precision(nothing) is None
    assert definitions.recall(nothing, k=1) is None
    assert definitions.recall_in_radius(nothing, [0, 1], radius=1) is None
    assert definitions.reciprocal_rank(nothing) is None
    assert definitions.ndcg(nothing) is None
    for groups in (nothing, everything):
        assert definitions.auc(groups) is None
        assert definitions.pr_auc(groups) is None
    assert definitions.average_precision(nothing, [1]) is not None, "an unranked relevant item is a relevant item"


def test_arrangements_of_distinct_grades_are_permutations() -> None:
    assert len(list(definitions.arrangements([0, 1, 2, 3, 4]))) == math.factorial(5)
    assert len(list(definitions.arrangements([0] * 4 + [1] * 3))) == math.comb(7, 3)
    assert list(definitions.arrangements([])) == [()]


@settings(deadline=None, max_examples=40)
@given(case=rankings(max_queries=1), rel=st.sampled_from([1, 2]))
def test_formulas_agree_with_enumeration(case: Rankings, rel: int) -> None:
    groups = case.groups(0)
    pairs = sizes(groups, rel)
    total = sum(n_rel for _, n_rel in pairs)
    for k in [None, *range(1, case.n_items + 3)]:
        for norm in ("retrieved", "total", "min"):
            by_order = definitions.average_precision(groups, k=k, rel=rel, norm=norm)
            assert formulas.average_precision(pairs, k=k, norm=norm) == by_order
        assert formulas.hit(pairs, k=k) == definitions.hit(groups, k=k, rel=rel)
        assert formulas.reciprocal_rank(pairs, k=k) == definitions.reciprocal_rank(groups, k=k, rel=rel)
        for gain in ("exponential", "linear"):
            for discount in ("log2", "reciprocal"):
                by_order = definitions.dcg(groups, k=k, gain=gain, discount=discount)
                assert_close(formulas.dcg(groups, k=k, gain=gain, discount=discount), by_order)
        if k is not None:
            counted = formulas.relevant_in_top(pairs, k=k)
            assert Bounds(*(x / k for x in counted)) == definitions.precision(groups, k=k, rel=rel)
            if total:
                assert Bounds(*(x / total for x in counted)) == definitions.recall(groups, k=k, rel=rel)
    assert formulas.auc(pairs) == definitions.auc(groups, rel=rel)


@settings(deadline=None, max_examples=40)
@given(case=rankings(max_queries=1))
def test_areas_agree_with_scikit_learn(case: Rankings) -> None:
    groups, relevant = case.groups(0), case.matrix[0] >= 1
    roc, pr = definitions.auc(groups), definitions.pr_auc(groups)
    if roc is None or pr is None:
        assert roc is pr
        assert relevant.all() == relevant.any()
    else:
        assert float(roc.expected) == pytest.approx(roc_auc_score(relevant, case.scores[0]), abs=1e-12)
        assert float(pr.expected) == pytest.approx(average_precision_score(relevant, case.scores[0]), abs=1e-12)
