"""A scan of codes that are stored as bit planes: 512 items are counted at once, and none is looked at alone.

A block is 512 items as one vector of 512 bits for each bit of the code. All items of a block have one weight w, their
number of ones. From a query with |q| ones they stand at d = |q| + w - 2 S, where S is the number of ones that both
have: a sum of the planes where the query has a one. (If it has more ones than zeros: d = |q| - w, plus twice the sum of
those where it has a zero.) Carry-save adders make of these planes the binary digits of S, each a vector of 512 bits.

How often each S occurs follows without a histogram of items. Let c_T be the number of items in which the parity of a
set T of the digits is odd: an exclusive-or and a popcount. The Walsh-Hadamard transform of N - 2 c_T, over all sets T,
is the histogram of S times their number.

Vectors are of 512 bits: this pays where the processor counts the bits of whole vectors (AVX-512 VPOPCNTDQ), and is
right everywhere.
"""

from llvmlite import ir
from numba import int32, int64, njit, types, uint32, uint64, void
from numba.extending import intrinsic

from lookalike.core.kernels.arrays import read, write
from lookalike.core.kernels.loop import compiled

ITEMS = 512  # of a block: the bits of a vector
LANES = 8  # 64-bit words of a vector
STEP = 16  # planes added at a time
LOW = 4  # digits of S whose parities are counted in registers: 16 counters and what makes them fill 32 registers
SLOTS = 10  # vectors kept of a block: nine digits of S, and the parity of the high ones
MAX_DIGITS = 9  # of S, which is at most half the bits: codes of up to 1023
GROUP, GROUP_BYTES = 16, 36 << 10  # blocks that stay in the nearest cache while many queries pass them
COUNTER_BYTES = 1 << 18  # of counters of these queries, which stay in the next
SUMS = GROUP * SLOTS * LANES  # where the transform stands among the numbers of `scratch`, after the digits
COUNTERS = SUMS + (1 << MAX_DIGITS)
_INDEX, _VECTOR = ir.IntType(64), ir.VectorType(ir.IntType(64), LANES)


def _pointer(context, builder, signature, arguments, argument):
    """The address of the first element of an array that an intrinsic was given."""
    return context.make_array(signature.args[argument])(context, builder, arguments[argument]).data


def _load(builder, pointer, offset):
    loaded = builder.load(builder.bitcast(builder.gep(pointer, [offset]), _VECTOR.as_pointer()))
    loaded.align = 8
    return loaded


def _store(builder, value, pointer, offset):
    builder.store(value, builder.bitcast(builder.gep(pointer, [offset]), _VECTOR.as_pointer())).align = 8


def _declared(module, name, result):
    """A function of LLVM that takes a vector, declared once in a module."""
    function = module.globals.get(name)
    return ir.Function(module, ir.FunctionType(result, [_VECTOR]), name) if function is None else function


def _full_add(builder, a, b, c):
    """The sum and the carry of three digits."""
    both, either = (
        builder.and_(a, b),
        builder.or_(a, b),
    )  # without a term in common, each is made of ternary instructions
    return builder.xor(builder.xor(a, b), c), builder.or_(both, builder.and_(either, c))


def _emit_loop(builder, n, initial, body):
    """Write a loop over 0, 1, … below n (at least one); `body(i, values)` returns the next values. Returns the last."""
    before, loop, after = builder.block, builder.append_basic_block("loop"), builder.append_basic_block("done")
    builder.branch(loop)
    builder.position_at_end(loop)
    i = builder.phi(_INDEX)
    i.add_incoming(_INDEX(0), before)
    values = [builder.phi(_VECTOR) for _ in initial]
    for value, first in zip(values, initial, strict=True):
        value.add_incoming(first, before)
    results = body(i, values)
    following = builder.add(i, _INDEX(1))
    i.add_incoming(following, builder.block)
    for value, result in zip(values, results, strict=True):
        value.add_incoming(result, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, n), loop, after)
    builder.position_at_end(after)
    return results


