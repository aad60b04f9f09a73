"""ResNet50 (He et al. 2016) up to its pooled features, in the two forms that weights are for."""

from torch import Tensor, nn

__all__ = ["Bottleneck", "ResNet"]

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width inside, how many blocks, stride of the first
WIDENING = 4


class Bottleneck(nn.Module):
    """Narrower, a convolution of 3 × 3, wider; and what came in is added."""

    def __init__(self, before: int, inside: int, stride: int, is_keras: bool) -> None:
        super().__init__()
        after, epsilon = inside * WIDENING, 1e-3 if is_keras else 1e-5
        first, second = (stride, 1) if is_keras else (1, stride)  # where the stride is
        self.conv1 = nn.Conv2d(before, inside, 1, first, bias=is_keras)
        self.bn1 = nn.BatchNorm2d(inside, epsilon)
        self.conv2 = nn.Conv2d(inside, inside, 3, second, 1, bias=is_keras)
        self.bn2 = nn.BatchNorm2d(inside, epsilon)
        self.conv3 = nn.Conv2d(inside, after, 1, bias=is_keras)
        self.bn3 = nn.BatchNorm2d(after, epsilon)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module | None = None
        if stride != 1 or before != after:
            shorter = nn.Conv2d(before, after, 1, stride, bias=is_keras)
            self.downsample = nn.Sequential(shorter, nn.BatchNorm2d(after, epsilon))

    def forward(self, images: Tensor) -> Tensor:
        inner = self.relu(self.bn1(self.conv1(images)))
        inner = self.relu(self.bn2(self.conv2(inner)))
        inner = self.bn3(self.conv3(inner))
        return self.relu(inner + (images if self.downsample is None else self.downsample(images)))


class ResNet(nn.Module):
    """(n, 3, height, width) to (n, 2048): as torchvision has it, or as Keras has it."""

    def __init__(self, is_keras: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=is_keras)
        self.bn1 = nn.BatchNorm2d(64, 1e-3 if is_keras else 1e-5)
        self.start = nn.Sequential(nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        before = 64
        for number, (inside, count, stride) in enumerate(STAGES, 1):
            blocks = []
            for block in range(count):
                blocks.append(Bottleneck(before, inside, stride if block == 0 else 1, is_keras))
                before = inside * WIDENING
            self.add_module(f"layer{number}", nn.Sequential(*blocks))

    def forward(self, images: Tensor) -> Tensor:
        maps = self.start(self.bn1(self.conv1(images)))
        for number in range(1, len(STAGES) + 1):
            maps = self.get_submodule(f"layer{number}")(maps)
        return maps.mean((2, 3))
