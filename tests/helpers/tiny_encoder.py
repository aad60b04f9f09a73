"""A network small enough to be trained in a test, as an encoder, and images that it can learn to tell apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from lookalike.encoders import Preprocessing, TorchEncoder


class Tiny(TorchEncoder):
    """16 numbers of two convolutions with random weights, which are the same each time."""

    name = "tiny"
    version = "1"
    n_features = 16

    def __init__(self, size: int = 16) -> None:
        self.size, self.enough = size, 2 * size
        self._preprocessing = Preprocessing((size, size), (0.5, 0.4, 0.3), (0.25, 0.25, 0.2))

    def network(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            return nn.Sequential(
                nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(),
                nn.Conv2d(8, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            ).eval()  # fmt: skip

    def _prepare(self, picture: np.ndarray) -> np.ndarray:
        return self._preprocessing(picture)

    def _rows(self, prepared: list[np.ndarray]) -> np.ndarray:
        from lookalike.encoders.torch_network import batch, run

        return run(self.network(), batch(prepared))


class Wide(Tiny):
    """The same with another architecture."""

    name = "wide"

    def network(self) -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()


class Lesson(NamedTuple):
    images: np.ndarray
    identities: np.ndarray
    categories: np.ndarray


def lesson(n_identities: int = 12, each: int = 5, seed: int = 0) -> Lesson:
    """Blocks of colours with noise: an identity is a pattern; a category has four blocks of the pattern in common."""
    rng = np.random.default_rng(seed)
    categories = np.arange(n_identities) % 3
    blocks = rng.integers(0, 256, (n_identities, 4, 4, 3))
    blocks[:, :2, :2] = rng.integers(0, 256, (3, 2, 2, 3))[categories]
    patterns = blocks.repeat(4, 1).repeat(4, 2)
    images = patterns.repeat(each, 0) + rng.normal(0, 40, (n_identities * each, 16, 16, 3))
    names = np.array([f"p{identity}" for identity in range(n_identities)])
    return Lesson(np.clip(images, 0, 255).astype(np.uint8), names.repeat(each), categories.repeat(each))
