"""VGG16 (Simonyan and Zisserman 2015) up to its last convolution."""

from torch import nn

from lookalike.encoders.packaged.weights import convolutions, pickled_arrays

__all__ = ["network"]

WIDTHS = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512)  # of convolutions; 0: pooling


def network(files: dict[str, bytes]) -> nn.Module:
    """(n, 3, height, width) to (n, 512)."""
    (content,) = files.values()
    layers: list[nn.Module] = []
    before = 3
    for width in WIDTHS:
        if width:
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU(inplace=True)]
            before = width
        else:
            layers.append(nn.MaxPool2d(2))
    return convolutions(layers, pickled_arrays(content))
