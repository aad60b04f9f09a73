"""Scores of pairs by one model, each computed once, however often judgements of the same pairs change."""

from collections.abc import Callable

import numpy as np

from lookalike.discovery.collection import Collection
from lookalike.discovery.rankers import Model

__all__ = ["KnownScores"]


class KnownScores:
    """What a model scores the pairs that were asked for so far: in the ranking of a query, and between queries."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._keys, self._scores = np.zeros(0, np.int64), np.zeros((0, 2))

    def of(self, queries: np.ndarray, items: np.ndarray, model: Callable[[], Model]) -> np.ndarray:
        """Both scores of pairs of positions, (pairs, 2). model: gives the model, if some are not known yet."""
        keys = self._collection.keys(queries, items)
        rows = np.searchsorted(self._keys, keys)
        known = rows < len(self._keys)
        known[known] = self._keys[rows[known]] == keys[known]
        if known.all():
            return self._scores[rows]
        new, n_items = np.sort(keys[~known]), self._collection.n_items
        new = new[np.diff(new, prepend=-1) != 0]
        scores = np.concatenate([self._scores, model().both_scores(new // n_items, new % n_items)])
        all_keys = np.concatenate([self._keys, new])
        order = np.argsort(all_keys)
        self._keys, self._scores = all_keys[order], scores[order]
        return self._scores[np.searchsorted(self._keys, keys)]
