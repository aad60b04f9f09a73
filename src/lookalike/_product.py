"""Products and distances of all pairs of rows, every one summed in the same order, wherever its rows stand.

Libraries of linear algebra compute the elements at the edge of a block by other instructions than those in its
middle, so that equal rows get scores that differ in the last bit, and a tie is lost. Here each element is one
chain of fused multiply-adds over the columns, in order: equal rows have equal scores, and a score depends on its
two rows alone, not on the number of queries, shards or threads. It is about as fast as OpenBLAS.

A squared distance is summed from differences, not made of products: far from the origin q·q - 2 q·g + g·g would be a
small difference of large numbers, of which few digits remain.
"""

from llvmlite import ir
from numba import float32, float64, int64, njit, types, void
from numba.extending import intrinsic

ROWS = 6  # query rows a step: with two vectors of gallery items, 12 sums and 3 or 4 operands fill 16 vector registers
VECTORS = 2


def _array(dtype, ndim):
    return types.Array(dtype, ndim, "C", readonly=True)


def panel_width(dtype) -> int:
    """Gallery items a step: two 32-byte vectors of them."""
    return VECTORS * 32 // dtype.itemsize


def _stepper(add):
    """A step of a kernel: out[place + r * stride + c] = Σ_d of what `add(builder, fma, q, g, sum)` adds to the sum.

    q = queries[query + r * row + d * column], g = gallery[item + d * width + c], for d up to `depth`.
    """

    @intrinsic
    def step(typingctx, queries, query, row, column, gallery, item, out, place, stride, depth):
        def codegen(context, builder, signature, arguments):
            scalar = context.get_value_type(signature.args[0].dtype)
            lanes = 32 // (signature.args[0].dtype.bitwidth // 8)
            vector, index = ir.VectorType(scalar, lanes), ir.IntType(64)
            undefined = ir.Constant(vector, ir.Undefined)
            first_lane = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            name = f"llvm.fma.v{lanes}f{256 // lanes}"
            fma = builder.module.globals.get(name)
            if fma is None:
                fma = ir.Function(builder.module, ir.FunctionType(vector, [vector] * 3), name)

            def element(array, offset):
                data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
                return builder.gep(data, [offset])

            def vector_at(pointer, offset):
                return builder.bitcast(builder.gep(pointer, [offset]), vector.as_pointer())

            left, right, result = element(0, arguments[1]), element(4, arguments[5]), element(6, arguments[7])
            entry = builder.block
            loop, done = builder.append_basic_block("loop"), builder.append_basic_block("done")
            builder.branch(loop)
            builder.position_at_end(loop)
            d = builder.phi(index)
            d.add_incoming(index(0), entry)
            sums = [builder.phi(vector) for _ in range(ROWS * VECTORS)]
            for total in sums:
                total.add_incoming(ir.Constant(vector, None), entry)
            items = []
            for v in range(VECTORS):
                offset = builder.add(builder.mul(d, index(lanes * VECTORS)), index(lanes * v))
                items.append(builder.load(vector_at(right, offset)))
                items[-1].align = 4
            totals = []
            for r in range(ROWS):
                offset = builder.add(builder.mul(d, arguments[3]), builder.mul(index(r), arguments[2]))
                value = builder.load(builder.gep(left, [offset]))
                value = builder.insert_element(undefined, value, ir.IntType(32)(0))
                value = builder.shuffle_vector(value, undefined, first_lane)
                totals += [add(builder, fma, value, items[v], sums[r * VECTORS + v]) for v in range(VECTORS)]
            following = builder.add(d, index(1))
            d.add_incoming(following, builder.block)
            for total, updated in zip(sums, totals, strict=True):
                total.add_incoming(updated, builder.block)
            builder.cbranch(builder.icmp_signed("<", following, arguments[9]), loop, done)
            builder.position_at_end(done)
            for i, total in enumerate(totals):
                offset = builder.add(builder.mul(arguments[8], index(i // VECTORS)), index(lanes * (i % VECTORS)))
                builder.store(total, vector_at(result, offset)).align = 4
            return context.get_dummy_value()

        return types.void(queries, int64, int64, int64, gallery, int64, out, int64, int64, int64), codegen

    return step


def _add_product(builder, fma, query, item, total):
    return builder.call(fma, [query, item, total])


def _take_square(builder, fma, query, item, total):
    difference = builder.fsub(query, item)
    return builder.call(fma, [builder.fneg(difference), difference, total])


_product_step, _distance_step = _stepper(_add_product), _stepper(_take_square)


@njit(
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
            place = i * ROWS * stride + j * width
            query, item = i * depth * ROWS, j * depth * width
            _product_step(flat_queries, query, 1, ROWS, flat_gallery, item, flat_out, place, stride, depth)


@njit([void(float64[:, :, ::1], float64[:, :, ::1], float64[:, ::1])], nogil=True, cache=True)
def distances(queries, gallery, out):
    """out[i, j] = -|query i - item j|², of rows packed as for `product`."""
    depth = queries.shape[1]
    width = gallery.shape[2]
    flat_queries, flat_gallery, flat_out = queries.reshape(-1), gallery.reshape(-1), out.reshape(-1)
    stride = out.shape[1]
    for j in range(len(gallery)):
        for i in range(len(queries)):
            place = i * ROWS * stride + j * width
            query, item = i * depth * ROWS, j * depth * width
            _distance_step(flat_queries, query, 1, ROWS, flat_gallery, item, flat_out, place, stride, depth)


@njit([void(float32[:, ::1], float32[:, :, ::1], float32[:, ::1])], nogil=True, cache=True)
def row_product(rows, gallery, out):
    """As `product`, of rows as they are, a multiple of ROWS: for a gallery so small that it stays in a near cache."""
    depth = rows.shape[1]
    width = gallery.shape[2]
    flat_rows, flat_gallery, flat_out = rows.reshape(-1), gallery.reshape(-1), out.reshape(-1)
    stride = out.shape[1]
    for i in range(0, len(rows), ROWS):  # these rows stay in the nearest cache while all panels pass them
        for j in range(len(gallery)):
            place = i * stride + j * width
            item = j * depth * width
            _product_step(flat_rows, i * depth, depth, 1, flat_gallery, item, flat_out, place, stride, depth)


@njit(
    [void(_array(float32, 2), _array(float32, 1), float32[:, :, ::1]),
     void(_array(float64, 2), _array(float64, 1), float64[:, :, ::1])],
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


@njit(
    [void(_array(float32, 2), float32[::1]), void(_array(float64, 2), float64[::1])],
    nogil=True,
    cache=True,
)
def squares(rows, out):
    """out[i] = row i · row i, summed as `product` does."""
    # Each sum is a chain that waits for itself; eight of them side by side do not wait.
    whole = len(rows) // 8 * 8
    zero = rows.dtype.type(0)
    for i in range(0, whole, 8):
        a, b, c, d, e, f, g, h = zero, zero, zero, zero, zero, zero, zero, zero
        for j in range(rows.shape[1]):
            a = _fma(rows[i, j], rows[i, j], a)
            b = _fma(rows[i + 1, j], rows[i + 1, j], b)
            c = _fma(rows[i + 2, j], rows[i + 2, j], c)
            d = _fma(rows[i + 3, j], rows[i + 3, j], d)
            e = _fma(rows[i + 4, j], rows[i + 4, j], e)
            f = _fma(rows[i + 5, j], rows[i + 5, j], f)
            g = _fma(rows[i + 6, j], rows[i + 6, j], g)
            h = _fma(rows[i + 7, j], rows[i + 7, j], h)
        out[i : i + 8] = (a, b, c, d, e, f, g, h)
    for i in range(whole, len(rows)):
        total = zero
        for value in rows[i]:
            total = _fma(value, value, total)
        out[i] = total
