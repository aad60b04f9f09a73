"""Binary preference: whether judged relevant items stand above judged irrelevant ones, whatever nobody judged."""

import numpy as np

from lookalike.metrics.rank_sums import places_before
from lookalike.metrics.values import Values, divide, row_sums

__all__ = ["binary_preference"]


def binary_preference(
    relevant: np.ndarray,
    irrelevant: np.ndarray,
    total: np.ndarray | None = None,
    total_irrelevant: np.ndarray | None = None,
) -> Values:
    """Bpref (Buckley and Voorhees 2004, as trec_eval has it): mean over the R relevant items of 1 - b / min(R, N).

    b: judged irrelevant items above it, at most R; a relevant item that is not ranked adds 0; N: irrelevant items.
    relevant, irrelevant: (n_queries, n_groups) counts of judged items; total, total_irrelevant: ranked or not.
    Among the irrelevant items tied with it, a relevant one stands behind 0, 1, … or all of them with equal chance.
    Nan where nothing is relevant.

    >>> binary_preference([[0, 1, 0]], [[1, 0, 1]], [2])                # one of two found, one wrong above: 1/2 of 1/2
    Values(expected=array([0.25]), best=array([0.25]), worst=array([0.25]))
    >>> binary_preference([[1]], [[1]])
    Values(expected=array([0.5]), best=array([1.]), worst=array([0.]))
    """
    r, b = np.asarray(relevant, float), np.asarray(irrelevant, float)
    n_relevant = (r.sum(1) if total is None else np.asarray(total, float))[:, None]
    n_irrelevant = (b.sum(1) if total_irrelevant is None else np.asarray(total_irrelevant, float))[:, None]
    above = places_before(b)
    # the sum of min(above + j, R) over j = 0 … b: j rises until R is reached, then it is R
    rising = np.clip(n_relevant - above, 0, b)
    start = np.minimum(above, n_relevant)
    mean = ((rising + 1) * (start + rising / 2) + (b - rising) * n_relevant) / (b + 1)
    first, last = start, np.minimum(above + b, n_relevant)
    fewest = np.maximum(np.minimum(n_relevant, n_irrelevant), 1)
    return Values(*(divide(row_sums(r * (1 - wrong / fewest)), n_relevant[:, 0]) for wrong in (mean, first, last)))
