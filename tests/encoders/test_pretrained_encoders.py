"""Networks of timm, OpenCLIP and transformers."""

from __future__ import annotations

import copy
import importlib.metadata
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from helpers.encoder_images import noise, rows_of, saved
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.encoders import Preprocessing, TorchEncoder, encode_files, load


class Tiny(torch.nn.Module):
    """The mean of each channel, times a weight."""

    def __init__(self, factor: float = 2.0) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor([factor]))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean((2, 3)) * self.factor


@pytest.fixture(autouse=True)
def versions(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version
    known = {"timm": "1.0", "open_clip_torch": "3.0", "transformers": "5.0"}
    monkeypatch.setattr(importlib.metadata, "version", lambda name: known.get(name) or real(name))


def fake(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def fake_timm(monkeypatch: pytest.MonkeyPatch, create: Callable[..., Any], **wants: Any) -> None:
    config = {"input_size": (3, 8, 8), "mean": (0.0,) * 3, "std": (0.5,) * 3, "crop_pct": 0.8, **wants}
    data = types.SimpleNamespace(resolve_model_data_config=lambda network: config)
    fake(monkeypatch, "timm", create_model=create, data=data, list_models=lambda: ["resnet18", "resnet50", "vit_tiny"])


def test_networks_of_timm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Any] = []

    def create(name: str, **options: Any) -> Tiny:
        asked.append((name, options))
        return Tiny()

    fake_timm(monkeypatch, create, interpolation="bilinear", crop_mode="center")
    encoder = load("timm:resnet18.a1_in1k")
    assert asked == []  # loaded when it is used
    picture = noise(20, 30, 3)
    wants = Preprocessing((8, 8), (0.0,) * 3, (0.5,) * 3, crop=0.8, interpolation="bilinear")
    np.testing.assert_allclose(encoder.encode([picture])[0], 2 * wants(picture).mean((0, 1)), atol=1e-5)
    assert asked == [("resnet18.a1_in1k", {"pretrained": True, "num_classes": 0})]
    assert (encoder.name, encoder.n_features, encoder.size, encoder.enough) == ("timm:resnet18.a1_in1k", 3, 10, 20)
    Image.fromarray(picture).save(tmp_path / "a.png")
    np.testing.assert_allclose(rows_of([tmp_path / "a.png"], encoder), encoder.encode([picture]), atol=1e-6)


def test_a_version_of_a_network_is_that_of_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_timm(monkeypatch, lambda name, **options: Tiny(2.0))
    first = load("timm:resnet18").version
    assert re.fullmatch(r"timm 1.0, preprocessing 1, weights [0-9a-f]{16}", first)
    assert load("timm:resnet18").version == first
    fake_timm(monkeypatch, lambda name, **options: Tiny(2.0001))
    assert load("timm:resnet18").version != first


def test_networks_that_timm_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_timm(monkeypatch, lambda name, **options: Tiny())
    with pytest.raises(
        ValueError, match=r"timm has no network 'resnt18': did you mean timm:resnet18 or timm:resnet50\?"
    ):
        load("timm:resnt18").encode([noise(8, 8, 3)])


def offline(*given: Any, **options: Any) -> Any:
    raise ConnectionError("We couldn't connect. Try again.\nDetails follow")


def test_weights_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", "/somewhere")
    fake_timm(monkeypatch, offline)
    names = types.SimpleNamespace(from_pretrained=offline)
    fake(monkeypatch, "transformers", AutoModel=names, AutoImageProcessor=names)
    tags = {"list_models": lambda: ["ViT-B-32"], "list_pretrained_tags_by_model": lambda model: ["openai", "laion2b"]}
    fake(monkeypatch, "open_clip", create_model=offline, **tags)
    for name in ("timm:resnet18", "timm:hf-hub:a/b", "hf:a/b", "open_clip:ViT-B-32/openai", "open_clip:hf-hub:a/b"):
        message = (
            rf"the weights of {name} cannot be had: We couldn't connect \(they are fetched when first used: where "
            r"there is no network, .* copy the cache, /somewhere, or export the network to ONNX and use onnx:FILE\)"
        )
        with pytest.raises(OSError, match=message):
            load(name).encode([noise(8, 8, 3)])
    with pytest.raises(
        ValueError, match=r"must say whose weights, as open_clip:ViT-B-32/TAG; TAG may be openai, laion2b"
    ):
        load("open_clip:ViT-B-32").encode([noise(8, 8, 3)])


def test_networks_of_open_clip(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Clip(Tiny):
        def __init__(self) -> None:
            super().__init__(3.0)
            config = {"size": 8, "mean": (0.1,) * 3, "std": (0.5,) * 3, "interpolation": "bicubic"}
            self.visual = types.SimpleNamespace(preprocess_cfg={**config, "resize_mode": "squash", "fill_color": 0})

        def encode_image(self, images: torch.Tensor) -> torch.Tensor:
            return self(images)

    def create(name: str, pretrained: str | None) -> Clip:
        asked.append((name, pretrained))
        return Clip()

    tags = {"list_models": lambda: ["ViT-B-32"], "list_pretrained_tags_by_model": lambda model: ["openai"]}
    fake(monkeypatch, "open_clip", create_model=create, **tags)
    picture = noise(20, 30, 3)
    wants = Preprocessing((8, 8), (0.1,) * 3, (0.5,) * 3, resize="squash")
    for name, expected in (
        ("open_clip:ViT-B-32/openai", ("ViT-B-32", "openai")),
        ("open_clip:hf-hub:a/b", ("hf-hub:a/b", None)),
    ):
        encoder = load(name)
        np.testing.assert_allclose(encoder.encode([picture])[0], 3 * wants(picture).mean((0, 1)), atol=1e-5)
        assert asked.pop() == expected
        assert encoder.version.startswith("open_clip_torch 3.0, ")


class Output(types.SimpleNamespace):
    """What networks of transformers return."""


class Transformer(Tiny):
    """Tokens, the first of which is the mean; with a pooling that was or was not trained."""

    def __init__(self) -> None:
        super().__init__(1.0)
        self.pooler = torch.nn.Linear(3, 3)  # of random weights

    def forward(self, pixel_values: torch.Tensor) -> Output:  # type: ignore[override]
        means = pixel_values.mean((2, 3))
        return Output(last_hidden_state=torch.stack([means, means * 0], 1), pooler_output=means * 10)


class Convolutions(Tiny):
    def forward(self, pixel_values: torch.Tensor) -> Output:  # type: ignore[override]
        return Output(last_hidden_state=pixel_values)


class Contrastive(Tiny):
    def get_image_features(self, pixel_values: torch.Tensor) -> torch.Tensor:
        return pixel_values.mean((2, 3)) * 5


class NewContrastive(Tiny):
    def get_image_features(self, pixel_values: torch.Tensor) -> Output:
        return Output(pooler_output=pixel_values.mean((2, 3)) * 6)


class Processor:
    """Every fourth pixel of a square, channels first, as a processor of transformers returns it."""

    size: Any = {"shortest_edge": 8}  # noqa: RUF012

    def __call__(self, images: list[np.ndarray], return_tensors: str, input_data_format: str) -> dict[str, np.ndarray]:
        assert (return_tensors, input_data_format) == ("np", "channels_last")
        return {"pixel_values": np.stack([image[::4, ::4].transpose(2, 0, 1) / 255 for image in images])}


def fake_transformers(
    monkeypatch: pytest.MonkeyPatch, network: Callable[[], Any], missing: tuple[str, ...] = ()
) -> None:
    model = types.SimpleNamespace(
        from_pretrained=lambda name, output_loading_info: (network(), {"missing_keys": missing})
    )
    processor = types.SimpleNamespace(from_pretrained=lambda name: Processor())
    fake(monkeypatch, "transformers", AutoModel=model, AutoImageProcessor=processor)


@pytest.mark.parametrize(
    ("network", "missing", "factor"),
    [
        (Transformer, (), 10),
        (Transformer, ("pooler.weight", "pooler.bias"), 1),
        (Convolutions, (), 1),
        (Contrastive, (), 5),
        (NewContrastive, (), 6),
    ],
)
def test_networks_of_transformers(
    network: Callable[[], Any], missing: tuple[str, ...], factor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_transformers(monkeypatch, network, missing)
    encoder = load("hf:facebook/dinov2-base")
    picture = noise(32, 32, 3)
    np.testing.assert_allclose(encoder.encode([picture])[0], factor * picture[::4, ::4].mean((0, 1)) / 255, rtol=1e-5)
    grey = encoder.encode([picture[..., 0]])
    np.testing.assert_array_equal(grey, encoder.encode([picture[..., :1].repeat(3, 2)]))
    assert (encoder.size, encoder.enough, encoder.n_features) == (8, 16, 3)
    if missing:  # weights that are drawn at random are not used, and not part of the version
        assert load("hf:facebook/dinov2-base").version == encoder.version


def test_networks_of_transformers_that_are_not_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_transformers(monkeypatch, Transformer, ("factor", "pooler.weight"))
    with pytest.raises(ValueError, match="hf:a/b lacks weights of its network, factor among them"):
        load("hf:a/b").encode([noise(8, 8, 3)])


def test_pictures_that_would_be_too_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_transformers(monkeypatch, Transformer)
    path = tmp_path / "long.png"
    path.write_bytes(saved(noise(1, 65, 3), "PNG"))
    files = encode_files([path], load("hf:a/b"))
    assert list(files) == []
    assert re.match(rf"{path} cannot be encoded: hf:a/b takes no picture that is 64 times", files.reasons[0])


@pytest.mark.parametrize(
    ("size", "crop", "expected"),
    [
        ({"shortest_edge": 256}, {"height": 224, "width": 224}, 256),
        ({"height": 224, "width": 200}, None, 224),
        ({"longest_edge": 300, "shortest_edge": None}, None, 300),
        (None, {"height": 96, "width": 96}, 96),
        (None, None, 224),
    ],
)
def test_sizes_of_processors(size: Any, crop: Any, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Processor, "size", size)
    monkeypatch.setattr(Processor, "crop_size", crop, raising=False)
    fake_transformers(monkeypatch, Transformer)
    assert load("hf:a/b").size == expected


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [
        ("timm:resnet18", "timm", "timm"),
        ("open_clip:ViT-B-32/openai", "open_clip", "open_clip_torch"),
        ("hf:a/b", "transformers", "transformers"),
    ],
)
def test_libraries_that_are_missing(name: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ModuleNotFoundError, match=f"^{name} needs {module}, which is not installed: pip install {package}$"
    ):
        load(name)


def test_what_a_library_needs_itself_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "timm.py").write_text("import no_such_vision\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"timm:resnet18 needs no_such_vision, .*: pip install timm"):
        load("timm:resnet18").encode([noise(8, 8, 3)])


def test_networks_of_libraries_can_be_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_transformers(monkeypatch, Contrastive)
    fake_timm(monkeypatch, lambda name, **options: Tiny())
    pictures = [noise(32, 32, 3), noise(40, 40, 3)]
    for name, factor in (("timm:resnet18", 2), ("hf:a/b", 5)):
        encoder = load(name)
        assert isinstance(encoder, TorchEncoder)
        network, images = encoder.network(), encoder.preprocess(pictures[:1])
        assert not network.training
        rows = network(images)
        np.testing.assert_allclose(rows.detach().numpy(), encoder.encode(pictures[:1]), rtol=1e-5)
        np.testing.assert_allclose(rows.detach().numpy(), factor * images.mean((2, 3)).numpy(), rtol=1e-5)
        (weight,) = network.parameters()
        assert weight.requires_grad


def test_a_copy_of_a_network_has_weights_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_timm(monkeypatch, lambda name, **options: Tiny())
    encoder = load("timm:resnet18")
    assert isinstance(encoder, TorchEncoder)
    network, images = encoder.network(), encoder.preprocess([noise(8, 8, 3)])
    before = network(images).detach().numpy()
    other = copy.deepcopy(network)
    with torch.no_grad():
        next(other.parameters()).mul_(3)
    np.testing.assert_allclose(other(images).detach().numpy(), 3 * before, rtol=1e-5)
    np.testing.assert_array_equal(network(images).detach().numpy(), before)
    np.testing.assert_allclose(encoder.encode([noise(8, 8, 3)]), before, rtol=1e-5)
