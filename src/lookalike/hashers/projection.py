"""Projecting items block by block: no second copy of the data, and the same numbers however it is divided."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from lookalike.core.errors import InputError
from lookalike.core.kernels import product_kernel
from lookalike.core.threads import n_threads

BLOCK = 1536  # rows that are learned from at a time
NEAR = 3072 * 128  # numbers of a block that is projected: it stays in a near cache

__all__ = ["BLOCK", "centred_blocks", "project_blocks", "sample_rows"]


def centred_blocks(
    X: np.ndarray, mean: np.ndarray, dtype: Any = np.float32, rows: np.ndarray | None = None
) -> Iterator[np.ndarray]:
    """Blocks of items (of these rows) less the mean, subtracted in the mean's precision, then rounded to `dtype`."""
    for start in range(0, len(X) if rows is None else len(rows), BLOCK):
        block = X[start : start + BLOCK] if rows is None else X[rows[start : start + BLOCK]]
        yield (block.astype(mean.dtype, copy=False) - mean).astype(dtype, copy=False)


def sample_rows(n: int, most: int, random: np.random.RandomState) -> np.ndarray:
    """At most so many of n rows, drawn without replacement, in order."""
    return np.arange(n) if n <= most else np.sort(random.choice(n, most, replace=False))


def project_blocks(
    X: np.ndarray,
    mean: np.ndarray,
    directions: np.ndarray,
    use: Callable[[slice, np.ndarray, np.ndarray], None],
) -> None:
    """Give every block to `use(rows, projected, centred)`, in several threads; both arrays live until it returns.

    directions: (n_features, n_bits). Items are centred in float64 if they or the mean are wider than float32, then
    rounded to float32. A projection is one chain of sums over the features, the same for an item wherever it stands.
    Raises if items or projections are not finite.
    """
    kernel = product_kernel()
    targets = np.ascontiguousarray(directions.T, np.float32)
    width = kernel.panel_width(targets.dtype)
    panels = np.empty((-(-len(targets) // width), X.shape[1], width), np.float32)
    kernel.pack(targets, np.ones(len(targets), np.float32), panels)

    precision = np.float32 if np.can_cast(X.dtype, np.float32) and mean.dtype == np.float32 else np.float64
    size = max(96, min(3072, NEAR // X.shape[1])) // kernel.ROWS * kernel.ROWS

    def project(first: int, last: int) -> None:
        # one pair of buffers for all blocks of a thread: fresh memory costs as much as the product
        centred = np.zeros((size, X.shape[1]), np.float32)
        out = np.empty((size, len(panels) * width), np.float32)
        for start in range(first, last, size):
            block = X[start : min(start + size, last)]
            n = len(block)
            padded = -(-n // kernel.ROWS) * kernel.ROWS
            with np.errstate(over="ignore", invalid="ignore"):
                np.subtract(block.astype(precision, copy=False), mean, out=centred[:n], casting="same_kind")
                kernel.row_product(centred[:padded], panels, out[:padded])
                if not (np.isfinite(out[:n].max()) and np.isfinite(out[:n].min())):  # the quickest way to see one
                    _check_finite(block, out[:n])
            use(slice(start, start + n), out[:n, : len(targets)], centred[:n])

    share = max(1, -(-len(X) // (n_threads(None) * size))) * size
    starts = range(0, len(X), share)
    if len(starts) == 1:
        project(0, len(X))
        return
    with ThreadPoolExecutor(len(starts)) as pool:
        list(pool.map(lambda start: project(start, min(start + share, len(X))), starts))


def _check_finite(block: np.ndarray, projected: np.ndarray) -> None:
    if np.isnan(block).any():
        raise InputError("Input X contains NaN: a hasher has no bit for it; fill or drop such items")
    if not np.isfinite(projected).all():
        raise InputError("Input X contains infinity or a value too large for float32: scale items as in training")
