"""Products and distances of all pairs of rows, every one summed in the same order, wherever its rows stand.

Libraries of linear algebra compute the elements at the edge of a block by other instructions than those in its
middle, so that equal rows get scores that differ in the last bit, and a tie is lost. Here each element is one
chain of fused multiply-adds over the columns, in order: equal rows have equal scores, and a score depends on its
two rows alone, not on the number of queries, shards or threads. It is about as fast as OpenBLAS with
AVX2, and faster with AVX-512.

A squared distance is summed from differences, not made of products: far from the origin q·q - 2 q·g + g·g would be a
small difference of large numbers, of which few digits remain.
"""

from llvmlite import ir
from numba import float32, float64, int64, njit, types, void
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from lookalike.core.kernels.arrays import read
from lookalike.core.kernels.loop import compiled

# Of what numba compiles for. The number of lanes changes no score: each lane is a chain of its own.
WIDE = "+avx512f" in cpu_target.target_context.codegen().magic_tuple()[2].split(",")
BYTES = 64 if WIDE else 32  # of a vector
# Query rows a step. With two vectors of gallery items, 12 sums and 3 or 4 operands fill 16 vector registers; 24 sums
# and theirs fill 32.
ROWS = 12 if WIDE else 6
VECTORS = 2
_INDEX = ir.IntType(64)


def panel_width(dtype) -> int:
    """Gallery items a step: two vectors of them."""
    return VECTORS * BYTES // dtype.itemsize


