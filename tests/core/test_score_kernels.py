"""Loops over scores in any order against the same loops over sorted scores, and against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lookalike.core.kernels import kernels
from lookalike.evaluation.count_scores import work_room

Array = NDArray[Any]
N_GRADES = 3  # 0, 1, 2; and a last column of the unjudged


def normal(rng: np.random.Generator, n: int) -> Array:
    return rng.normal(size=n)


def tied(rng: np.random.Generator, n: int) -> Array:
    return rng.integers(-3, 4, n) / 4


def one_value(rng: np.random.Generator, n: int) -> Array:
    return np.full(n, rng.normal())


def far_outliers(rng: np.random.Generator, n: int) -> Array:
    scores = rng.normal(size=n)
    scores[rng.random(n) < 0.01] *= 1e9
    return scores


def close_together(rng: np.random.Generator, n: int) -> Array:
    """Nearly all in one bucket: two heaps that are far apart, of neighbouring floats."""
    return np.where(rng.random(n) < 0.5, 1.0, -1000.0) + rng.integers(0, 50, n) * 2.0**-23


def at_the_limits(rng: np.random.Generator, n: int) -> Array:
    """Differences that are no floats, the smallest numbers there are, zeros of both signs, infinities."""
    limits = [-np.inf, -3e38, -1.0, -1e-45, -0.0, 0.0, 1e-45, 2e-45, 1.0, 3e38, np.inf]
    return rng.choice(limits, n)


def tiny(rng: np.random.Generator, n: int) -> Array:
    return rng.integers(0, 5, n) * 1e-45


KINDS = [normal, tied, one_value, far_outliers, close_together, at_the_limits, tiny]


def by_numpy(scores: Array, grades: Array, excluded: Array, background: int) -> list[tuple[float | None, list[int]]]:
    """Tie groups, the highest score first, those between two marks made one; (score or None, counts)."""
    groups: list[tuple[float | None, list[int]]] = []
    ranked = np.ones(len(scores), bool)
    ranked[excluded] = False
    for score in np.unique(scores[ranked])[::-1]:
        here = grades[ranked & (scores == score)]
        counts = np.bincount(here, minlength=N_GRADES + 1).tolist()
        if (here != background).any():
            groups.append((float(score), counts))
        elif groups and groups[-1][0] is None:
            groups[-1][1][background] += len(here)
        else:
            groups.append((None, counts))
    return groups


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_groups_of_unsorted_scores(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    n = data.draw(st.sampled_from([1, 2, 3, 17, 100, 2047, 2048, 2049, 5000]))
    with np.errstate(over="ignore"):
        scores = data.draw(st.sampled_from(KINDS))(rng, n).astype(dtype)
    background = data.draw(st.sampled_from([0, N_GRADES]))
    share = data.draw(st.sampled_from([0, 0.01, 0.2, 1]))
    others = [grade for grade in range(N_GRADES) if grade != background]
    others = others[: data.draw(st.integers(1, len(others)))]
    grades = np.where(rng.random(n) < share, rng.choice(others, n), background)
    excluded = np.flatnonzero(rng.random(n) < data.draw(st.sampled_from([0, 0.1, 1])))
    expected = by_numpy(scores, grades, excluded, background)

    grades_left = grades.copy()
    grades_left[excluded] = -1
    by_grade = [np.sort(scores[(grades_left == v) & (v != background)]) for v in range(N_GRADES)]
    marks = np.concatenate(by_grade)
    starts = np.cumsum([0, *map(len, by_grade)])
    room = work_room(len(marks), np.dtype(dtype))
    for sort in (False, True):
        group_scores, counts = np.full(n + 1, np.nan), np.zeros((N_GRADES + 1, n + 1), np.int64)
        if sort:
            gone = np.sort(scores[excluded])
            found = kernels().around(np.sort(scores), marks, starts, gone, False, background, group_scores, counts)
        else:
            gone = scores[excluded]
            found = kernels().around_few(scores, marks, starts, gone, background, *room, group_scores, counts)
        assert found == len(expected)
        assert counts[:, :found].T.tolist() == [row for _, row in expected]
        assert [None if np.isnan(x) else x for x in group_scores[:found]] == [score for score, _ in expected]
        assert not counts[:, found:].any()
    assert not room[2].any(), "the cells must be zeros for the next query"


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_standing_of_marks_among_unsorted_scores(data: st.DataObject) -> None:
    """The marks of several shards: most are scores of other items."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    make, n = data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from([1, 30, 2048, 5000]))
    with np.errstate(over="ignore"):
        scores, marks = (make(rng, size).astype(dtype) for size in (n, data.draw(st.integers(0, 600))))
    marks = np.unique(np.concatenate([marks, scores[: data.draw(st.integers(0, 20))]]))[::-1].copy()
    gone = rng.random(n) < data.draw(st.sampled_from([0, 0.3]))
    above, at = np.full(len(marks), 7), np.full(len(marks), 5)  # counts are added to what is there
    kernels().standing_few(scores, scores[gone], marks, *work_room(len(marks), np.dtype(dtype)), above, at)
    left = scores[~gone]
    assert above.tolist() == [7 + int((left > mark).sum()) for mark in marks]
    assert at.tolist() == [5 + int((left == mark).sum()) for mark in marks]


def test_an_infinite_score_above_several_marks_of_one_bucket() -> None:
    marks = np.array([1 + 2.0**-23, 1, 0], np.float32)
    scores = np.array([np.inf, 0, 1, np.inf], np.float32)
    above, at = np.zeros(3, np.int64), np.zeros(3, np.int64)
    kernels().standing_few(scores, scores[:0], marks, *work_room(3, scores.dtype), above, at)
    assert (above.tolist(), at.tolist()) == ([2, 2, 3], [0, 1, 1])
    group_scores, counts = np.full(4, np.nan), np.zeros((4, 4), np.int64)
    few = np.concatenate([scores, marks[:1]])
    found = kernels().around_few(
        few, np.sort(marks), np.array([0, 0, 3]), few[:0], 0, *work_room(3, few.dtype), group_scores, counts
    )
    assert counts[:, :found].T.tolist() == [[2, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]]


@pytest.mark.parametrize("n", [1, 4095, 131_072 + 5, 300_000])
def test_tables_of_every_size(n: int) -> None:
    """From the smallest table of buckets to the largest, and more marks than that has room for one each."""
    rng = np.random.default_rng(n)
    scores = rng.normal(size=400_000).astype(np.float32)
    marks = np.unique(rng.choice(scores, n, replace=False))[::-1].copy()
    above, at = np.zeros(len(marks), np.int64), np.zeros(len(marks), np.int64)
    kernels().standing_few(scores, scores[:0], marks, *work_room(len(marks), scores.dtype), above, at)
    rising = np.sort(scores)
    np.testing.assert_array_equal(above, len(scores) - np.searchsorted(rising, marks, "right"))
    np.testing.assert_array_equal(at, np.searchsorted(rising, marks, "right") - np.searchsorted(rising, marks, "left"))
