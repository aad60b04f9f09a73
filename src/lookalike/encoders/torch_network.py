"""Networks of PyTorch as encoders run them: prepared pictures in, rows out, and a fingerprint of the weights."""

import copy
import hashlib
import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

__all__ = ["Rows", "batch", "fingerprint", "folded", "run", "without_gradients"]

AT_ONCE = 16  # images: with 64, memory goes back to the system after each layer, and each takes 1.4 times as long


class Rows(nn.Module):
    """A network of a library, called as it makes rows of images: a module as all others, which can be copied."""

    def __init__(self, network: nn.Module, rows: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.network, self.rows = network, rows

    def forward(self, images: Tensor) -> Tensor:
        return self.rows(self.network, images)


def batch(prepared: np.ndarray | Sequence[np.ndarray]) -> Tensor:
    """Pictures (height, width, 3) of float32 as (n, 3, height, width), laid out as it convolves fastest."""
    return torch.from_numpy(np.asarray(prepared)).permute(0, 3, 1, 2)


def run(network: Callable[[Tensor], Tensor], images: Tensor) -> np.ndarray:
    """What a network makes of images, as an array of float32."""
    with torch.inference_mode():
        return torch.cat([network(few).float() for few in torch.split(images, AT_ONCE)]).numpy()


def without_gradients(network: Callable[[Any], Tensor], tokens: Any) -> np.ndarray:
    """What a network makes of the tokens of one text, as a row of float32."""
    with torch.inference_mode():
        return network(tokens).float().reshape(1, -1).numpy()


def folded(network: nn.Module) -> nn.Module:
    """A copy of a network that gives the same numbers faster: each batch norm becomes part of its convolution.

    In each module, a batch norm that follows a convolution must be of that convolution's output.
    """
    fast = copy.deepcopy(network)
    for module in [*fast.modules()]:
        children = [*module.named_children()]
        for (_, conv), (name, norm) in itertools.pairwise(children):
            if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                assert norm.running_mean is not None
                assert norm.running_var is not None
                conv.weight, conv.bias = fuse_conv_bn_weights(
                    conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
                )
                setattr(module, name, nn.Identity())
    return fast.requires_grad_(False)


def fingerprint(network: nn.Module, unused: Collection[str] = ()) -> str:
    """A text that changes whenever a weight does; weights with the names in `unused` do not count."""
    total = hashlib.sha256()
    for name, values in sorted(network.state_dict().items()):
        if name in unused:
            continue
        total.update(f"{name}{values.dtype}{tuple(values.shape)}".encode())
        total.update(values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()[:16]
