"""Equations of the papers written out by hand, for orders without ties; with ties see test_metrics.py."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lookalike as la


def scores_in_order(n: int) -> np.ndarray:
    return -np.arange(n, dtype=float)[None]


def test_precision_does_not_see_the_order_that_ap_sees() -> None:
    """Ding et al. 2018, cases (2) and (3): a true and a false positive, in both orders."""
    for grades, ap in (([[1, 0]], 1.0), ([[0, 1]], 0.5)):
        result = la.evaluate_scores(scores_in_order(2), la.grades(np.array(grades)), metrics=["P@2", "AP@2"])
        assert (result["P@2"].mean, result["AP@2"].mean) == (0.5, ap)


@pytest.mark.parametrize("p", [1, 2, 3, 5, 8])
def test_map_and_ndcg_at_p_letter_by_letter(p: int) -> None:
    """AP_q@p over what is relevant in the top p, and DCG@p with gains 2^R - 1, over that of the ideal order.

    Relevance is an equal label for mAP, and the number of matching characteristics, 0 to 3, for nDCG.
    """
    query, items = np.array([[1, 2, 3]]), np.array([[1, 0, 3], [1, 2, 3], [0, 0, 0], [0, 2, 0], [1, 2, 0], [4, 4, 3]])
    R = (items == query).sum(1).tolist()  # noqa: N806  # as printed
    same = [int(label == 1) for label in items[:, 0]]
    precision = [sum(same[: r + 1]) / (r + 1) for r in range(6)]
    ap = sum(precision[r] * same[r] for r in range(min(p, 6))) / sum(same[:p])
    dcg, ideal = (
        sum((2**grade - 1) / math.log2(r + 2) for r, grade in enumerate(order[:p]))
        for order in (R, sorted(R, reverse=True))
    )
    by_label = la.evaluate_scores(scores_in_order(6), la.same_label([1], items[:, 0]), metrics=[f"AP@{p}"])
    by_characteristics = la.evaluate_scores(
        scores_in_order(6), la.matching_attributes(query, items), metrics=[f"nDCG@{p}"]
    )
    assert by_label[f"AP@{p}"].mean == pytest.approx(ap, abs=1e-14)
    assert by_characteristics[f"nDCG@{p}"].mean == pytest.approx(dcg / ideal, abs=1e-14)


def test_types_of_pairs_are_grades_of_a_hierarchy() -> None:
    """Types 1, 2 and 3 have the relevance 2, 1 and 0 for nDCG; for mAP, types 1 and 2 are relevant."""
    relevance = la.hierarchy(
        (["cat"], ["animal"]), (["dog", "cat", "car", "cat"], ["animal", "animal", "thing", "animal"])
    )
    result = la.evaluate_scores(scores_in_order(4), relevance, metrics=["AP@4", "nDCG@4"])
    assert result["AP@4"].mean == pytest.approx((1 + 1 + 3 / 4) / 3, abs=1e-14)
    dcg = 1 + 3 / math.log2(3) + 3 / math.log2(5)
    assert result["nDCG@4"].mean == pytest.approx(dcg / (3 + 3 / math.log2(3) + 1 / 2), abs=1e-14)