def _adder(n_digits):
    """Adds planes of a block and writes the digits of their sum, which must be below 2^n_digits."""

    @intrinsic
    def add(typingctx, planes, block, offsets, first, n_steps, digits, slot):
        """digits[slot:] = the sum of planes[block + offsets[first + i]] for i below STEP * n_steps."""

        def codegen(context, builder, signature, arguments):
            _, block, _, first, n_steps, _, slot = arguments
            planes, offsets, digits = (_pointer(context, builder, signature, arguments, i) for i in (0, 2, 5))
            planes, offsets, digits = (
                builder.gep(pointer, [offset])
                for pointer, offset in ((planes, block), (offsets, first), (digits, slot))
            )

            def body(i, sums):
                sums = list(sums)
                start = builder.mul(i, _INDEX(STEP))
                carries = [[] for _ in range(LOW + 1)]
                for j in range(0, STEP, 2):
                    pair = [
                        _load(builder, planes, builder.load(builder.gep(offsets, [builder.add(start, _INDEX(j + e))])))
                        for e in range(2)
                    ]
                    sums[0], carry = _full_add(builder, sums[0], *pair)
                    carries[1].append(carry)
                    for digit in range(1, LOW):  # two carries into a digit make one out of it
                        if len(carries[digit]) == 2:
                            sums[digit], carry = _full_add(builder, sums[digit], *carries[digit])
                            carries[digit + 1].append(carry)
                            carries[digit] = []
                (carry,) = carries[LOW]
                for digit in range(LOW, n_digits):
                    sums[digit], carry = builder.xor(sums[digit], carry), builder.and_(sums[digit], carry)
                return sums

            zero = ir.Constant(_VECTOR, None)
            for digit, value in enumerate(_emit_loop(builder, n_steps, [zero] * n_digits, body)):
                _store(builder, value, digits, _INDEX(LANES * digit))
            return context.get_dummy_value()

        return types.void(planes, int64, offsets, int64, int64, digits, int64), codegen

    return add


_add_4, _add_6, _add_9 = _adder(4), _adder(6), _adder(9)


@intrinsic
def _count_parities(typingctx, digits, first, n_blocks, flipped, counters, start):
    """Flip the parity of the high digits by digit `flipped` and count it with each set of the low digits."""

    def codegen(context, builder, signature, arguments):
        _, first, n_blocks, flipped, _, start = arguments
        digits = builder.gep(_pointer(context, builder, signature, arguments, 0), [first])
        counters = builder.gep(_pointer(context, builder, signature, arguments, 4), [start])
        popcount = _declared(builder.module, "llvm.ctpop.v8i64", _VECTOR)
        flip = builder.mul(flipped, _INDEX(LANES))

        def body(i, counts):
            block = builder.gep(digits, [builder.mul(i, _INDEX(SLOTS * LANES))])
            last = _INDEX(LANES * (SLOTS - 1))
            parity = builder.xor(_load(builder, block, last), _load(builder, block, flip))
            _store(builder, parity, block, last)
            low = [_load(builder, block, _INDEX(LANES * digit)) for digit in range(LOW)]
            counts, subset = list(counts), 0
            for number in range(1 << LOW):
                if number:  # sets in the order of the Gray code: each differs from the one before by a digit
                    digit = (number & -number).bit_length() - 1
                    subset ^= 1 << digit
                    parity = builder.xor(parity, low[digit])
                counts[subset] = builder.add(counts[subset], builder.call(popcount, [parity]))
            return counts

        initial = [_load(builder, counters, _INDEX(LANES * i)) for i in range(1 << LOW)]
        for i, count in enumerate(_emit_loop(builder, n_blocks, initial, body)):
            _store(builder, count, counters, _INDEX(LANES * i))
        return context.get_dummy_value()

    return types.void(digits, int64, int64, int64, counters, int64), codegen


