"""Compiled scores of single pairs of rows, to the last bit as the product of all pairs has them."""

from numba import float32, float64, int64, njit, void
from numba.extending import intrinsic

from lookalike.core.kernels.arrays import read, write
from lookalike.core.kernels.loop import compiled


@intrinsic
def _fma(typingctx, a, b, c):
    """a * b + c, rounded once, as `product` adds."""

    def codegen(context, builder, signature, arguments):
        return builder.fma(*arguments)

    return a(a, a, a), codegen


@njit
def _add_product(query, item, total):
    return _fma(query, item, total)


@njit
def _take_square(query, item, total):
    difference = query - item
    return _fma(-difference, difference, total)


def _pair_loop(add):
    """The loop over pairs whose sums are chains of what `add` gives."""

    @njit(nogil=True)
    def loop(queries, query_scales, gallery, scales, query_rows, item_rows, out):
        # Each sum is a chain that waits for itself; four of them side by side wait less.
        depth, n = queries.shape[1], len(query_rows)
        zero = queries.dtype.type(0)
        whole = n // 4 * 4
        for p in range(0, whole, 4):
            qa, qb, qc, qd = query_rows[p], query_rows[p + 1], query_rows[p + 2], query_rows[p + 3]
            ia, ib, ic, id_ = item_rows[p], item_rows[p + 1], item_rows[p + 2], item_rows[p + 3]
            a, b, c, d = zero, zero, zero, zero
            for j in range(depth):
                a = add(queries[qa, j] * query_scales[qa], gallery[ia, j] * scales[ia], a)
                b = add(queries[qb, j] * query_scales[qb], gallery[ib, j] * scales[ib], b)
                c = add(queries[qc, j] * query_scales[qc], gallery[ic, j] * scales[ic], c)
                d = add(queries[qd, j] * query_scales[qd], gallery[id_, j] * scales[id_], d)
            out[p], out[p + 1], out[p + 2], out[p + 3] = a, b, c, d
        for p in range(whole, n):
            total, q, i = zero, query_rows[p], item_rows[p]
            for j in range(depth):
                total = add(queries[q, j] * query_scales[q], gallery[i, j] * scales[i], total)
            out[p] = total

    return loop


_product_loop, _distance_loop = _pair_loop(_add_product), _pair_loop(_take_square)


def _pair_type(t):
    rows = (read(t, 2), read(t, 1))
    return void(*rows, *rows, read(int64, 1), read(int64, 1), write(t, 1))


@compiled([_pair_type(float32), _pair_type(float64)], nogil=True, cache=True)
def pair_products(queries, query_scales, gallery, scales, query_rows, item_rows, out):
    """out[p] = query · item of each pair of rows times their scales, to the last bit as `product` has it."""
    _product_loop(queries, query_scales, gallery, scales, query_rows, item_rows, out)


@compiled([_pair_type(float64)], nogil=True, cache=True)
def pair_distances(queries, query_scales, gallery, scales, query_rows, item_rows, out):
    """out[p] = -|query - item|² of each pair of rows times their scales, to the last bit as `distances` has it."""
    _distance_loop(queries, query_scales, gallery, scales, query_rows, item_rows, out)
