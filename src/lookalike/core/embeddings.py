"""Scores of embeddings: cosines, dot products and distances, the same bits however the work is divided."""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from lookalike.core.checks import choice
from lookalike.core.codes import as_numpy
from lookalike.core.directions import COST, check_finite, directions, factored, squares
from lookalike.core.errors import InputError, InputTypeError
from lookalike.core.kernels import pair_kernels, plain_product, product_kernel

SIMILARITIES = ("cosine", "dot", "euclidean")

__all__ = [
    "SIMILARITIES",
    "EmbeddingPairScores",
    "Embeddings",
    "GalleryParts",
    "Scores",
    "as_floats",
    "check_gallery",
    "check_queries",
]


class Scores:
    """A matrix of scores that the user computed; higher is better."""

    similarity = None
    query_lengths = None

    def __init__(self, matrix: Any) -> None:
        self.matrix = as_floats(matrix, "scores")
        if np.isnan(self.matrix).any():
            row, column = np.argwhere(np.isnan(self.matrix))[0]
            raise InputError(f"scores hold nan, first in row {row}, column {column}")
        self.n_queries, self.n_gallery = self.matrix.shape

    def rows(self, block: slice) -> np.ndarray:
        """Scores of a block of queries with the whole gallery, for the caller to change."""
        return self.matrix[block].copy()


class _GalleryRows:
    """A gallery, in the form that the product reads or, until that is needed, as its rows are, such as in a file.

    is_kept: the rows are kept when the compiled product has its form of them.
    """

    def __init__(
        self, rows: np.ndarray, scales: np.ndarray, *, is_kept: bool, panels: np.ndarray | None = None
    ) -> None:
        self.rows, self._scales, self.is_kept = rows, scales, is_kept
        self._panels = panels
        self._lock = threading.Lock()

    def panels(self, loops: Any) -> np.ndarray:
        """The rows in the form that these loops read, made once; numpy's and the compiled ones may read other forms."""
        with self._lock:
            width = loops.panel_width(self._scales.dtype)
            if self._panels is None or self._panels.shape[2] != width:
                self._panels = _panels(self.rows, self._scales, width)
            if not self.is_kept and loops is not plain_product:  # no other form is needed from now on
                self.rows = self.rows[:0]
            return self._panels

    def score(self, query: np.ndarray, out: np.ndarray, threads: int) -> None:
        """Fill `out`, (n,), with the products of one query, which reads every row once."""
        loop = product_kernel(COST[query.itemsize] * self.rows.size, self.rows, query).score_rows
        share = max(1 << 12, -(-len(out) // threads))
        parts = [slice(start, start + share) for start in range(0, len(out), share)]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda part: loop(self.rows[part], self._scales[part], query, out[part]), parts))


