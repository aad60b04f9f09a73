"""EfficientNet-Lite in PyTorch, up to its pooled features."""

from pathlib import Path
from typing import IO

import torch
from efficientnet_lite_pytorch import EfficientNet  # type: ignore[import-untyped]
from torch import Tensor, nn

from lookalike.encoders.torch_network import batch, folded, run

__all__ = ["Lite", "batch", "folded", "pretrained", "run"]


class Lite(nn.Module):
    """(n, 3, size, size) to the n × 1280 numbers that the classifier would see.

    Images of any size are padded as those on which it was trained, 224 pixels for Lite0. Padded for their own size,
    those of 112 would end in 4 × 4 cells that see more zeros: a linear classifier of CIFAR-10 on them is right on 1.5 %
    fewer.
    """

    def __init__(self, name: str, trained_size: int) -> None:
        super().__init__()
        self.body = EfficientNet.from_name(name, image_size=trained_size)

    def forward(self, images: Tensor) -> Tensor:
        return self.body.extract_features(images).mean((2, 3))


def pretrained(weights: Path | IO[bytes], name: str = "efficientnet-lite0", trained_size: int = 224) -> Lite:
    """The network with these weights, as it is used: for training, call its `train()`."""
    network = Lite(name, trained_size)
    network.body.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    network.body._fc = nn.Identity()  # the classifier, which would be trained in vain
    return network.eval()
