"""MobileNetV2 (Sandler et al. 2018) up to its pooled features."""

from torch import Tensor, nn

from lookalike.encoders.packaged.weights import state_of

__all__ = ["MobileNet", "network"]

STAGES = (  # how many times wider a block is inside, how wide it ends, how many there are, stride of the first
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def _convolution(before: int, after: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """A convolution without bias, and its norm."""
    conv = nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(after)]


class InvertedResidual(nn.Module):
    """Wider, each map by itself, narrower; and what came in is added where it fits."""

    def __init__(self, before: int, after: int, stride: int, widening: int) -> None:
        super().__init__()
        inside = before * widening
        wider = [*_convolution(before, inside, 1), nn.ReLU6(inplace=True)] if widening > 1 else []
        alone = [*_convolution(inside, inside, 3, stride, groups=inside), nn.ReLU6(inplace=True)]
        self.conv = nn.Sequential(*wider, *alone, *_convolution(inside, after, 1))
        self.is_added = stride == 1 and before == after

    def forward(self, images: Tensor) -> Tensor:
        return images + self.conv(images) if self.is_added else self.conv(images)


class MobileNet(nn.Module):
    """(n, 3, height, width) to (n, 1280)."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Sequential(*_convolution(3, 32, 3, 2), nn.ReLU6(inplace=True))]
        width = 32
        for widening, after, count, stride in STAGES:
            for block in range(count):
                layers.append(InvertedResidual(width, after, stride if block == 0 else 1, widening))
                width = after
        layers.append(nn.Sequential(*_convolution(width, 1280, 1), nn.ReLU6(inplace=True)))
        self.features = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        return self.features(images).mean((2, 3))


def network(files: dict[str, bytes]) -> nn.Module:
    """The network with the weights of its one file."""
    (content,) = files.values()
    made = MobileNet()
    made.load_state_dict(state_of(content))
    return made