class Embeddings:
    """Scores of embeddings, computed a block of queries at a time, bit for bit the same however they are divided.

    in_place: the gallery is not copied for single queries, unless it has to be converted. threads: for one query alone.
    """

    threads = 1

    def __init__(self, queries: Any, gallery: Any, similarity: str, *, in_place: bool = False) -> None:
        choice("similarity", similarity, SIMILARITIES)
        left, right = as_floats(queries, "query embeddings"), as_floats(gallery, "gallery embeddings")
        self.similarity = similarity
        self.n_gallery, self._n_columns = right.shape
        self._dtype = _score_type(left, right, similarity)
        self._ask(left)
        self._lay_out(right, in_place and similarity != "euclidean")

    def with_queries(self, queries: Any, buffers: threading.local | None = None) -> "Embeddings":
        """The same gallery with other queries, which must not be wider floats; the gallery is not laid out again.

        buffers: where `rows` writes, for several embeddings that take turns: their scores overwrite each other's.

        >>> gallery = np.array([[3.0, 4.0], [1.0, 0.0]])
        >>> Embeddings(gallery, gallery, "dot").with_queries([[1.0, 1.0]]).rows(slice(0, 1))
        array([[7., 1.]])
        """
        left = as_floats(queries, "query embeddings")
        if np.result_type(left, self._dtype) != self._dtype:
            raise InputError(f"the gallery is laid out as {self._dtype}, queries are {left.dtype}: round them first")
        other = copy.copy(self)
        other._ask(left)
        if buffers is not None:
            other._buffers = buffers
        return other

    def with_gallery(self, gallery: "GalleryParts") -> "Embeddings":
        """The same queries with a gallery that was laid out in parts."""
        other = copy.copy(self)
        other.n_gallery = gallery.n_items
        nothing = np.empty((0, self._n_columns), self._dtype)
        other._gallery = _GalleryRows(nothing, nothing[:, 0], is_kept=False, panels=gallery.panels)
        other._factors, other._lengths = gallery.factors, gallery.lengths
        other._buffers = threading.local()
        return other

    def _ask(self, queries: np.ndarray) -> None:
        """Store these queries."""
        _check_columns(queries.shape[1], self._n_columns)
        self.n_queries = len(queries)
        # query_lengths: where scores are cosines times a number for each query, that number
        rows = np.ascontiguousarray(queries, self._dtype)
        self._queries, self._query_scales, self.query_lengths = _scaled(rows, self.similarity, "query")
        self._buffers = threading.local()

    def _lay_out(self, gallery: np.ndarray, in_place: bool) -> None:
        """Store this gallery, in the form that the compiled product reads or as it is."""
        gallery = np.ascontiguousarray(gallery, self._dtype)
        rows, scales, self._lengths = _scaled(gallery, self.similarity, "gallery")
        self._factors: np.ndarray | None = None
        if self._lengths is not None:
            self._factors, self._lengths = factored(rows, self._lengths)
        self._gallery = _GalleryRows(rows, scales, is_kept=in_place)
        if not in_place:
            self._gallery.panels(product_kernel(rows.size, rows))

    def rows(self, block: slice) -> np.ndarray:
        """Scores of a block of queries with the whole gallery, for the caller to change, until the thread's next call.

        Dot products, squared distances below zero, or cosines times `query_lengths`.
        """
        out = self._products(block)
        if self._factors is not None:
            out /= self._factors
        if self._lengths is not None:
            out /= self._lengths
        return out

    def symmetric_rows(self, block: slice) -> np.ndarray:
        """Scores of a block of queries with the whole gallery: of (a, b) the same bits as of (b, a), in float64.

        These are whole cosines, so that scores of different queries can be compared: a pair that was judged in both
        orders ties. `rows` divides by one length after the other, and rounds the two orders differently.

        >>> rows = np.random.default_rng(0).normal(size=(20, 8))
        >>> cosines = Embeddings(rows, rows, "cosine").symmetric_rows(slice(0, 20))
        >>> np.array_equal(cosines, cosines.T)
        True
        """
        out = self._products(block).astype(np.float64)
        if self.query_lengths is None or self._lengths is None:
            return out
        factors, lengths = factored(self._queries[block], self.query_lengths[block].copy())
        for of_queries, of_items in ((factors, self._factors), (lengths, self._lengths)):
            if of_queries is not None:
                out /= of_queries[:, None] if of_items is None else np.multiply.outer(of_queries, of_items, dtype=float)
            elif of_items is not None:
                out /= of_items
        return out

    def _products(self, block: slice) -> np.ndarray:
        """Products of a block of queries with the whole gallery, or squared distances below zero, not yet divided."""
        if self._gallery.is_kept and len(self._queries[block]) == 1:
            row = np.empty((1, self.n_gallery), self._queries.dtype)
            self._gallery.score((self._queries[block] * self._query_scales[block])[0], row[0], self.threads)
            return row
        steps = COST[self._queries.itemsize] * self._queries[block].size * self.n_gallery
        loops = product_kernel(steps, self._queries, self._gallery.rows)
        queries, gallery = (
            _panels(self._queries[block], self._query_scales[block], loops.ROWS),
            self._gallery.panels(loops),
        )
        shape = (len(queries) * queries.shape[2], len(gallery) * gallery.shape[2])
        # One buffer a thread, used again for the next block: fresh memory costs half as much as the product.
        size, buffer = shape[0] * shape[1], getattr(self._buffers, "out", None)
        if buffer is None or len(buffer) < size or buffer.dtype != self._queries.dtype:
            buffer = self._buffers.out = np.empty(size, self._queries.dtype)
        out = buffer[:size].reshape(shape)
        score = loops.distances if self.similarity == "euclidean" else loops.product
        score(queries, gallery, out)
        return out[: len(self._queries[block]), : self.n_gallery]


