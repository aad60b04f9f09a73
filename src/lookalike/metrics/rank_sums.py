"""Sums over consecutive ranks: of 1/rank and of DCG's discounts, exact to the last digits at any depth."""

import functools

import numpy as np

_TABLE = 64

__all__ = ["LONGEST_TABLE", "discounts", "inverse_ranks", "places_before"]


def inverse_ranks(before: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Sum of 1/rank over the n ranks that follow rank `before`.

    A difference of harmonic numbers would lose digits far down a long ranking; this form does not.

    >>> inverse_ranks(np.array([0, 1, 1000]), np.array([3, 2, 1]))      # 1 + 1/2 + 1/3, 1/2 + 1/3, 1/1001
    array([1.83333333e+00, 8.33333333e-01, 9.99000999e-04])
    """
    before, n = np.asarray(before, float), np.asarray(n, float)
    low, high = np.minimum(before, _TABLE), np.minimum(before + n, _TABLE)
    table = _harmonic_table()
    head = table[high.astype(np.int64)] - table[low.astype(np.int64)]
    start = np.maximum(before, _TABLE)
    length = np.maximum(before + n - start, 0)
    # Euler and Maclaurin around the middle of the ranks: H(x) = ln(x + 1/2) + c + 1/24/(x + 1/2)^2 - …
    x, y = start + 0.5, start + length + 0.5
    u, v = 1 / (x * x), 1 / (y * y)
    tail = np.log1p(length / x)
    tail += v * (1 / 24 + v * (-7 / 960 + v * 31 / 8064)) - u * (1 / 24 + u * (-7 / 960 + u * 31 / 8064))
    return np.asarray(head + tail)


@functools.cache
def _harmonic_table() -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(1 / np.arange(1, _TABLE + 1, dtype=np.longdouble))]).astype(float)


def places_before(retrieved: np.ndarray) -> np.ndarray:
    """Items ahead of each group, (n_queries, n_groups)."""
    return np.asarray(retrieved.cumsum(1) - retrieved)


LONGEST_TABLE = 1 << 16  # ranks whose sums of discounts are kept


def discounts(rank: np.ndarray, kind: str) -> np.ndarray:
    """Sum of the discounts of ranks 1 to `rank`: of 1/log2(rank + 1), or for "reciprocal" of 1/rank.

    >>> discounts(np.array([0, 1, 3]), "log2")                          # 0, 1, 1 + 1/log2(3) + 1/2
    array([0.        , 1.        , 2.13092975])
    """
    rank = np.asarray(rank, np.int64)
    if kind == "reciprocal":
        return inverse_ranks(np.zeros(rank.shape), rank)
    table = _log_discount_table()
    out = table[np.minimum(rank, LONGEST_TABLE)]
    deep = rank > LONGEST_TABLE
    if deep.any():
        out[deep] += _log_discount_tail(LONGEST_TABLE, rank[deep])
    return np.asarray(out)


@functools.cache
def _log_discount_table() -> np.ndarray:
    ranks = np.arange(1, LONGEST_TABLE + 1, dtype=np.longdouble)
    return np.concatenate([[0.0], np.cumsum(1 / np.log2(ranks + 1))]).astype(float)


def _log_discount_tail(start: int, rank: np.ndarray) -> np.ndarray:
    """Sum of 1/log2(r + 1) for start < r <= rank, by Euler's and Maclaurin's formula.

    The integral of 1/ln is known at nodes 4 % apart; from the last node on, four points of Gauss and Legendre are
    exact to the last digit, and ten times faster than the exponential integral.
    """

    def ends(x: np.ndarray) -> np.ndarray:  # half the last term, and f'/12; the next is below 1e-20 here
        log = np.log(x)
        return np.asarray(0.5 / log - 1 / (12 * x * log**2))

    x = rank + 1.0
    nodes, integrals = _log_integral_table()
    node = np.searchsorted(nodes, x, side="right") - 1
    half = (x - nodes[node]) / 2
    middle = nodes[node] + half
    integral = integrals[node]
    for point, weight in zip(*np.polynomial.legendre.leggauss(4), strict=True):
        integral = integral + weight * half / np.log(middle + point * half)
    first = np.array(start + 1.0)
    return np.asarray(np.log(2) * (integral - integrals[0] + ends(x) - ends(first)))


@functools.cache
def _log_integral_table() -> tuple[np.ndarray, np.ndarray]:
    """Nodes from rank 2^16 to 2^63 and the integral of 1/ln up to each."""
    from scipy.special import expi

    nodes = (LONGEST_TABLE + 1) * 2.0 ** (np.arange(47 * 16) / 16)
    return nodes, expi(np.log(nodes))
