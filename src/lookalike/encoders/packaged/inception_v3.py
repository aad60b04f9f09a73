"""Inception-v3 (Szegedy et al. 2016), as the Fréchet inception distance has it, up to its pooled features."""

import torch
from torch import Tensor, nn

from lookalike.encoders.packaged.weights import PooledMeans, load_in_order, scripted_tensors

__all__ = ["Branches", "network", "untrained"]

EPSILON = 1e-3
Sides = int | tuple[int, int]


class Branches(nn.Module):
    """What several branches make of the same maps, side by side."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, maps: Tensor) -> Tensor:
        return torch.cat([branch(maps) for branch in self.branches], 1)


def network(files: dict[str, bytes]) -> nn.Module:
    """The network with the weights of its one file."""
    (content,) = files.values()
    made, given, values = untrained(), scripted_tensors(content), []
    for weight, bias, mean, variance in zip(*(given[start::4] for start in range(4)), strict=True):
        values += [weight, torch.ones_like(bias), bias, mean, variance]  # its norms have no scale
    load_in_order(made, values)
    return made


def untrained() -> nn.Module:
    """(n, 3, height, width) to (n, 2048), with random weights."""
    return nn.Sequential(
        *(_conv(3, 32, 3, 2), _conv(32, 32, 3), _conv(32, 64, 3, padding=1), nn.MaxPool2d(3, 2)),
        *(_conv(64, 80), _conv(80, 192, 3), nn.MaxPool2d(3, 2)),
        *(_block_a(192, 32), _block_a(256, 64), _block_a(288, 64), _block_b(288)),
        *(_block_c(128), _block_c(160), _block_c(160), _block_c(192), _block_d(768)),
        *(_block_e(1280, _mean()), _block_e(2048, nn.MaxPool2d(3, 1, 1))),
        PooledMeans(),
    )


def _conv(before: int, after: int, kernel: Sides = 1, stride: int = 1, padding: Sides = 0) -> nn.Module:
    conv = nn.Conv2d(before, after, kernel, stride, padding, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(after, EPSILON), nn.ReLU(inplace=True))


def _across(before: int, after: int, length: int = 7) -> nn.Module:
    return _conv(before, after, (1, length), padding=(0, length // 2))


def _down(before: int, after: int, length: int = 7) -> nn.Module:
    return _conv(before, after, (length, 1), padding=(length // 2, 0))


def _mean() -> nn.Module:
    return nn.AvgPool2d(3, 1, 1, count_include_pad=False)


def _block_a(before: int, pooled: int) -> nn.Module:
    return Branches(
        _conv(before, 64),
        nn.Sequential(_conv(before, 48), _conv(48, 64, 5, padding=2)),
        nn.Sequential(_conv(before, 64), _conv(64, 96, 3, padding=1), _conv(96, 96, 3, padding=1)),
        nn.Sequential(_mean(), _conv(before, pooled)),
    )


def _block_b(before: int) -> nn.Module:
    narrow = nn.Sequential(_conv(before, 64), _conv(64, 96, 3, padding=1), _conv(96, 96, 3, 2))
    return Branches(_conv(before, 384, 3, 2), narrow, nn.MaxPool2d(3, 2))


def _block_c(inside: int) -> nn.Module:
    longer = (_down(inside, inside), _across(inside, inside), _down(inside, inside), _across(inside, 192))
    return Branches(
        _conv(768, 192),
        nn.Sequential(_conv(768, inside), _across(inside, inside), _down(inside, 192)),
        nn.Sequential(_conv(768, inside), *longer),
        nn.Sequential(_mean(), _conv(768, 192)),
    )


def _block_d(before: int) -> nn.Module:
    return Branches(
        nn.Sequential(_conv(before, 192), _conv(192, 320, 3, 2)),
        nn.Sequential(_conv(before, 192), _across(192, 192), _down(192, 192), _conv(192, 192, 3, 2)),
        nn.MaxPool2d(3, 2),
    )


def _block_e(before: int, pool: nn.Module) -> nn.Module:
    short = nn.Sequential(_conv(before, 384), Branches(_across(384, 384, 3), _down(384, 384, 3)))
    longer = (_conv(448, 384, 3, padding=1), Branches(_across(384, 384, 3), _down(384, 384, 3)))
    long = nn.Sequential(_conv(before, 448), *longer)
    return Branches(_conv(before, 320), short, long, nn.Sequential(pool, _conv(before, 192)))
