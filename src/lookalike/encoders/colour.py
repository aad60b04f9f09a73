"""The colours of a picture, without where they are: the baseline for search by colour."""

import numpy as np

from lookalike.encoders.base import Encoder

__all__ = ["Colour"]

STEP = 25.0  # between neighbouring bins, the same in all directions of a space in which distances are differences seen
LOW, BINS = np.array([0.0, -100.0, -100.0]), (5, 9, 9)  # L* from 0 to 100, a* and b* from -100 to 100
PIXELS = 1 << 16  # of a picture: more change its shares by less than a grey level would
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = TO_XYZ.sum(1)  # of D65, in which three equal colours are grey


class Colour(Encoder):
    """A histogram of 5 × 9 × 9 colours in CIELAB: square roots of the shares, so that every row has length 1.

    The dot product of two rows is then the Bhattacharyya coefficient of the pictures: 1 with the same colours, 0 with
    none in common. A pixel counts for its up to eight nearest bins, more for the nearer, so that there are no edges.

    >>> colours = np.array([[0, 0, 0], [255, 0, 0], [200, 0, 0]], np.uint8)
    >>> black, red, dark_red = Colour().encode(colours.reshape(3, 1, 1, 3))
    >>> round(float(black @ red), 2), round(float(red @ dark_red), 2)
    (0.0, 0.5)
    """

    name = "colour"

    @property
    def version(self) -> str:
        return "1"

    @property
    def n_features(self) -> int:
        return int(np.prod(BINS))

    def _prepare(self, picture: np.ndarray) -> np.ndarray:
        return np.sqrt(_shares(_lab(_few_pixels(picture)))).astype(np.float32)

    def _rows(self, prepared: list[np.ndarray]) -> np.ndarray:
        return np.array(prepared)


def _few_pixels(picture: np.ndarray) -> np.ndarray:
    """Pixels of a picture, (n, 3); of a large one, every n-th row and column."""
    apart = int(np.ceil(np.sqrt(picture.shape[0] * picture.shape[1] / PIXELS)))
    rows, columns = (slice(min(apart, length) // 2, None, apart) for length in picture.shape[:2])
    chosen = picture[rows, columns]
    return chosen.reshape(-1, 3) if picture.ndim == 3 else np.repeat(chosen.reshape(-1, 1), 3, axis=1)


def _lab(pixels: np.ndarray) -> np.ndarray:
    """Colours of sRGB, (n, 3) of uint8, as L*, a* and b* of CIELAB (CIE 15).

    >>> _lab(np.array([[255, 255, 255], [255, 0, 0]], np.uint8)).round(1)
    array([[100. ,   0. ,   0. ],
           [ 53.2,  80.1,  67.2]])
    """
    stored = np.arange(256) / 255
    light = np.where(stored <= 0.04045, stored / 12.92, ((stored + 0.055) / 1.055) ** 2.4)
    xyz = light[pixels] @ TO_XYZ.T / WHITE
    x, y, z = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz * (29 / 6) ** 2 / 3 + 4 / 29).T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


def _shares(lab: np.ndarray) -> np.ndarray:
    """The part of all pixels that belongs to each bin, each pixel divided among its neighbours in proportion."""
    coordinates = ((lab - LOW) / STEP).clip(0, np.array(BINS) - 1)  # in bins
    lower = np.minimum(coordinates.astype(np.int64), np.array(BINS) - 2)
    towards = coordinates - lower
    shares = np.zeros(int(np.prod(BINS)))
    for corner in np.ndindex(2, 2, 2):
        bins = np.ravel_multi_index(tuple((lower + corner).T), BINS)
        weights = np.where(np.array(corner) == 1, towards, 1 - towards).prod(1)
        shares += np.bincount(bins, weights, len(shares))
    return shares / len(lab)
