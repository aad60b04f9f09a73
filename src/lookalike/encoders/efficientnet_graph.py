"""EfficientNet-Lite up to its pooled features, as a graph of ONNX made of its weights; torch is not needed."""

import math
from collections.abc import Mapping

import numpy as np

from lookalike.encoders.onnx_graph import GraphWriter

__all__ = ["lite_graph"]

STRIDES = (1, 2, 2, 2, 1, 2, 1)  # of the first block of each stage
REPEATS = (1, 2, 2, 3, 3, 4, 1)  # blocks of each stage of Lite0; others have more, but as many at both ends
EPSILON = 1e-3  # of its batch norms


def lite_graph(weights: Mapping[str, np.ndarray], size: int, *, trained_size: int = 224, depth: float = 1.0) -> bytes:
    """The network of EfficientNet-Lite, (n, 3, size, size) to (n, 1280), each batch norm a part of its convolution.

    weights: by their names in efficientnet_lite_pytorch. trained_size: of the images that it was trained on, as which
    images of any size are padded (see `lookalike.encoders.efficientnet_torch.Lite`). depth: how many times as many
    blocks the stages have as those of Lite0.
    """
    writer = _LiteWriter(weights, size, trained_size)
    maps = writer.layer(writer.graph.input, "_conv_stem", "_bn0", stride=2)
    number = 0
    for stage, (repeats, stride) in enumerate(zip(REPEATS, STRIDES, strict=True)):
        is_end = stage in (0, len(REPEATS) - 1)
        for block in range(repeats if is_end else math.ceil(depth * repeats)):
            maps = writer.block(maps, f"_blocks.{number}.", stride if block == 0 else 1)
            number += 1
    maps = writer.layer(maps, "_conv_head", "_bn1")
    return writer.graph.model(writer.graph.means(maps), len(weights["_conv_head.weight"]))


class _LiteWriter:
    """Writes layers one after the other; `sides` is the side of their maps, if images were as in training."""

    def __init__(self, weights: Mapping[str, np.ndarray], size: int, trained_size: int) -> None:
        self.weights, self.side = weights, trained_size
        self.graph = GraphWriter(3, size, size)

    def block(self, maps: str, name: str, stride: int) -> str:
        """Wider, each map by itself, narrower; and what came in is added where it fits."""
        inner = maps
        if f"{name}_expand_conv.weight" in self.weights:
            inner = self.layer(inner, f"{name}_expand_conv", f"{name}_bn0")
        inner = self.layer(inner, f"{name}_depthwise_conv", f"{name}_bn1", stride=stride)
        n_inputs = self.weights.get(f"{name}_expand_conv.weight", self.weights[f"{name}_project_conv.weight"]).shape[1]
        inner = self.layer(inner, f"{name}_project_conv", f"{name}_bn2", is_cut_off=False)
        is_added = stride == 1 and n_inputs == len(self.weights[f"{name}_project_conv.weight"])
        return self.graph.add(inner, maps) if is_added else inner

    def layer(self, maps: str, conv: str, norm: str, *, stride: int = 1, is_cut_off: bool = True) -> str:
        """A convolution with its batch norm, and ReLU6."""
        weight, bias = self._folded(conv, norm)
        outputs, inputs, kernel, _ = weight.shape
        groups = outputs if inputs == 1 else 1
        after = math.ceil(self.side / stride)
        pad = max((after - 1) * stride + kernel - self.side, 0)  # as TensorFlow pads: more behind than ahead
        self.side = after
        made = self.graph.convolution(maps, weight, bias, stride=stride, pads=(pad // 2, pad - pad // 2), groups=groups)
        return self.graph.relu6(made) if is_cut_off else made

    def _folded(self, conv: str, norm: str) -> tuple[np.ndarray, np.ndarray]:
        """The weight and bias of a convolution that does what its batch norm does too."""
        given = (self.weights[f"{norm}.{kind}"] for kind in ("weight", "bias", "running_mean", "running_var"))
        gamma, beta, mean, variance = (values.astype(np.float64) for values in given)
        scale = gamma / np.sqrt(variance + EPSILON)
        weight = self.weights[f"{conv}.weight"] * scale[:, None, None, None]
        return weight.astype(np.float32), (beta - mean * scale).astype(np.float32)
