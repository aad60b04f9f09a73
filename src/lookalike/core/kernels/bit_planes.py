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

import numpy as np
from llvmlite import ir
from numba import int64, njit, types, uint64, void
from numba.extending import intrinsic

from lookalike.core.kernels.arrays import read, write

ITEMS = 512  # of a block: the bits of a vector
LANES = 8  # 64-bit words of a vector
STEP = 16  # planes added at a time
LOW = 4  # digits of S whose parities are counted in registers: 16 counters and what makes them fill 32 registers
SLOTS = 10  # vectors kept of a block: nine digits of S, and the parity of the high ones
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
    """The sum and the carry of three digits: one ternary instruction each."""
    either = builder.xor(a, b)
    return builder.xor(either, c), builder.or_(builder.and_(a, b), builder.and_(either, c))


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
                builder.gep(pointer, [offset]) for pointer, offset in ((planes, block), (offsets, first), (digits, slot))
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


@intrinsic
def _lane_sum(typingctx, counters, start):
    """The sum of the lanes of a vector."""

    def codegen(context, builder, signature, arguments):
        vector = _load(builder, _pointer(context, builder, signature, arguments, 0), arguments[1])
        return builder.call(_declared(builder.module, "llvm.vector.reduce.add.v8i64", _INDEX), [vector])

    return int64(counters, int64), codegen
