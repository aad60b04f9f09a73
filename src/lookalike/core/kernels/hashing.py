"""Compiled last steps of hashers: they turn a block of projections into values, in one pass instead of six."""

import numpy as np
from numba import float32, int64, njit, types, void

from lookalike.core.kernels.loop import compiled

_READ = types.Array(float32, 1, "C", readonly=True)
TURN = np.float32(1 / (2 * np.pi))
# sin(πf) / f for |f| ≤ ½ as a polynomial of f², through Chebyshev's points: to 7e-9
A, B, C, D, E = map(np.float32, (3.14159264008, -5.16771007667, 2.55007738653, -0.59829041127, 0.07765591224))


def _flat(block):
    """A block as one row of numbers, and the distance from one of its rows to the next, so that loops vectorise.

    The block may be the left part of a wider one: then other numbers stand between its rows.
    """
    stride = block.strides[0] // block.itemsize
    return np.lib.stride_tricks.as_strided(
        block, ((len(block) - 1) * stride + block.shape[1],), block.strides[1:]
    ), stride


@compiled([void(float32[::1], int64, _READ, _READ, _READ)], nogil=True, cache=True, fastmath={"contract"})
def _cosines(values, stride, scale, phase, shift):
    """Replace values of column j: cos(value * scale[j] + phase[j]) + shift[j], to 2e-7 beside the angle's rounding."""
    scale, phase = scale * TURN, phase * TURN
    for start in range(0, len(values), stride):
        row = values[start : start + len(scale)]
        for j in range(len(scale)):
            turns = row[j] * scale[j] + phase[j]
            f = turns - np.rint(turns)  # full turns change nothing
            g = f * f
            sine = f * (A + g * (B + g * (C + g * (D + g * E))))
            row[j] = (np.float32(1) + shift[j]) - np.float32(2) * sine * sine  # cos 2a = 1 − 2 sin² a


@njit(nogil=True, fastmath={"reassoc", "contract"})
def _square(row):
    """row · row, summed in the fastest order; the order is the same for all rows of a length."""
    total = np.float32(0)
    for j in range(len(row)):  # by index: only so the loop is vectorised
        total += row[j] * row[j]
    return total


@compiled([void(float32[::1], int64, float32[:, ::1], _READ, _READ)], nogil=True, cache=True)
def _insides(values, stride, items, centre_squares, radii):
    """Replace values x·c by how far item x is inside a sphere of centre c: radius − √(‖x‖² − 2 x·c + ‖c‖²)."""
    for i in range(len(items)):
        square = _square(items[i])
        row = values[i * stride : i * stride + len(radii)]
        for j in range(len(radii)):
            distance = square - np.float32(2) * row[j] + centre_squares[j]
            row[j] = radii[j] - np.sqrt(max(distance, np.float32(0)))


def cosines(block, scale, phase, shift):
    """Replace every value by cos(value * scale + phase) + shift; scale, phase and shift have one number a column."""
    _cosines(*_flat(block), scale, phase, shift)


def insides(block, items, centre_squares, radii):
    """Replace the product of an item and a centre by how far the item is inside the sphere."""
    _insides(*_flat(block), items, centre_squares, radii)
