"""Networks that map an item to as many real numbers as there are bits; any other torch module may stand in for them."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from lookalike.core.errors import InputError

__all__ = ["NETWORKS", "Standardised", "convolutions", "linear", "two_layers"]


class Standardised(nn.Module):
    """A network behind features that are shifted and scaled to mean 0 and variance 1 over the training items."""

    mean: Tensor
    scale: Tensor

    def __init__(self, network: nn.Module, features: np.ndarray) -> None:
        super().__init__()
        self.network = network
        deviation = features.std(0, dtype=np.float64)
        self.register_buffer("mean", torch.from_numpy(features.mean(0, dtype=np.float64)).float())
        self.register_buffer("scale", torch.from_numpy(1 / np.where(deviation > 0, deviation, 1)).float())

    def forward(self, features: Tensor) -> Tensor:
        """Activations (n, n_bits) of features (n, n_features)."""
        activations: Tensor = self.network((features - self.mean) * self.scale)
        return activations


def linear(n_features: int, n_bits: int, input_dropout: float = 0.5) -> nn.Module:
    """One layer, behind features of which a part is left out in each step of learning."""
    return nn.Sequential(nn.Dropout(input_dropout), nn.Linear(n_features, n_bits))


def two_layers(
    n_features: int, n_bits: int, hidden: int = 512, input_dropout: float = 0.5, dropout: float = 0.7
) -> nn.Module:
    """A layer of hidden units before the bits; parts of the features and of the units are left out in each step."""
    return nn.Sequential(
        nn.Dropout(input_dropout),
        nn.Linear(n_features, hidden),
        nn.ReLU(inplace=True),
        nn.Dropout(dropout),
        nn.Linear(hidden, n_bits),
    )


def convolutions(n_bits: int, shape: tuple[int, ...]) -> nn.Module:
    """Three convolutions and two dense layers (Liu et al. 2016), with batch norms, which learn in fewer epochs.

    It takes pixels between 0 and 1 in rows, as data sets give them, of pictures of this shape.
    """
    height, width, channels = shape if len(shape) == 3 else (*shape, 1)
    if min(height, width) < 8:
        raise InputError(f"three convolutions need images of 8 × 8 at least, got {height} × {width}")
    body = nn.Sequential(  # 3 × 32 × 32
        nn.Conv2d(channels, 32, 5, padding=2, bias=False),
        nn.MaxPool2d(3, 2, ceil_mode=True),  # 32 × 16 × 16
        nn.BatchNorm2d(32),
        nn.ReLU(inplace=True),
        nn.Conv2d(32, 32, 5, padding=2, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(inplace=True),
        nn.AvgPool2d(3, 2, ceil_mode=True),  # 32 × 8 × 8
        nn.Conv2d(32, 64, 5, padding=2, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.AvgPool2d(3, 2, ceil_mode=True),  # 64 × 4 × 4
        nn.Flatten(),
    )
    with torch.no_grad():
        n_flat = body(torch.zeros(2, channels, height, width)).shape[1]
    dense = nn.Sequential(nn.Linear(n_flat, 500), nn.ReLU(inplace=True), nn.Linear(500, n_bits))
    return nn.Sequential(_Pictures(height, width, channels), body, dense)


class _Pictures(nn.Module):
    """Rows of pixels as pictures, of numbers around 0."""

    def __init__(self, height: int, width: int, channels: int) -> None:
        super().__init__()
        self.shape = (height, width, channels)

    def forward(self, rows: Tensor) -> Tensor:
        """(n, channels, height, width) of (n, pixels)."""
        return (rows.view(-1, *self.shape).permute(0, 3, 1, 2) * 4 - 2).contiguous()


NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "linear": linear,
    "two-layer": two_layers,
    "convolutions": convolutions,
}
