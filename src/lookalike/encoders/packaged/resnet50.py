"""ResNet50 with the weights of Keras, which come as shards of TensorFlow.js."""

import json
import math
import re

import numpy as np
import torch
from torch import Tensor, nn

from lookalike.encoders.packaged.resnet import ResNet

__all__ = ["classifier", "network"]

KINDS = {
    "kernel": "weight",
    "bias": "bias",
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}


def network(files: dict[str, bytes]) -> nn.Module:
    """The network with the weights of Keras."""
    made = ResNet(is_keras=True)
    given = {_name(name): value for name, value in _tensors(files).items() if not name.startswith("fc1000")}
    counts = {name: value for name, value in made.state_dict().items() if name.endswith("num_batches_tracked")}
    made.load_state_dict({**given, **counts})
    return made


def classifier(files: dict[str, bytes]) -> nn.Linear:
    """Rows to the scores of classes."""
    tensors, layer = _tensors(files), nn.Linear(2048, 1000)
    layer.load_state_dict({"weight": tensors["fc1000/kernel"], "bias": tensors["fc1000/bias"]})
    return layer


def _tensors(files: dict[str, bytes]) -> dict[str, Tensor]:
    """All weights by their names in Keras, laid out as PyTorch has them."""
    (group,) = json.loads(files["model.json"])["weightsManifest"]
    values = np.frombuffer(b"".join(files[path] for path in group["paths"]), "<f4")
    tensors, start = {}, 0
    for weight in group["weights"]:
        end = start + math.prod(weight["shape"])
        array = values[start:end].reshape(weight["shape"])
        order = {4: (3, 2, 0, 1), 2: (1, 0)}.get(array.ndim, (0,))  # inputs before outputs, and places first
        tensors[weight["name"]] = torch.from_numpy(array.transpose(order).copy())
        start = end
    return tensors


def _name(name: str) -> str:
    """What PyTorch calls a weight of Keras.

    >>> _name("res3b_branch2c/kernel"), _name("bn2a_branch1/moving_mean"), _name("bn_conv1/gamma")
    ('layer2.1.conv3.weight', 'layer1.0.downsample.1.running_mean', 'bn1.weight')
    """
    layer, _, kind = name.partition("/")
    place = re.fullmatch(r"(res|bn)(\d)([a-f])_branch(1|2[abc])", layer)
    if place is None:
        return f"{ {'conv1': 'conv1', 'bn_conv1': 'bn1'}[layer] }.{KINDS[kind]}"
    what, stage, block, branch = place.groups()
    if branch == "1":
        within = f"downsample.{0 if what == 'res' else 1}"
    else:
        within = f"{'conv' if what == 'res' else 'bn'}{'abc'.index(branch[1]) + 1}"
    return f"layer{int(stage) - 1}.{'abcdef'.index(block)}.{within}.{KINDS[kind]}"
