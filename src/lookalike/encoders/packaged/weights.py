"""Weights in files, read without running anything that the files say."""

import io
import pickletools
import zipfile
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["PooledMeans", "convolutions", "load_in_order", "pickled_arrays", "scripted_tensors", "state_of"]


def state_of(content: bytes) -> dict[str, Tensor]:
    """The tensors in a file of torch.save, by name; anything else in it is refused."""
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def scripted_tensors(content: bytes) -> list[Tensor]:
    """The tensors in a file of TorchScript, flat and in order, all of float32; its program is not read."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = [name for name in archive.namelist() if name.rpartition("/")[0].endswith("/data")]
        ordered = sorted(names, key=lambda name: int(name.rpartition("/")[2]))
        return [torch.from_numpy(np.frombuffer(archive.read(name), "<f4").copy()) for name in ordered]


def pickled_arrays(content: bytes) -> list[Tensor]:
    """The arrays in a pickle, flat and in order, all of float32; the pickle is read, but never obeyed."""
    given = [value for _, value, _ in pickletools.genops(content)]
    texts = [value for value in given if isinstance(value, bytes) and len(value) % 4 == 0]
    return [torch.from_numpy(np.frombuffer(text, "<f4").copy()) for text in texts]


def load_in_order(network: nn.Module, values: Iterable[Tensor]) -> None:
    """Fill a network's weights, which are in the order of the values; what has another number of elements is an error.

    >>> line = nn.Linear(2, 1)
    >>> load_in_order(line, [torch.tensor([3.0, 4.0]), torch.tensor([5.0])])
    >>> line(torch.ones(1, 2)).item()
    12.0
    """
    wanted = {name: weight for name, weight in network.state_dict().items() if not name.endswith("num_batches_tracked")}
    given = {name: value.reshape(wanted[name].shape) for name, value in zip(wanted, values, strict=True)}
    counts = {name: weight for name, weight in network.state_dict().items() if name not in wanted}
    network.load_state_dict({**given, **counts})


class PooledMeans(nn.Module):
    """The mean of each map."""

    def forward(self, maps: Tensor) -> Tensor:
        return maps.mean((2, 3))


def convolutions(layers: list[nn.Module], values: list[Tensor]) -> nn.Module:
    """Layers and the means of the last maps; the values are kernel and bias of each convolution, as Flax has them."""
    made, given = nn.Sequential(*layers, PooledMeans()), []
    convs = [layer for layer in layers if isinstance(layer, nn.Conv2d)]
    for conv, kernel, bias in zip(convs, values[::2], values[1::2], strict=False):
        outputs, inputs, height, width = conv.weight.shape
        given += [kernel.reshape(height, width, inputs, outputs).permute(3, 2, 0, 1), bias]
    load_in_order(made, given)
    return made
