"""Orders in which scripts leave tied items, and what each order gives: found by counting, without a sort.

One sort is left: that of numpy's own `argsort`, whose order of ties nothing else knows.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.kernels import kernels
from lookalike.core.progress import track
from lookalike.evaluation.request import Request

ORDERS = {  # how tied items stand
    "stored": "as the gallery is stored: a stable sort",
    "numpy": "as numpy's argsort leaves them by default, of distances in single precision",
    "names": "by their ids as text, the last first, as trec_eval has it",
    "relevant first": "relevant items first",
    "relevant last": "relevant items last",
}
SHARED = ("stored", "names")  # orders of the gallery; the others depend on the query
OWN = ("numpy", "relevant first", "relevant last")
BLOCK = 8  # queries that are counted together
MOST_PLACES = 1 << 24  # places of orders that are in memory at a time

__all__ = ["ORDERS", "OrderSums", "sums_by_order"]


@dataclass(frozen=True)
class OrderSums:
    """What orders of the ties give: sums of precision and relevant items of each (query, order, cut).

    names: of the orders; those of shuffled galleries are "shuffled". lengths: how many items each query ranks.
    """

    names: list[str]
    sums: np.ndarray
    hits: np.ndarray
    lengths: np.ndarray

    def of(self, name: str) -> np.ndarray:
        """The positions of the orders of a name."""
        return np.array([place for place, own in enumerate(self.names) if own == name], np.int64)


def sums_by_order(
    request: Request, cutoffs: Sequence[int], shuffles: int, random_state: int, threads: int
) -> OrderSums:
    """Sums of precision of every query in every order, with these cuts: all ranks, all but the last, one, cutoffs.

    shuffles: how many galleries to shuffle, each the same for all queries, as a script meets it.
    """
    queries = np.arange(len(request.query_ids))
    blocks = [queries[start : start + BLOCK] for start in range(0, len(queries), BLOCK)]
    parts, names = [], []
    for number, orders in enumerate(_shared_orders(request, shuffles, random_state)):
        first = number == 0
        counter = _Counter(request, orders, np.array(cutoffs, np.int64), own=first)
        names += [*SHARED, *OWN] if first else ["shuffled"] * len(orders)
        with ThreadPoolExecutor(threads) as pool:
            what = "counting orders" if first else f"counting shuffled galleries: from {len(names) - 4 - len(orders)}"
            parts.append(list(track(pool.map(counter, blocks), len(blocks), what)))
    sums, hits = (
        np.concatenate([np.concatenate([block[place] for block in part]) for part in parts], axis=1) for place in (0, 1)
    )
    return OrderSums(names, sums, hits, np.concatenate([block[2] for block in parts[0]]))


def without_exclusion(request: Request) -> Request:
    """The same request in which every item ranks."""
    return replace(request, excluded=None)


def _shared_orders(request: Request, shuffles: int, random_state: int) -> Iterator[np.ndarray]:
    """Orders of the gallery, (n_orders, n_items): first those of `SHARED`, then shuffled ones, some at a time."""
    gallery_ids = request.gallery_ids
    assert gallery_ids is not None
    n_items = len(gallery_ids)  # type: ignore[arg-type]  # a gallery in memory has an array or a range
    names = np.array([str(name) for name in np.asarray(gallery_ids).tolist()])
    yield np.stack([np.arange(n_items), np.argsort(names, kind="stable")[::-1]]).astype(np.int32)
    rng = np.random.default_rng(random_state)
    step = max(1, MOST_PLACES // max(n_items, 1))
    for start in range(0, shuffles, step):
        yield np.stack([rng.permutation(n_items) for _ in range(min(step, shuffles - start))]).astype(np.int32)


@dataclass(frozen=True)
class _Counter:
    """Counts blocks of queries in orders of the gallery, and in the orders of `OWN` if asked."""

    request: Request
    orders: np.ndarray
    cutoffs: np.ndarray
    own: bool

    def __call__(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        keys, before, lengths = self._groups(queries)
        cuts = np.column_stack([lengths, np.maximum(lengths - 1, 0), np.ones_like(lengths)])
        cuts = np.column_stack([cuts, np.broadcast_to(self.cutoffs, (len(queries), len(self.cutoffs)))])
        sums, hits = self._filled(keys, self.orders, before, cuts)
        if self.own:
            parts = [
                self._filled(keys[q : q + 1], self._own(keys[q], lengths[q]), before[q : q + 1], cuts[q : q + 1])
                for q in range(len(queries))
            ]
            sums, hits = (
                np.concatenate([shared, np.concatenate([part[place] for part in parts])], axis=1)
                for place, shared in enumerate((sums, hits))
            )
        return sums, hits, lengths

    def _groups(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Keys of all items, items ahead of each group, and how many items rank, as `order_sums` takes them.

        Items that do not rank are in a group of their own, behind all others.
        """
        request = self.request
        assert isinstance(request.queries, Codes)
        assert isinstance(request.gallery, Codes)
        words, n_groups = request.gallery.words, request.queries.n_bits + 2
        block = slice(int(queries[0]), int(queries[-1]) + 1)
        relevant = request.relevance.block(block, slice(0, len(words))) > 0
        distances = np.empty((len(queries), len(words)), np.uint16)
        for row, query in enumerate(queries):
            distances[row] = np.bitwise_count(words ^ request.queries.words[query]).sum(1)
            if request.excluded_groups is not None:
                out = request.excluded_groups.items(int(query))
                distances[row, out], relevant[row, out] = n_groups - 1, False
        counts = np.zeros((len(queries), 2, n_groups), np.int64)
        for row in range(len(queries)):
            counts[row, 0] = np.bincount(distances[row], minlength=n_groups)
            counts[row, 1] = np.bincount(distances[row, relevant[row]], minlength=n_groups)
        keys = np.uint16(2) * distances + relevant
        return keys, counts.cumsum(2) - counts, counts[:, 0, :-1].sum(1)

    def _filled(
        self, keys: np.ndarray, orders: np.ndarray, before: np.ndarray, cuts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        shape = (len(keys), len(orders), cuts.shape[1])
        sums, hits = np.zeros(shape), np.zeros(shape, np.int64)
        kernels(20.0 * len(keys) * orders.size).order_sums(keys, orders, np.ascontiguousarray(before), cuts, sums, hits)
        return sums, hits

    def _own(self, keys: np.ndarray, length: int) -> np.ndarray:
        """The orders of `OWN` for one query, (3, n_items); what does not rank stands last."""
        group = keys >> 1
        ranks = np.flatnonzero(group < self.request.queries.n_bits + 1)  # type: ignore[union-attr]  # codes
        out = np.flatnonzero(group == self.request.queries.n_bits + 1)  # type: ignore[union-attr]
        assert len(ranks) == length
        by_numpy = ranks[np.argsort(group[ranks].astype(np.float32))]
        relevant = (keys & 1).astype(bool)
        hits, others = np.flatnonzero(relevant), np.flatnonzero(~relevant)
        return np.stack([np.r_[by_numpy, out], np.r_[hits, others], np.r_[others, hits]]).astype(np.int32)
