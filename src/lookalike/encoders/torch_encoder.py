"""Encoders that are networks of PyTorch: they give their network too, so that it can be trained further."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.errors import missing_package
from lookalike.encoders.base import Encoder

if TYPE_CHECKING:
    import torch

__all__ = ["TorchEncoder"]


class TorchEncoder(Encoder):
    """An encoder whose network is one of PyTorch.

    `encode(images)` gives the numbers of `network()(preprocess(images))`, except for rounding.
    """

    @abstractmethod
    def network(self) -> "torch.nn.Module":
        """A network of the caller's own: what `preprocess` gives to (n, n_features); to train it, call its `train()`.

        It may be copied with copy.deepcopy. A change of its weights does not change this encoder.
        """

    def preprocess(self, images: np.ndarray | Sequence[Any]) -> "torch.Tensor":
        """Images as the network takes them, (n, 3, height, width) of float32; images as `encode` takes them."""
        try:
            from lookalike.encoders.torch_network import batch
        except ModuleNotFoundError as error:
            raise missing_package(self.name, error.name, "learn") from error
        pictures = self._pictures(images)
        if not pictures:
            return batch(np.empty((0, *self._prepare(np.zeros((1, 1), np.uint8)).shape), np.float32))
        first = self._prepare(pictures[0])
        prepared = np.empty((len(pictures), *first.shape), np.float32)
        prepared[0] = first
        for row, picture in enumerate(pictures[1:], 1):
            prepared[row] = self._prepare(picture)
        return batch(prepared)
