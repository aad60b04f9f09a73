"""What networks in packages share: the package is fetched and checked, and its weights are read but never run."""

import functools
import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.errors import FileError, missing_package
from lookalike.core.file_errors import FULL
from lookalike.datasets import cache_folder
from lookalike.datasets.archives import members
from lookalike.datasets.download import Archive, fetch
from lookalike.encoders.preprocessing import Preprocessing
from lookalike.encoders.torch_encoder import TorchEncoder

if TYPE_CHECKING:
    import torch

__all__ = ["IMAGENET", "Package", "PackagedNetwork", "Scaling"]

PREPROCESSING = 1  # raised whenever the same weights are made to give other numbers


@dataclass(frozen=True)
class Package:
    """A package with the weights of a network: where it is, what it holds, and what may be done with it."""

    source: str  # whose package it is, with its version
    archive: Archive
    files: tuple[str, ...]  # those with weights
    megabytes: int  # that are fetched
    licence: str
    training: str  # what the weights were trained on

    @property
    def path(self) -> Path:
        """Where the package is once it was fetched."""
        return cache_folder() / "networks" / self.archive.name

    def contents(self) -> dict[str, bytes]:
        """The files with weights, of the package in the cache, which is fetched if need be."""
        try:
            path = fetch(self.archive, self.path.parent)
        except OSError as error:
            if error.errno in FULL:  # then another source is no help
                raise
            raise OSError(
                f"the weights of {self.source} are not in the cache and cannot be fetched: {error}; "
                f"get {self.archive.name} elsewhere and put it into {self.path.parent}"
            ) from error
        found = members(path, self.files)
        missing = [name for name in self.files if name not in found]
        if missing:  # only if a digest was written for another file
            raise FileError(f"{path} has no {missing[0]}", path=path)
        return found


@dataclass(frozen=True)
class Scaling:
    """How a network wants pixels, which are from 0 to 1: less mean, divided by std."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    order: str = "RGB"


IMAGENET = Scaling((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # of red, green and blue of its photographs


class PackagedNetwork(TorchEncoder):
    """The pooled features of a network whose weights are in a package, of the middle of an image made size × size.

    A subclass says what it is; its `module` is a file in this folder that makes the network of the weights.
    """

    package: ClassVar[Package]
    module: ClassVar[str]
    width: ClassVar[int]  # numbers in a row
    trained_size: ClassVar[int]  # pixels of the images that it was trained on, which are the default
    least_size: ClassVar[int] = 32
    scaling: ClassVar[Scaling] = IMAGENET

    def __init__(self, size: int | None = None) -> None:
        size = self.trained_size if size is None else whole_number("size", size, self.least_size)
        self.size, self.enough = size, 2 * size
        scaling = self.scaling
        self._preprocessing = Preprocessing((size, size), scaling.mean, scaling.std, order=scaling.order)

    @property
    def version(self) -> str:
        return f"{self.package.source}, {self.size} px, preprocessing {PREPROCESSING}"

    @property
    def n_features(self) -> int:
        return self.width

    def network(self) -> "torch.nn.Module":
        return self._module().network(self.package.contents()).eval()

    def classifier(self) -> "torch.nn.Linear | None":
        """The layer that was cut off, rows to the scores of ImageNet's 1,000 classes; None if the package has none."""
        module = self._module()
        return module.classifier(self.package.contents()) if hasattr(module, "classifier") else None

    @functools.cached_property
    def _folded(self) -> "torch.nn.Module":
        network = self.network()  # says what is missing, if torch is
        from lookalike.encoders.torch_network import folded

        return folded(network)

    def _prepare(self, picture: np.ndarray) -> np.ndarray:
        return self._preprocessing(picture)

    def _rows(self, prepared: list[np.ndarray]) -> np.ndarray:
        network = self._folded
        from lookalike.encoders.torch_network import batch, run

        return run(network, batch(prepared))

    def _module(self) -> ModuleType:
        """The module that makes the network, which imports torch."""
        try:
            return importlib.import_module(f"lookalike.encoders.packaged.{self.module}")
        except ModuleNotFoundError as error:
            raise missing_package(self.name, error.name, "learn") from error
