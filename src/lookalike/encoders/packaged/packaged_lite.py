"""EfficientNet-Lite1 and Lite2, whose weights are in packages, and which ONNX Runtime runs as it runs Lite0."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from lookalike.core.readers.torch_files import read_state
from lookalike.encoders.efficientnet_graph import lite_graph
from lookalike.encoders.graph_encoder import BACKEND, GraphEncoder
from lookalike.encoders.packaged.packaged_network import PackagedNetwork

__all__ = ["PackagedLite"]

PREFIX = "body."  # of all names in `network()`


class PackagedLite(GraphEncoder, PackagedNetwork):
    """A network of the family of EfficientNet-Lite."""

    depth: ClassVar[float]  # how many times as many blocks its stages have as those of Lite0

    @property
    def version(self) -> str:
        return f"{BACKEND}, {super().version}"

    def weights(self) -> dict[str, np.ndarray]:
        (content,) = self.package.contents().values()
        state = read_state(content, str(self.package.path))
        return {f"{PREFIX}{name}": values for name, values in state.items() if not name.startswith("_fc.")}

    def graph(self, weights: Mapping[str, np.ndarray]) -> bytes:
        own = {name.removeprefix(PREFIX): values for name, values in weights.items()}
        return lite_graph(own, self.size, trained_size=self.trained_size, depth=self.depth)
