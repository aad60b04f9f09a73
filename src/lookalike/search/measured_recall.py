"""The recall of an approximate index: how it is measured, and the least effort that reaches a target."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lookalike.core.errors import InputError, Option

SAMPLE = 1000  # queries to choose the effort by, and as many others to measure the recall with
TIMED = 200  # of them, for the time of exact search

__all__ = ["ApproximateSearch", "Measured", "recall", "tune"]


@dataclass(frozen=True)
class Measured:
    """The measured recall and speed of an approximate index, on other queries than its effort was chosen by.

    recall: the share of the k nearest that the index finds; an item that is as near as the k-th counts.
    speedup: the time of exact search over its own, measured side by side when it was built. It is not saved, so that a
    file depends on nothing but what was indexed; a loaded index has None.
    """

    recall: float
    k: int
    n_queries: int
    speedup: float | None = None
    target: float = 0.99  # what was asked for
    seed: int = 0

    def facts(self) -> dict[str, Any]:
        """What is saved: everything but the time."""
        return {name: value for name, value in asdict(self).items() if name != "speedup"}

    def is_sound(self) -> bool:
        """Whether these can be the values of a measurement; a file may hold anything."""
        whole = all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in (self.k, self.n_queries))
        return whole and 0 <= self.recall <= 1 and 0 < self.target <= 1 and isinstance(self.seed, int)


@dataclass(frozen=True)
class ApproximateSearch:
    """An approximate index whose effort is to be chosen.

    search: (queries, k) -> items and distances, (n, k) each. set_effort: sets how much the search looks at.
    most: the largest effort that is tried.
    """

    space: Any
    kind: str
    most: int
    workers: int
    search: Callable[[Any, int], tuple[np.ndarray, np.ndarray]]
    set_effort: Callable[[int], None]

    def exact(self, queries: Any, k: int) -> np.ndarray:
        """The true distances of the k nearest."""
        return np.asarray(self.space.exact(queries, k, self.workers)[1])


def recall(distances: np.ndarray, exact: np.ndarray, sign: int = 1) -> np.ndarray:
    """The share of each query's k items that are as near as its exact k-th nearest item, or nearer.

    distances, exact: (n, k), of the items that were found and of the true nearest, nearest first.
    sign: -1 where larger is nearer.

    >>> recall(np.array([[1, 3, 3]]), np.array([[1, 2, 3]]))        # the second 3 ties with the third place
    array([1.])
    >>> recall(np.array([[1, 3, 4]]), np.array([[1, 2, 3]]))
    array([0.66666667])
    """
    return (sign * distances <= sign * exact[:, -1:]).mean(axis=1)


def tune(
    index: ApproximateSearch, sample: Any, k: int, target: float, rng: np.random.Generator
) -> tuple[int, Measured]:
    """The least effort that reaches the target for half of a sample of queries, and its recall for the other half."""
    sample = sample[rng.permutation(len(sample))[: 2 * SAMPLE]]
    choosing, measuring = sample[: len(sample) // 2], sample[len(sample) // 2 :]

    def recalls(queries: Any, truth: np.ndarray, effort: int) -> np.ndarray:
        index.set_effort(effort)
        return recall(index.search(queries, k)[1], truth, index.space.sign)

    def reaches(effort: int) -> bool:
        each = recalls(choosing, truth, effort)
        margin = 2 * each.std() / np.sqrt(len(each))  # two standard errors: it is to hold for other queries
        return bool(each.mean() - margin >= target)

    truth = index.exact(choosing, k)
    effort = _least(reaches, index.most)
    reached = float(recalls(measuring, index.exact(measuring, k), effort).mean())
    if index.kind == "hnsw" and effort == index.most and reached < target:
        raise InputError(
            f"hnsw reaches a recall of {reached:.4f} at most, the target is {target}: lower it, or take ",
            Option("kind", "ivf"),
            ", which reaches every target",
        )
    few = measuring[:TIMED]
    slow = _best_time(lambda: index.exact(few, k)) / len(few)
    fast = _best_time(lambda: index.search(measuring, k)) / len(measuring)
    return effort, Measured(reached, k, len(measuring), slow / fast)


def _least(reaches: Callable[[int], bool], most: int) -> int:
    """The least whole number up to `most` that reaches the target, taking it that more is never worse."""
    high = 1
    while high < most and not reaches(high):
        high = min(2 * high, most)
    low = high // 2  # does not reach it
    while high - low > max(1, high // 16):
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def _best_time(search: Callable[[], Any]) -> float:
    times = []
    for _ in range(3):
        started = time.perf_counter()
        search()
        times.append(time.perf_counter() - started)
    return max(min(times), 1e-9)
