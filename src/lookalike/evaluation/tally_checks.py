"""What can be wrong with a tally that was read from a file."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.codes import MAX_BITS

if TYPE_CHECKING:
    from lookalike.evaluation.tally import Tally

TOO_MANY = "the sum of the tallies passes 2^63 items: it cannot be counted in 64 bits"

__all__ = ["TOO_MANY", "faults_of"]


def faults_of(tally: "Tally") -> Iterator[str]:
    """What is wrong with a tally that was read from a file, in words; what comes later relies on what came before."""
    counts, unjudged, scores = tally.counts, tally.unjudged, tally.scores
    if counts.ndim != 3 or counts.dtype != np.int64 or not counts.shape[2]:
        yield f"counts must be (queries, groups, grades) of int64, got {counts.shape} of {counts.dtype}"
    n, groups, grades = counts.shape
    if max(n, 1) * max(groups, 1) * grades > max(counts.size, 1 << 27):
        yield f"counts have the shape {counts.shape}, but nothing in them"
    for name, shape, kinds in (
        ("query_ids", (n,), "iuU"),
        ("unjudged", (n, groups), "i"),
        ("scores", (n, groups), "f"),
        ("lengths", (n,), "f"),
    ):
        array = getattr(tally, name)
        if array is not None and (array.shape != shape or array.dtype.kind not in kinds):
            yield f"{name} must be {shape}, got {array.shape} of {array.dtype}"
    for name, kind in (("method", str), ("complete", bool), ("condensed", bool), ("inputs", dict)):
        if not isinstance(getattr(tally, name), kind):
            yield f"{name} is {getattr(tally, name)!r}"
    if (counts < 0).any() or (unjudged < 0).any():
        yield "it counts fewer than 0 items"
    if ((counts.sum(2, dtype=float) + unjudged).sum(1) >= 2.0**63).any():
        yield TOO_MANY
    if tally.n_bits is None:
        if tally.similarity not in (None, "cosine", "dot", "euclidean"):
            yield f"similarity is {tally.similarity!r}"
        if tally.largest is not None or tally.ball is not None:
            yield "it keeps items on codes, but is of scores"
        if scores is None and tally.complete:
            yield "it should keep the score of every group, and has none"
        if tally.lengths is not None and not (np.isfinite(tally.lengths) & (tally.lengths >= 0)).all():
            yield "lengths must be finite numbers from 0"
    else:
        if not _is_whole(tally.n_bits, 1, MAX_BITS) or groups != tally.n_bits + 1:
            yield f"codes of {tally.n_bits!r} bits do not have {groups} distances"
        if scores is not None or tally.similarity is not None or tally.lengths is not None:
            yield "it keeps scores, but is of codes"
    if scores is not None:
        used = counts.any(2) | (unjudged > 0)
        if tally.complete and (np.isnan(scores) & used).any():
            yield "a group of items has no score"
        if (scores[:, 1:] > np.fmin.accumulate(scores, axis=1)[:, :-1]).any():
            yield "scores must fall from group to group"
    yield from _faults_on_codes(tally, counts.sum(2) + unjudged)
    unranked = tally.unranked
    if unranked is not None:
        if not _are_columns((unranked.queries, "i"), (unranked.items, "U"), (unranked.grades, "i")):
            yield "judged items that are not ranked must have a query, an id and a grade each"
        if not (_within(unranked.queries, n) and _within(unranked.grades, grades)):
            yield "a judged item that is not ranked is of a query or a grade that is not there"


def _faults_on_codes(tally: "Tally", everyone: np.ndarray) -> Iterator[str]:
    """What is wrong with the items on each code, given how many are in each group."""
    largest, ball, n_bits = tally.largest, tally.ball, tally.n_bits
    if largest is not None:
        if largest.ndim != 2 or largest.dtype.kind != "i" or not 1 <= largest.shape[1] <= everyone.shape[1]:
            yield f"largest must be (queries, distances), got {largest.shape} of {largest.dtype}"
        near = everyone[:, : largest.shape[1]]
        if largest.shape != near.shape or (largest > near).any() or ((largest > 0) != (near > 0)).any():
            yield "largest does not fit the counts"
    if ball is not None:
        assert n_bits is not None
        if not _is_whole(ball.radius, 0, n_bits):
            yield f"radius is {ball.radius!r}"
        columns = (ball.queries, "i"), (ball.distances, "i"), (ball.counts, "iu")
        if not _are_columns(*columns) or ball.words.shape != (len(ball.queries), -(-n_bits // 64)):
            yield "items on codes must have a query, a code, a distance and a count each"
        if not (_within(ball.queries, len(everyone)) and _within(ball.distances, ball.radius + 1)):
            yield "items on a code are of a query or at a distance that is not there"
        near = np.zeros((len(everyone), ball.radius + 1), np.int64)
        np.add.at(near, (ball.queries, ball.distances), ball.counts.astype(np.int64))
        if (
            ball.words.dtype != np.uint64
            or (ball.counts < 1).any()
            or not np.array_equal(near, everyone[:, : ball.radius + 1])
        ):
            yield "items on codes do not fit the counts"
        if largest is None or not np.array_equal(ball.largest(len(everyone)), largest):
            yield "largest does not fit the items on codes"


def _is_whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _are_columns(*columns: tuple[np.ndarray, str]) -> bool:
    """Whether arrays have one dimension, one length, and the kinds that stand beside them."""
    lengths = {array.shape for array, _ in columns}
    return len(lengths) == 1 and len(*lengths) == 1 and all(array.dtype.kind in kinds for array, kinds in columns)


def _within(positions: np.ndarray, n: int) -> bool:
    return bool(((positions >= 0) & (positions < n)).all())
