"""Products and distances of all pairs of rows, every one summed in the same order, wherever its rows stand.

Libraries of linear algebra compute the elements at the edge of a block by other instructions than those in its
middle, so that equal rows get scores that differ in the last bit, and a tie is lost. Here each element is one
chain of fused multiply-adds over the columns, in order: equal rows have equal scores, and a score depends on its
two rows alone, not on the number of queries, shards or threads. It is about as fast as OpenBLAS.

A squared distance is summed from differences, not made of products: far from the origin q·q - 2 q·g + g·g would be a
small difference of large numbers, of which few digits remain.
"""

import numpy as np
from llvmlite import ir
from numba import float32, float64, int32, int64, njit, types, void
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


@njit
def _add_square(value, total):
    return _fma(value, value, total)


@njit(
    [void(_array(float32, 2), _array(float32, 1), float32[::1]),
     void(_array(float64, 2), _array(float64, 1), float64[::1])],
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
        out[i : i + 8] = (a, b, c, d, e, f, g, h)
    for i in range(whole, len(rows)):
        total = zero
        for value in rows[i]:
            total = _add_square(value * scales[i], total)
        out[i] = total


# Rows that point the same way


@intrinsic
def _trailing_zeros(typingctx, number):
    """How many times two divides a whole number, which is not 0."""

    def codegen(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return int64(int64), codegen


@njit
def _parts(bits, digits):
    """A float that is not 0, by its bits, as whole number · 2^power; digits: binary ones after the first."""
    power, number = bits >> digits, bits & ((1 << digits) - 1)
    return (number, 1) if power == 0 else (number | (1 << digits), power)  # below the least power the first digit is 0


@njit(
    [void(_array(int32, 2), int64, int32[::1], int64[::1]), void(_array(int64, 2), int64, int64[::1], int64[::1])],
    nogil=True,
    cache=True,
)
def divisors(bits, digits, largest, out):
    """Of each row, by its bits: the largest size, as bits too, and the largest odd number that divides all numbers."""
    unsigned = bits.dtype.type((1 << (bits.itemsize * 8 - 1)) - 1)
    for i in range(len(bits)):
        top = bits.dtype.type(0)
        for j in range(bits.shape[1]):
            top = max(top, bits[i, j] & unsigned)
        largest[i] = top
        common = 0
        for j in range(bits.shape[1]):
            size = int64(bits[i, j] & unsigned)
            if size:
                number = _parts(size, digits)[0]
                while number:  # Euclid; twos do not matter
                    common, number = number, common % number
                if common & (common - 1) == 0:  # in most rows after two or three numbers
                    break
        out[i] = common >> _trailing_zeros(common) if common else 1


@njit(
    [void(float32[:, ::1], _array(float32, 1), _array(float32, 1)),
     void(float64[:, ::1], _array(float64, 1), _array(float64, 1))],
    nogil=True,
    cache=True,
)  # fmt: skip
def divide(rows, by, scales):
    """Divide rows by these numbers and multiply them by powers of two, in place."""
    for i in range(len(rows)):
        if by[i] != 1 or scales[i] != 1:
            for j in range(rows.shape[1]):
                rows[i, j] = rows[i, j] / by[i] * scales[i]


@njit
def _whole_square(row, digits, limit):
    """The squared length of a row, by its bits, in units of its last binary digit; 0 where it reaches the limit."""
    unsigned = (1 << (row.itemsize * 8 - 1)) - 1
    lowest = 1 << 62
    for value in row:
        size = int64(value) & unsigned
        if size:
            number, power = _parts(size, digits)
            zeros = _trailing_zeros(number)
            if (number >> zeros) >= 1 << 16:
                return 0  # real embeddings: at the first number
            lowest = min(lowest, power + zeros)
    total = 0
    for value in row:
        size = int64(value) & unsigned
        if size:
            number, power = _parts(size, digits)
            zeros = _trailing_zeros(number)
            if power + zeros - lowest >= 16:
                return 0
            total += ((number >> zeros) << (power + zeros - lowest)) ** 2
            if total >= limit:
                return 0
    return total


PRIMES = np.array([n for n in range(3, 1626, 2) if all(n % d for d in range(3, 41, 2) if d < n)])
LARGEST = 1 << 32  # at most two primes of a number up to this are not among these


@njit(
    [void(_array(int32, 2), int64, int64, int64[::1], int64[::1]),
     void(_array(int64, 2), int64, int64, int64[::1], int64[::1])],
    nogil=True,
    cache=True,
)  # fmt: skip
def square_factors(bits, digits, limit, factors, rest):
    """Of each row that is a power of two times whole numbers: t and r, for which t²·r is the squared length of these.

    t is odd, and r has no odd square in it. They are 1 and 0 where t²·r would reach the limit, at most LARGEST.
    """
    for i in range(len(bits)):
        square = _whole_square(bits[i], digits, limit)
        factor = 1
        odd = square >> _trailing_zeros(square) if square else 1
        for prime in PRIMES:
            if prime * prime * prime > odd:
                break
            while odd % (prime * prime) == 0:
                odd //= prime * prime
                factor *= prime
            if odd % prime == 0:
                odd //= prime
        root = int(np.sqrt(odd) + 0.5)
        if root * root == odd:
            factor *= root
        factors[i], rest[i] = factor, square // (factor * factor)