def _stepper(add):
    """A step of a kernel: out[start + r * stride + c] = Σ_d of what `add(builder, fma, q, g, sum)` adds to the sum.

    q = queries[query + r * row + d * column], g = gallery[item + d * width + c], for d up to `depth`.
    """

    @intrinsic
    def step(typingctx, queries, query, row, column, gallery, item, out, start, stride, depth):
        def codegen(context, builder, signature, arguments):
            _, query, row, column, _, item, _, start, stride, depth = arguments

            def pointer(array, offset):
                data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
                return builder.gep(data, [offset])

            lanes = 8 * BYTES // signature.args[0].dtype.bitwidth
            vector = ir.VectorType(context.get_value_type(signature.args[0].dtype), lanes)
            left, right = (pointer(0, query), row, column), pointer(4, item)
            sums = _emit_loop(builder, vector, depth, left, right, add)
            result = pointer(6, start)
            for i, total in enumerate(sums):
                offset = builder.add(builder.mul(stride, _INDEX(i // VECTORS)), _INDEX(lanes * (i % VECTORS)))
                builder.store(total, _vector_at(builder, vector, result, offset)).align = 4
            return context.get_dummy_value()

        return types.void(queries, int64, int64, int64, gallery, int64, out, int64, int64, int64), codegen

    return step


def _emit_loop(builder, vector, depth, left, right, add):
    """Write a loop over the columns that adds to ROWS * VECTORS sums; returns the sums after it."""
    fma = _fma_function(builder.module, vector)
    before, loop, after = builder.block, builder.append_basic_block("loop"), builder.append_basic_block("done")
    builder.branch(loop)
    builder.position_at_end(loop)
    d = builder.phi(_INDEX)
    d.add_incoming(_INDEX(0), before)
    sums = [builder.phi(vector) for _ in range(ROWS * VECTORS)]
    for total in sums:
        total.add_incoming(ir.Constant(vector, None), before)
    items = _load_items(builder, vector, right, d)
    totals = []
    for r in range(ROWS):
        value = _load_query(builder, vector, left, r, d)
        totals += [add(builder, fma, value, items[v], sums[r * VECTORS + v]) for v in range(VECTORS)]
    following = builder.add(d, _INDEX(1))
    d.add_incoming(following, builder.block)
    for total, updated in zip(sums, totals, strict=True):
        total.add_incoming(updated, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)
    builder.position_at_end(after)
    return totals


def _load_items(builder, vector, right, d):
    """Write the loading of column d of a panel of gallery items: VECTORS vectors."""
    items = []
    for v in range(VECTORS):
        offset = builder.add(builder.mul(d, _INDEX(vector.count * VECTORS)), _INDEX(vector.count * v))
        items.append(builder.load(_vector_at(builder, vector, right, offset)))
        items[-1].align = 4
    return items


def _load_query(builder, vector, left, r, d):
    """Write the loading of column d of query row r into all lanes of a vector."""
    pointer, row, column = left
    offset = builder.add(builder.mul(d, column), builder.mul(_INDEX(r), row))
    value = builder.load(builder.gep(pointer, [offset]))
    undefined = ir.Constant(vector, ir.Undefined)
    first_lane = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    value = builder.insert_element(undefined, value, ir.IntType(32)(0))
    return builder.shuffle_vector(value, undefined, first_lane)


def _vector_at(builder, vector, pointer, offset):
    """A pointer to the vector that begins at an offset."""
    return builder.bitcast(builder.gep(pointer, [offset]), vector.as_pointer())


def _fma_function(module, vector):
    """LLVM's fused multiply-add of vectors, declared once in a module."""
    name = f"llvm.fma.v{vector.count}f{8 * BYTES // vector.count}"
    fma = module.globals.get(name)
    return ir.Function(module, ir.FunctionType(vector, [vector] * 3), name) if fma is None else fma


def _add_product(builder, fma, query, item, total):
    return builder.call(fma, [query, item, total])


def _take_square(builder, fma, query, item, total):
    difference = builder.fsub(query, item)
    return builder.call(fma, [builder.fneg(difference), difference, total])


_product_step, _distance_step = _stepper(_add_product), _stepper(_take_square)


@compiled(
    [
        void(float32[:, :, ::1], float32[:, :, ::1], float32[:, ::1]),
        void(float64[:, :, ::1], float64[:, :, ::1], float64[:, ::1]),
    ],
    nogil=True,
    cache=True,
)
def product(queries, gallery, out):
    """out[i, j] = query i · item j, of rows packed in panels: (panels, columns, ROWS) and (panels, columns, width)."""
    depth = queries.shape[1]
    width = gallery.shape[2]
    flat_queries, flat_gallery, flat_out = queries.reshape(-1), gallery.reshape(-1), out.reshape(-1)
    stride = out.shape[1]
    for j in range(len(gallery)):  # a panel of items stays in the nearest cache while all query panels pass it
        for i in range(len(queries)):
            start = i * ROWS * stride + j * width
            query, item = i * depth * ROWS, j * depth * width
            _product_step(flat_queries, query, 1, ROWS, flat_gallery, item, flat_out, start, stride, depth)


@compiled([void(float64[:, :, ::1], float64[:, :, ::1], float64[:, ::1])], nogil=True, cache=True)
def distances(queries, gallery, out):
    """out[i, j] = -|query i - item j|², of rows packed as for `product`."""
    depth = queries.shape[1]
    width = gallery.shape[2]
    flat_queries, flat_gallery, flat_out = queries.reshape(-1), gallery.reshape(-1), out.reshape(-1)
    stride = out.shape[1]
    for j in range(len(gallery)):
        for i in range(len(queries)):
            start = i * ROWS * stride + j * width
            query, item = i * depth * ROWS, j * depth * width
            _distance_step(flat_queries, query, 1, ROWS, flat_gallery, item, flat_out, start, stride, depth)


@compiled([void(float32[:, ::1], float32[:, :, ::1], float32[:, ::1])], nogil=True, cache=True)
def row_product(rows, gallery, out):
    """As `product`, of rows as they are, a multiple of ROWS: for a gallery so small that it stays in a near cache."""
    depth = rows.shape[1]
    width = gallery.shape[2]
    flat_rows, flat_gallery, flat_out = rows.reshape(-1), gallery.reshape(-1), out.reshape(-1)
    stride = out.shape[1]
    for i in range(0, len(rows), ROWS):  # these rows stay in the nearest cache while all panels pass them
        for j in range(len(gallery)):
            start = i * stride + j * width
            item = j * depth * width
            _product_step(flat_rows, i * depth, depth, 1, flat_gallery, item, flat_out, start, stride, depth)


@compiled(
    [void(read(float32, 2), read(float32, 1), float32[:, :, ::1]),
     void(read(float64, 2), read(float64, 1), float64[:, :, ::1])],
    nogil=True,
    cache=True,
)  # fmt: skip
def pack(rows, scales, out):
    """Put rows times their scales into panels (panels, columns, width), the last filled up with zeros."""
    width = out.shape[2]
    for p in range(len(out)):
        for j in range(width):
            if p * width + j < len(rows):
                row, scale = rows[p * width + j], scales[p * width + j]
                for d in range(out.shape[1]):
                    out[p, d, j] = row[d] * scale
            else:
                out[p, :, j] = 0


@intrinsic
def _fma(typingctx, a, b, c):
    """a * b + c, rounded once."""

    def codegen(context, builder, signature, arguments):
        return builder.fma(*arguments)

    return a(a, a, a), codegen


@compiled([void(read(t, 2), read(t, 1), read(t, 1), t[::1]) for t in (float32, float64)], nogil=True, cache=True)
def score_rows(rows, scales, query, out):
    """out[i] = query · row i times its scale, summed as `product` does: one query, and rows that are not packed."""
    # Each sum is a chain that waits for itself; eight of them side by side do not wait.
    whole = len(rows) // 8 * 8
    zero = rows.dtype.type(0)
    for i in range(0, whole, 8):
        a, b, c, d, e, f, g, h = zero, zero, zero, zero, zero, zero, zero, zero
        for j in range(rows.shape[1]):
            value = query[j]
            a = _fma(value, rows[i, j] * scales[i], a)
            b = _fma(value, rows[i + 1, j] * scales[i + 1], b)
            c = _fma(value, rows[i + 2, j] * scales[i + 2], c)
            d = _fma(value, rows[i + 3, j] * scales[i + 3], d)
            e = _fma(value, rows[i + 4, j] * scales[i + 4], e)
            f = _fma(value, rows[i + 5, j] * scales[i + 5], f)
            g = _fma(value, rows[i + 6, j] * scales[i + 6], g)
            h = _fma(value, rows[i + 7, j] * scales[i + 7], h)
        out[i], out[i + 1], out[i + 2], out[i + 3] = a, b, c, d
        out[i + 4], out[i + 5], out[i + 6], out[i + 7] = e, f, g, h
    for i in range(whole, len(rows)):
        total = zero
        for j in range(rows.shape[1]):
            total = _fma(query[j], rows[i, j] * scales[i], total)
        out[i] = total


@njit
def _add_square(value, total):
    return _fma(value, value, total)


@compiled(
    [void(read(float32, 2), read(float32, 1), float32[::1]),
     void(read(float64, 2), read(float64, 1), float64[::1])],
    nogil=True,
    cache=True,
)  # fmt: skip
def squares(rows, scales, out):
    """out[i] = row i · row i of rows times their scales, summed as `product` does."""
    # Each sum is a chain that waits for itself; eight of them side by side do not wait.
    whole = len(rows) // 8 * 8
    zero = rows.dtype.type(0)
    for i in range(0, whole, 8):
        a, b, c, d, e, f, g, h = zero, zero, zero, zero, zero, zero, zero, zero
        for j in range(rows.shape[1]):
            a = _add_square(rows[i, j] * scales[i], a)
            b = _add_square(rows[i + 1, j] * scales[i + 1], b)
            c = _add_square(rows[i + 2, j] * scales[i + 2], c)
            d = _add_square(rows[i + 3, j] * scales[i + 3], d)
            e = _add_square(rows[i + 4, j] * scales[i + 4], e)
            f = _add_square(rows[i + 5, j] * scales[i + 5], f)
            g = _add_square(rows[i + 6, j] * scales[i + 6], g)
            h = _add_square(rows[i + 7, j] * scales[i + 7], h)
        # one by one: an assignment to a slice takes numba a second longer to compile, for the words of its error
        out[i], out[i + 1], out[i + 2], out[i + 3] = a, b, c, d
        out[i + 4], out[i + 5], out[i + 6], out[i + 7] = e, f, g, h
    for i in range(whole, len(rows)):
        total = zero
        for value in rows[i]:
            total = _add_square(value * scales[i], total)
        out[i] = total