def _shuffle(builder, a, b, lanes):
    """A vector of these lanes of two vectors, counted through."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))


def _in_all_lanes(builder, value):
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    return _shuffle(builder, builder.insert_element(undefined, value, ir.IntType(32)(0)), undefined, [0] * LANES)


@intrinsic
def _transform_eight(typingctx, scratch, counters, sums):
    """scratch[sums:] = the Walsh-Hadamard transform of eight counters, each the sum of the lanes of a vector."""

    def codegen(context, builder, signature, arguments):
        data = _pointer(context, builder, signature, arguments, 0)
        counters = builder.gep(data, [arguments[1]])
        vectors = [_load(builder, counters, _INDEX(LANES * i)) for i in range(LANES)]
        while len(vectors) > 1:  # two vectors become one: each of their counters then has half as many lanes
            width = len(vectors) // 2
            first, second = ([i for i in range(2 * LANES) if i // width % 2 == half] for half in (0, 1))
            vectors = [
                builder.add(_shuffle(builder, a, b, first), _shuffle(builder, a, b, second))
                for a, b in zip(vectors[::2], vectors[1::2], strict=True)
            ]
        (vector,) = vectors
        for step in (1, 2, 4):
            partner = _shuffle(builder, vector, vector, [lane ^ step for lane in range(LANES)])
            added, subtracted = builder.add(partner, vector), builder.sub(partner, vector)
            lanes = [lane + LANES if lane & step else lane for lane in range(LANES)]
            vector = _shuffle(builder, added, subtracted, lanes)
        _store(builder, vector, data, arguments[2])
        return context.get_dummy_value()

    return types.void(scratch, int64, int64), codegen


@intrinsic
def _butterfly(typingctx, scratch, a, b):
    """Replace the vectors at a and b by their sum and difference."""

    def codegen(context, builder, signature, arguments):
        data = _pointer(context, builder, signature, arguments, 0)
        a, b = (_load(builder, data, offset) for offset in arguments[1:])
        _store(builder, builder.add(a, b), data, arguments[1])
        _store(builder, builder.sub(a, b), data, arguments[2])
        return context.get_dummy_value()

    return types.void(scratch, int64, int64), codegen


@intrinsic
def _keep(typingctx, digits, slot, n_digits, start, end):
    """Clear the digits of a block's items but for items start to end, which then count as S = 0."""

    def codegen(context, builder, signature, arguments):
        _, slot, n_digits, start, end = arguments
        digits = builder.gep(_pointer(context, builder, signature, arguments, 0), [slot])
        inside = builder.and_(_ones_below(builder, end), builder.not_(_ones_below(builder, start)))

        def body(i, values):
            offset = builder.mul(i, _INDEX(LANES))
            _store(builder, builder.and_(_load(builder, digits, offset), inside), digits, offset)
            return values

        _emit_loop(builder, n_digits, [], body)
        return context.get_dummy_value()

    return types.void(digits, int64, int64, int64, int64), codegen


def _ones_below(builder, end):
    """A vector whose first `end` bits are set."""
    ends = builder.sub(
        _in_all_lanes(builder, end), ir.Constant(_VECTOR, [64 * lane for lane in range(LANES)])
    )  # in each lane
    zero, full, one = (ir.Constant(_VECTOR, [value] * LANES) for value in (0, 64, 1))
    partial = builder.sub(builder.shl(one, builder.and_(ends, ir.Constant(_VECTOR, [63] * LANES))), one)
    partial = builder.select(builder.icmp_signed(">", ends, zero), partial, zero)
    return builder.select(builder.icmp_signed(">=", ends, full), builder.not_(zero), partial)


@intrinsic
def _swap_bits(typingctx, rows, a, b, shift, mask):
    """In eight matrices of bits at once: swap the bits `shift` to `2 * shift` of row a with the first of row b."""

    def codegen(context, builder, signature, arguments):
        _, a, b, shift, mask = arguments
        rows = _pointer(context, builder, signature, arguments, 0)
        shift, mask = _in_all_lanes(builder, shift), _in_all_lanes(builder, mask)
        upper, lower = _load(builder, rows, a), _load(builder, rows, b)
        change = builder.and_(builder.xor(builder.lshr(upper, shift), lower), mask)
        _store(builder, builder.xor(upper, builder.shl(change, shift)), rows, a)
        _store(builder, builder.xor(lower, change), rows, b)
        return context.get_dummy_value()

    return types.void(rows, int64, int64, int64, uint64), codegen


