"""A compiled loop over orders of a gallery: what a ranking gives that breaks ties by the order of the items."""

import numpy as np
from numba import float64, int32, int64, uint16, void

from lookalike.core.kernels.arrays import read, write
from lookalike.core.kernels.loop import compiled


@compiled(
    void(read(uint16, 2), read(int32, 2), read(int64, 3), read(int64, 2), write(float64, 3), write(int64, 3)),
    nogil=True,
    cache=True,
)
def order_sums(keys, orders, before, cuts, sums, hits):
    """Fill sums and hits (queries, orders, cuts): of the precision at each relevant item in the top of each cut.

    keys: (queries, items), twice an item's tie group, plus 1 if it is relevant. orders: (orders, items), positions of
    the items; of one group, those that come first rank first. before: (queries, 2, groups), items and relevant items
    ahead of each group. cuts: (queries, cuts), how many ranks count.
    """
    n_items, n_groups, n_cuts = keys.shape[1], before.shape[2], cuts.shape[1]
    state = np.empty(n_groups, np.int64)  # items seen up to a group's end, and relevant ones above bit 32
    parts = np.empty((n_groups, n_cuts))  # the twin in numpy adds a group at a time
    places, groups = np.empty(n_items + 1, np.int64), np.empty(n_items + 1, np.int64)
    for o in range(len(orders)):
        for q in range(len(keys)):
            for group in range(n_groups):
                state[group] = before[q, 0, group] + (before[q, 1, group] << 32)
            n = 0
            for i in orders[o]:  # without a branch: what is not relevant is written over
                key = np.int64(keys[q, i])
                group, relevant = key >> 1, key & 1
                place = state[group] + 1 + (relevant << 32)
                state[group] = place
                places[n], groups[n] = place, group
                n += relevant
            parts[:] = 0
            for j in range(n):
                rank = places[j] & 0xFFFFFFFF
                precision = (places[j] >> 32) / rank
                for c in range(n_cuts):
                    if rank <= cuts[q, c]:
                        parts[groups[j], c] += precision
                        hits[q, o, c] += 1
            for c in range(n_cuts):
                total = 0.0
                for group in range(n_groups):
                    total += parts[group, c]
                sums[q, o, c] = total
