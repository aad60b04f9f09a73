"""EfficientNet-Lite0 in PyTorch, up to its pooled features: to be trained, and folded to be fast."""

import copy
from pathlib import Path

import numpy as np
import torch
from efficientnet_lite_pytorch import EfficientNet  # type: ignore[import-untyped]
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

__all__ = ["Lite0", "folded", "preprocessed", "pretrained", "run"]

MEAN, SPREAD = 127, 128  # of pixels, as the network's authors have it for all three colours
AT_ONCE = 16  # images: with 64, memory goes back to the system after each layer, and each takes 1.4 times as long


class Lite0(nn.Module):
    """(n, 3, size, size) to the n × 1280 numbers that the classifier would see.

    Images of any size are padded as those of 224 pixels, on which it was trained. Padded for their own size, those of
    112 would end in 4 × 4 places that see more zeros: a linear classifier of CIFAR-10 on them is right on 1.5 % fewer.
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


def preprocessed(pictures: list[np.ndarray], size: int) -> Tensor:
    """Pictures of any sizes as (n, 3, size, size) of float32, scaled as in the network's training."""
    images = torch.empty(len(pictures), 3, size, size, memory_format=torch.channels_last)  # which convolves fastest
    for image, picture in zip(images, pictures, strict=True):
        values = torch.from_numpy(np.array(picture, np.float32).reshape(1, *picture.shape[:2], -1)).permute(0, 3, 1, 2)
        image[:] = nn.functional.interpolate(values, (size, size), mode="bicubic", antialias=True)[0]
    return images.clamp_(0, 255).sub_(MEAN).div_(SPREAD)  # bicubic curves leave the range of pixels


def run(network: nn.Module, images: Tensor) -> np.ndarray:
    """What a network makes of images, as an array."""
    with torch.inference_mode():
        return torch.cat([network(few) for few in torch.split(images, AT_ONCE)]).numpy()


def _fold(module: nn.Module, convolution: str, norm: str) -> None:
    conv, bn = getattr(module, convolution), getattr(module, norm)
    conv.weight, conv.bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    setattr(module, norm, nn.Identity())