def scratch_size(n_digits: int, n_levels: int, n_queries: int) -> int:
    """How many numbers the scratch of `scan_planes` needs: digits of a group of blocks, a transform, and counters."""
    n_counters = (1 + n_levels) * (LANES << n_digits)
    return COUNTERS + n_counters * max(1, min(n_queries, COUNTER_BYTES // (8 * n_counters)))


@intrinsic
def _popcount(typingctx, word):
    def codegen(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return word(word), codegen


@njit(nogil=True)
def _weight(words, item):
    total = uint64(0)
    for word in range(words.shape[1]):
        total += _popcount(words[item, word])
    return total


@compiled(void(read(uint64, 2), read(int32, 1), write(int64, 2)), nogil=True, cache=True)
def weigh(words, keys, counts):
    """Add one to counts[weight, key] for every item. An empty `keys` says that all keys are 0."""
    for i in range(len(words)):
        counts[_weight(words, i), uint32(keys[i]) if len(keys) else uint32(0)] += 1


@compiled(void(read(uint64, 2), read(int32, 1), int64, write(int64, 2), write(int32, 1)), nogil=True, cache=True)
def arrange(words, keys, first, places, order):
    """order[p] = first + i for every item i, where p is the next free place of its weight and key, kept in `places`."""
    for i in range(len(words)):
        weight, key = _weight(words, i), uint32(keys[i]) if len(keys) else uint32(0)
        order[places[weight, key]] = first + i
        places[weight, key] += 1


@compiled(
    void(read(uint64, 2), read(int32, 1), int64, int64, read(int64, 2), int64, write(uint64, 1), write(uint64, 1)),
    nogil=True,
    cache=True,
)
def slice_bits(words, order, first, last, blocks, n_bits, rows, planes):
    """Fill blocks first to last of `planes`; block b has the items order[blocks[b, 0] : blocks[b, 1]], then zeros.

    A block is n_bits planes and one of zeros. rows: room for 64 vectors.
    """
    for block in range(first, last):
        start, end = blocks[block]
        for word in range(words.shape[1]):
            for i in range(end - start, ITEMS):
                rows[i % 64 * LANES + i // 64] = 0
            for i in range(end - start):  # item 64 l + r is bit r of lane l: row r of matrix l, which is transposed
                rows[i % 64 * LANES + i // 64] = words[order[start + i], word]
            shift, mask = 32, uint64(0xFFFFFFFF)
            while shift:
                for half in range(0, 64, 2 * shift):
                    for row in range(half, half + shift):
                        _swap_bits(rows, row * LANES, (row + shift) * LANES, shift, mask)
                shift //= 2
                mask ^= mask << uint64(shift)
            n_planes = min(64, n_bits - 64 * word)
            to = (block * (n_bits + 1) + 64 * word) * LANES
            for i in range(n_planes * LANES):
                planes[to + i] = rows[i]
        for lane in range(LANES):
            planes[(block * (n_bits + 1) + n_bits) * LANES + lane] = 0


@njit(nogil=True)
def _histogram(scratch, counters, n_digits, n_items, ones, sign, weight, out, level, query):
    # Adds to out the items at each distance. With c_T = 0 of the empty set, hist = N at S = 0, less 2^(1-k) of the
    # transform of c: items that a block lacks, which have S = 0, are not in it.
    n_sums = 1 << n_digits
    for first in range(0, n_sums, LANES):
        _transform_eight(scratch, counters + first * LANES, SUMS + first)
    step = LANES
    while step < n_sums:
        for half in range(0, n_sums, 2 * step):
            for i in range(half, half + step, LANES):
                _butterfly(scratch, SUMS + i, SUMS + i + step)
        step *= 2
    n_bits = out.shape[2] - 1
    least = max(0, ones + weight - n_bits) if sign > 0 else max(0, weight - ones)
    most = min(ones, weight) if sign > 0 else min(n_bits - ones, weight)
    for s in range(least, most + 1):
        absent = n_items if s == 0 else 0
        out[level, query, uint64(ones + sign * (weight - 2 * s))] += absent - (
            scratch[uint64(SUMS + s)] >> (n_digits - 1)
        )


@njit(nogil=True)
def _count_sets(scratch, first, n_blocks, n_digits, counters):
    # Sets of the high digits in the order of the Gray code; each call counts those with all sets of the low ones.
    for number in range(1 << (n_digits - LOW)):
        flipped = SLOTS - 1  # the first time by itself, which makes the parity 0
        if number:
            flipped = LOW
            while not number >> (flipped - LOW) & 1:
                flipped += 1
        subset = number ^ (number >> 1)
        _count_parities(scratch, first, n_blocks, flipped, scratch, counters + (subset << LOW) * LANES)


@njit(nogil=True)
def _add_planes(planes, block, offsets, first, n_steps, n_digits, scratch, slot):
    if n_digits <= 4:
        _add_4(planes, block, offsets, first, n_steps, scratch, slot)
    elif n_digits <= 6:
        _add_6(planes, block, offsets, first, n_steps, scratch, slot)
    else:
        _add_9(planes, block, offsets, first, n_steps, scratch, slot)


@njit(nogil=True)
def _range(start, end, weight, places, keys, level, query):
    # The places of a segment whose items count at a level: all at level 0, then those of the query's keys.
    if level == 0:
        return start, end
    return max(start, places[weight, keys[level - 1, query, 0]]), min(end, places[weight, keys[level - 1, query, 1]])


@compiled(
    void(
        read(uint64, 1), read(int64, 2), read(int64, 1), read(int64, 2), read(int64, 2), read(int64, 3),
        write(int64, 1), write(int64, 3),
    ),
    nogil=True,
    cache=True,
)  # fmt: skip
def scan_planes(planes, segments, offsets, queries, places, keys, scratch, out):
    """Add to `out` (1 + levels, queries, n_bits + 1) how many items stand at each distance from each query.

    segments: rows (first block, number of blocks, weight) of the items of one weight. offsets: of the planes that each
    query adds, from the start of a block; queries: rows (steps, digits of the sum, ones, 1 if the planes are those of
    the ones or else -1). places: of each weight, where the items of each key start, counted in places of blocks, and
    where the last end. keys: rows (first, last) of the keys that each query has at each level. scratch: see
    `scratch_size`.
    """
    n_bits, n_levels = out.shape[2] - 1, len(keys)
    stride, per_query = (n_bits + 1) * LANES, len(offsets) // max(1, len(queries))
    most_digits = LOW
    for q in range(len(queries)):
        most_digits = max(most_digits, queries[q, 1])
    of_level = LANES << most_digits
    n_counters = (1 + n_levels) * of_level
    together = (len(scratch) - COUNTERS) // n_counters  # queries that meet a group of blocks while it is near
    n_group = max(1, min(GROUP, GROUP_BYTES // (8 * stride)))
    for segment in range(len(segments)):
        first_block, n_blocks, weight = segments[segment, 0], segments[segment, 1], segments[segment, 2]
        start, end = first_block * ITEMS, places[weight, -1]
        for first_query in range(0, len(queries), together):
            last_query = min(first_query + together, len(queries))
            scratch[COUNTERS : COUNTERS + (last_query - first_query) * n_counters] = 0
            for group in range(first_block, first_block + n_blocks, n_group):
                last_block = min(group + n_group, first_block + n_blocks)
                for q in range(first_query, last_query):
                    n_steps, n_digits = queries[q, 0], queries[q, 1]
                    counters = COUNTERS + (q - first_query) * n_counters
                    for block in range(group, last_block):
                        slot = (block - group) * SLOTS * LANES
                        _add_planes(planes, block * stride, offsets, q * per_query, n_steps, n_digits, scratch, slot)
                    for level in range(1 + n_levels):  # from coarse to fine: what a finer one clears, no other needs
                        low, high = _range(start, end, weight, places, keys, level, q)
                        low, high = max(low - group * ITEMS, 0), min(high, last_block * ITEMS) - group * ITEMS
                        if low < high:
                            first, last = low // ITEMS, (high - 1) // ITEMS
                            if level:
                                for block in range(first, last + 1, max(1, last - first)):
                                    slot = block * SLOTS * LANES
                                    _keep(scratch, slot, n_digits, low - block * ITEMS, high - block * ITEMS)
                            slot = first * SLOTS * LANES
                            _count_sets(scratch, slot, last - first + 1, n_digits, counters + level * of_level)
            for q in range(first_query, last_query):
                n_digits, ones, sign = queries[q, 1], queries[q, 2], queries[q, 3]
                for level in range(1 + n_levels):
                    low, high = _range(start, end, weight, places, keys, level, q)
                    if low < high:
                        counters = COUNTERS + (q - first_query) * n_counters + level * of_level
                        _histogram(scratch, counters, n_digits, high - low, ones, sign, weight, out, level, q)
