"""Compiled last steps of hashers: they turn a block of projections into values, in one pass instead of six."""

import numpy as np
from numba import float32, float64, int64, njit, types, void

from lookalike.core.kernels.loop import compiled

_READ = types.Array(float32, 1, "C", readonly=True)
_READ_WIDE, _READ_WEIGHTS = (types.Array(float64, n, "C", readonly=True) for n in (1, 2))
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


@compiled(
    [void(float32[::1], int64, float32[:, ::1], _READ_WIDE, float64, _READ_WEIGHTS, _READ_WIDE, float32[:, ::1])],
    nogil=True,
    cache=True,
)
def _gaussians(products, stride, items, anchor_squares, gamma, weights, offsets, out):
    """out[i, j] = offsets[j] + Σ_a weights[a, j] · exp(−γ‖item i − anchor a‖² / 2), of products item · anchor."""
    sums = np.empty(len(offsets))
    for i in range(len(items)):
        square = np.float64(_square(items[i]))
        for j in range(len(offsets)):
            sums[j] = offsets[j]
        for a in range(len(anchor_squares)):
            distance = max(square - 2 * np.float64(products[i * stride + a]) + anchor_squares[a], 0.0)
            kernel = np.exp(-gamma / 2 * distance)
            for j in range(len(offsets)):
                sums[j] += kernel * weights[a, j]
        for j in range(len(offsets)):
            out[i, j] = sums[j]


@compiled(
    [void(float32[::1], int64, float32[:, ::1], _READ_WIDE, float64, int64, _READ_WEIGHTS, float32[:, ::1])],
    nogil=True,
    cache=True,
)
def _nearest_gaussians(products, stride, items, anchor_squares, gamma, n_nearest, weights, out):
    """As `_gaussians`, of the nearest anchors alone, whose kernels are divided by their sum; no offsets."""
    nearest, least = np.empty(n_nearest, np.int64), np.empty(n_nearest)
    sums = np.empty(weights.shape[1])
    for i in range(len(items)):
        square, n = np.float64(_square(items[i])), 0
        for a in range(len(anchor_squares)):
            distance = max(square - 2 * np.float64(products[i * stride + a]) + anchor_squares[a], 0.0)
            if n == n_nearest and distance >= least[n - 1]:
                continue
            n = min(n + 1, n_nearest)
            k = n - 1
            while k > 0 and least[k - 1] > distance:
                least[k], nearest[k] = least[k - 1], nearest[k - 1]
                k -= 1
            least[k], nearest[k] = distance, a
        total = 0.0
        sums[:] = 0
        for k in range(n):
            kernel = np.exp(-gamma / 2 * (least[k] - least[0]))
            total += kernel
            for j in range(len(sums)):
                sums[j] += kernel * weights[nearest[k], j]
        for j in range(len(sums)):
            out[i, j] = sums[j] / total


def cosines(block, scale, phase, shift):
    """Replace every value by cos(value * scale + phase) + shift; scale, phase and shift have one number a column."""
    _cosines(*_flat(block), scale, phase, shift)


def insides(block, items, centre_squares, radii):
    """Replace the product of an item and a centre by how far the item is inside the sphere."""
    _insides(*_flat(block), items, centre_squares, radii)


def gaussians(block, items, anchor_squares, gamma, weights, offsets):
    """Weighted sums of Gaussian kernels between items and anchors, from their products; see `_gaussians`."""
    out = np.empty((len(items), len(offsets)), np.float32)
    _gaussians(*_flat(block), items, anchor_squares, gamma, weights, offsets, out)
    return out


def nearest_gaussians(block, items, anchor_squares, gamma, n_nearest, weights):
    """Weighted means over the nearest anchors, from the products of items and anchors; see `_nearest_gaussians`."""
    out = np.empty((len(items), weights.shape[1]), np.float32)
    _nearest_gaussians(*_flat(block), items, anchor_squares, gamma, n_nearest, weights, out)
    return out
