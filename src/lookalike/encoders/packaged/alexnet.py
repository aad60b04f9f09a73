"""AlexNet (Krizhevsky et al. 2012) in its form of one column (Krizhevsky 2014), up to its last convolution."""

from torch import nn

from lookalike.encoders.packaged.weights import convolutions, pickled_arrays

__all__ = ["network"]


def network(files: dict[str, bytes]) -> nn.Module:
    """(n, 3, height, width) to (n, 256)."""
    (content,) = files.values()
    layers: list[nn.Module] = [
        *(nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(inplace=True)),
        *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(inplace=True)),
        *(nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(inplace=True)),
    ]
    return convolutions(layers, pickled_arrays(content))