class GalleryParts:
    """A gallery that is laid out part by part, in any order and by several threads: it is never in memory twice.

    n_items: of all parts. dtype: of queries and items together.

    >>> rows = np.array([[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]])
    >>> parts = GalleryParts(3, 2, rows.dtype, "cosine")
    >>> parts.put(2, rows[2:])
    >>> parts.put(0, rows[:2])
    >>> Embeddings([[1.0, 0.0]], rows[:1], "cosine").with_gallery(parts).rows(slice(0, 1))
    array([[0.3, 0.5, 0. ]])
    """

    def __init__(self, n_items: int, n_columns: int, dtype: Any, similarity: str) -> None:
        self.n_items, self._similarity = n_items, similarity
        self._dtype = np.dtype(np.float64 if similarity == "euclidean" else dtype)
        width = product_kernel().panel_width(self._dtype)
        self.panels = np.empty((-(-n_items // width), n_columns, width), self._dtype)
        self.panels[-1:] = 0
        self._lengths, self._factors = np.empty(n_items, self._dtype), np.ones(n_items, self._dtype)

    @property
    def lengths(self) -> np.ndarray | None:
        """For cosines, the lengths of all items, or one factor of them."""
        return self._lengths if self._similarity == "cosine" else None

    @property
    def factors(self) -> np.ndarray | None:
        """For cosines, the other factor of the lengths; None if all are 1."""
        return self._factors if (self._factors != 1).any() else None

    def put(self, first: int, rows: np.ndarray) -> None:
        """Lay out the items from `first` on; raises if they cannot be compared."""
        items = slice(first, first + len(rows))
        rows, scales, lengths = _scaled(np.ascontiguousarray(rows, self._dtype), self._similarity, "gallery")
        if lengths is not None:
            factors, self._lengths[items] = factored(rows, lengths)
            if factors is not None:
                self._factors[items] = factors
        width = self.panels.shape[2]
        panel = -(-items.start // width)  # the first that is this part's alone
        start = min(panel * width, items.stop) - first
        end = max(items.stop // width * width - first, start)
        product_kernel().pack(rows[start:end], scales[start:end], self.panels[panel : panel + (end - start) // width])
        for edge in (slice(0, start), slice(end, len(rows))):  # in panels shared with the parts beside it
            places = np.arange(items.start, items.stop)[edge]
            self.panels[places // width, :, places % width] = rows[edge] * scales[edge, None]


class EmbeddingPairScores:
    """Scores of single pairs of a query and an item, to the last bit as `Embeddings` has them.

    >>> queries, gallery = np.array([[1.0, 0.0]]), np.array([[3.0, 4.0], [1.0, 0.0]])
    >>> in_ranking, whole = EmbeddingPairScores(queries, gallery, "cosine").scores(np.array([0, 0]), np.array([0, 1]))
    >>> in_ranking, whole
    (array([0.6, 1. ]), array([0.6, 1. ]))
    """

    def __init__(self, queries: Any, gallery: Any, similarity: str) -> None:
        choice("similarity", similarity, SIMILARITIES)
        left, right = as_floats(queries, "query embeddings"), as_floats(gallery, "gallery embeddings")
        _check_columns(left.shape[1], right.shape[1])
        dtype = _score_type(left, right, similarity)
        self._similarity = similarity
        rows, scales, self._query_lengths = _scaled(np.ascontiguousarray(left, dtype), similarity, "query")
        self._queries = rows, scales
        rows, scales, self._lengths = _scaled(np.ascontiguousarray(right, dtype), similarity, "gallery")
        self._gallery = rows, scales
        self._factors: np.ndarray | None = None
        if self._lengths is not None:
            self._factors, self._lengths = factored(rows, self._lengths)

    def scores(self, queries: np.ndarray, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores of pairs of positions as `rows` gives them, over `query_lengths`, and as `symmetric_rows` has them."""
        products = np.empty(len(queries), self._queries[0].dtype)
        kernel = pair_kernels()
        score = kernel.pair_distances if self._similarity == "euclidean" else kernel.pair_products
        rows = (np.ascontiguousarray(positions, np.int64) for positions in (queries, items))
        score(*self._queries, *self._gallery, *rows, products)
        whole = products.astype(np.float64)
        if self._query_lengths is None or self._lengths is None:
            return whole, whole.copy()
        in_ranking = products if self._factors is None else products / self._factors[items]
        in_ranking = (in_ranking / self._lengths[items]).astype(np.float64)
        factors, lengths = factored(self._queries[0], self._query_lengths.copy())
        for of_queries, of_items in ((factors, self._factors), (lengths, self._lengths)):
            if of_queries is not None:
                both = of_queries[queries].astype(np.float64)
                whole /= both if of_items is None else both * of_items[items]
            elif of_items is not None:
                whole /= of_items[items]
        return in_ranking / self._query_lengths[queries], whole


def check_queries(queries: np.ndarray, gallery: np.ndarray, similarity: str) -> None:
    """Raise if these query embeddings cannot be compared with a gallery of this form.

    >>> check_queries(np.zeros((1, 2)), np.ones((3, 2)), "cosine")
    Traceback (most recent call last):
    lookalike.core.errors.InputError: query embedding in row 0 is zero: it has no cosine
    """
    _check_columns(queries.shape[1], gallery.shape[1])
    _scaled(np.ascontiguousarray(queries, _score_type(queries, gallery, similarity)), similarity, "query")


def check_gallery(queries: np.ndarray, gallery: np.ndarray, similarity: str) -> None:
    """Raise if these gallery embeddings cannot be compared with queries of this form.

    >>> check_gallery(np.ones((1, 2)), np.zeros((3, 2)), "cosine")
    Traceback (most recent call last):
    lookalike.core.errors.InputError: gallery embedding in row 0 is zero: it has no cosine
    """
    _check_columns(queries.shape[1], gallery.shape[1])
    _scaled(np.ascontiguousarray(gallery, _score_type(queries, gallery, similarity)), similarity, "gallery")


def as_floats(values: Any, what: str) -> np.ndarray:
    """A matrix of float32 or float64."""
    values = as_numpy(values)
    if values.ndim != 2:
        raise InputError(f"{what} must be a matrix, got shape {values.shape}")
    if values.dtype.kind not in "biuf":
        raise InputTypeError(f"{what} must be numbers, got {values.dtype}")
    if values.dtype.kind in "iu" and values.size and max(int(values.max()), -int(values.min())) > 1 << 53:
        raise InputError(f"{what} are whole numbers beyond 2^53, which floats cannot tell apart")
    small = values.dtype.kind == "f" and values.dtype.itemsize <= 4
    return values.astype(np.float32 if small else np.float64, copy=False)


def _score_type(queries: np.ndarray, gallery: np.ndarray, similarity: str) -> np.dtype[Any]:
    """The type of float that scores are computed in."""
    # differences of float32 are exact in float64, but for those of numbers of very different size
    return np.dtype(np.float64) if similarity == "euclidean" else np.result_type(queries, gallery)


def _check_columns(queries: int, gallery: int) -> None:
    """Raise if embeddings do not have equally many columns, or none."""
    if queries != gallery:
        raise InputError(
            f"gallery embeddings have {gallery} columns, queries have {queries}: compute both with the same model"
        )
    if gallery == 0:
        raise InputError("embeddings have no column: there is nothing to compare")


def _scaled(rows: np.ndarray, similarity: str, what: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Rows to compare, a power of two to multiply each by, and for cosines their lengths after that."""
    if similarity == "cosine":
        return directions(rows, what)
    ones = np.ones(len(rows), rows.dtype)
    lengths = squares(rows, ones)
    check_finite(rows, lengths, what)
    _check_range(rows, lengths, what)
    return rows, ones, None


def _check_range(rows: np.ndarray, squares: np.ndarray, what: str) -> None:
    """Raise if a product or squared distance of two rows could overflow or underflow."""
    # |q - g|² ≤ (|q| + |g|)² ≤ 4 times the larger square
    too_large = squares > np.finfo(squares.dtype).max / 8
    if too_large.any():
        raise InputError(f"{what} embedding in row {too_large.argmax()} is too large for {squares.dtype}: scale them")
    limits = np.finfo(squares.dtype)
    for row in np.flatnonzero(squares < limits.tiny / limits.eps):
        if rows[row].any():  # products of such rows have lost their digits; rows of zeros have none to lose
            raise InputError(f"{what} embedding in row {row} is too small for {squares.dtype}: scale them")


def _panels(rows: np.ndarray, scales: np.ndarray, width: int) -> np.ndarray:
    """Scaled rows in panels of `width`, (panels, columns, width), the last filled up with zeros."""
    out = np.empty((-(-len(rows) // width), rows.shape[1], width), rows.dtype)
    product_kernel(rows.size).pack(rows, scales, out)
    return out
