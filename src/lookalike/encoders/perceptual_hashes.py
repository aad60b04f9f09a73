"""Perceptual hashes: 64 bits that stay the same if a picture is resized, recompressed or slightly edited."""

import functools
from abc import abstractmethod

import numpy as np

from lookalike.encoders.base import Encoder

__all__ = ["DHash", "PHash"]

LANCZOS = 3  # pixels on either side, as many times as the picture is shrunk
FRACTION = 1 << 22  # weights of pixels are whole numbers of these parts


class _Hash(Encoder):
    """What perceptual hashes share: a grey picture made small, and 64 comparisons."""

    is_cached = False
    gives_codes = True

    @property
    def version(self) -> str:
        return "1"

    @property
    def n_features(self) -> int:
        return 64

    def _prepare(self, picture: np.ndarray) -> np.ndarray:
        return self._bits(picture).ravel().astype(np.float32)

    def _rows(self, prepared: list[np.ndarray]) -> np.ndarray:
        return np.array(prepared)

    @abstractmethod
    def _bits(self, picture: np.ndarray) -> np.ndarray:
        """64 comparisons within a picture, of bool."""


class PHash(_Hash):
    """64 bits: whether each of the slowest 8 × 8 waves (a DCT of 32 × 32) is above their median (Zauner 2010).

    >>> PHash().codes(np.arange(64, dtype=np.uint8).reshape(1, 8, 8))
    Codes(1 codes of 64 bits)
    """

    name = "phash"

    def _bits(self, picture: np.ndarray) -> np.ndarray:
        from scipy.fft import dct

        waves = dct(dct(_shrunk(_grey(picture), 32, 32).astype(np.float64), axis=0), axis=1)[:8, :8]
        return waves > np.median(waves)


class DHash(_Hash):
    """64 bits: whether each pixel of 8 × 9 is darker than the one to its right (Krawetz 2013).

    >>> int(DHash().encode(np.tile(np.arange(9, dtype=np.uint8), (1, 8, 1))).sum())    # brighter to the right
    64
    """

    name = "dhash"

    def _bits(self, picture: np.ndarray) -> np.ndarray:
        small = _shrunk(_grey(picture), 8, 9)
        return small[:, 1:] > small[:, :-1]


def _grey(picture: np.ndarray) -> np.ndarray:
    """How bright each pixel is (ITU-R 601-2), in the rounding of Pillow, on which all other implementations rest."""
    if picture.ndim == 2:
        return picture
    total = np.full(picture.shape[:2], 0x8000, np.uint32)
    for colour, weight in enumerate((19595, 38470, 7471)):
        total += picture[:, :, colour] * np.uint32(weight)
    return (total >> 16).astype(np.uint8)


def _shrunk(grey: np.ndarray, height: int, width: int) -> np.ndarray:
    """A grey picture made height × width by Lanczos' kernel, first along its rows, to the same bits as by Pillow.

    Pillow itself goes along the columns first where they are shrunk much more, but only since version 13: of tall
    pictures, hashes that were made with it depend on its version, by a few bits.
    """
    for length in (width, height):
        if grey.shape[1] != length:
            sums = grey.astype(np.float64) @ _weights(grey.shape[1], length).T  # whole numbers below 2⁵³: exact
            grey = np.floor(sums / FRACTION + 0.5).clip(0, 255).astype(np.uint8)
        grey = grey.T
    return grey


@functools.lru_cache(16)
def _weights(n_from: int, n_to: int) -> np.ndarray:
    """How much each of n_from pixels adds to each of n_to, in whole numbers of 1 / FRACTION: (n_to, n_from)."""
    step = n_from / n_to
    wide = max(step, 1.0)
    centres = (np.arange(n_to) + 0.5) * step
    firsts = np.trunc(centres - LANCZOS * wide + 0.5).clip(0)
    lasts = np.trunc(centres + LANCZOS * wide + 0.5).clip(None, n_from)
    pixels = np.arange(n_from)
    away = (pixels + 0.5 - centres[:, None]) / wide
    within = (pixels >= firsts[:, None]) & (pixels < lasts[:, None]) & (away >= -LANCZOS) & (away < LANCZOS)
    weights = np.where(within, np.sinc(away) * np.sinc(away / LANCZOS), 0)
    shares = weights / weights.sum(1, keepdims=True) * FRACTION
    return np.trunc(shares + np.copysign(0.5, shares))
