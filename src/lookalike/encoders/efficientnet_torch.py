"""EfficientNet-Lite0 in PyTorch, up to its pooled features: to be trained, and folded to be fast."""

import copy
from pathlib import Path

import torch
from efficientnet_lite_pytorch import EfficientNet  # type: ignore[import-untyped]
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from lookalike.encoders.torch_network import batch, run

__all__ = ["Lite0", "batch", "folded", "pretrained", "run"]


class Lite0(nn.Module):
    """(n, 3, size, size) to the n × 1280 numbers that the classifier would see.

    Images of any size are padded as those of 224 pixels, on which it was trained. Padded for their own size, those of
    112 would end in 4 × 4 cells that see more zeros: a linear classifier of CIFAR-10 on them is right on 1.5 % fewer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.body = EfficientNet.from_name("efficientnet-lite0", image_size=224)

    def forward(self, images: Tensor) -> Tensor:
        return self.body.extract_features(images).mean((2, 3))


def pretrained(weights: Path) -> Lite0:
    """The network with these weights, as it is used: for training, call its `train()`."""
    network = Lite0()
    network.body.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    network.body._fc = nn.Identity()  # the classifier, which would be trained in vain
    return network.eval()


def folded(network: Lite0) -> Lite0:
    """A copy of a network that gives the same numbers faster: each batch norm becomes part of its convolution."""
    fast = copy.deepcopy(network)
    _fold(fast.body, "_conv_stem", "_bn0")
    for block in fast.body._blocks:
        if hasattr(block, "_expand_conv"):
            _fold(block, "_expand_conv", "_bn0")
        _fold(block, "_depthwise_conv", "_bn1")
        _fold(block, "_project_conv", "_bn2")
    _fold(fast.body, "_conv_head", "_bn1")
    return fast.requires_grad_(False)


def _fold(module: nn.Module, convolution: str, norm: str) -> None:
    conv, bn = getattr(module, convolution), getattr(module, norm)
    conv.weight, conv.bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    setattr(module, norm, nn.Identity())
