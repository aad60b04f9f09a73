"""EfficientNet-Lite1 and Lite2, by the package that has Lite0 too."""

import io
import re

from torch import nn

from lookalike.encoders.efficientnet_torch import pretrained
from lookalike.encoders.packaged.weights import state_of

__all__ = ["classifier", "network"]

SIZES = {"efficientnet-lite1": 240, "efficientnet-lite2": 260}  # of the images that each was trained on


def network(files: dict[str, bytes]) -> nn.Module:
    """(n, 3, size, size) to (n, 1280); the name of the file says which network it is."""
    ((file, content),) = files.items()
    name = re.sub(r"-[0-9a-f]{8}\.pth$", "", file)
    return pretrained(io.BytesIO(content), name, SIZES[name])


def classifier(files: dict[str, bytes]) -> nn.Linear:
    """Rows to the scores of classes."""
    (content,) = files.values()
    state, layer = state_of(content), nn.Linear(1280, 1000)
    layer.load_state_dict({"weight": state["_fc.weight"], "bias": state["_fc.bias"]})
    return layer
