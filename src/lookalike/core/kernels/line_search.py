"""A compiled step of learning: the best of all thresholds of one weight of a binary function."""

from numba import float64, int64, types, void

from lookalike.core.kernels.loop import compiled

_READ = types.Array(float64, 2, "C", readonly=True)


@compiled([void(_READ, float64[::1], float64[::1], int64[::1], float64[::1])], nogil=True, cache=True)
def flip_gains(gains, signs, products, order, out):
    """out[k]: by how much ½·signsᵀ·gains·signs falls when the signs of the first k items of an order are turned.

    gains: symmetric, 0 on its diagonal. products: gains @ signs. Both `signs` and `products` are overwritten.
    """
    total = 0.0
    out[0] = 0
    for k in range(len(order)):
        i = order[k]
        sign = signs[i]
        total += 2 * sign * products[i]
        row = gains[i]
        for j in range(len(products)):
            products[j] -= 2 * sign * row[j]
        signs[i] = -sign
        out[k + 1] = total
