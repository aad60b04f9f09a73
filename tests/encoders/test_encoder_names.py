"""Encoders by name, names that no encoder has, and their options."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.encoder_images import noise
from helpers.onnx_models import mean_model, written
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.encoders import load


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "phsh",
            r"no encoder 'phsh': did you mean phash\? Known are .*, and onnx:FILE, timm:NAME, open_clip:NAME, hf:NAME",
        ),
        ("color", r"did you mean colour\?"),
        ("model.onnx", r"did you mean onnx:model.onnx\?"),
        ("onx:model.onnx", r"did you mean onnx:model.onnx\?"),
        ("openclip:ViT-B-32", r"did you mean open_clip:ViT-B-32\?"),
        ("onnx:", r"onnx: needs a file behind its colon"),
        ("hf:", r"hf: needs a name behind its colon"),
        (__file__, r"it is a file, but not an encoder"),
    ],
)
def test_names_that_are_none(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(name)


def test_options_by_name(tmp_path: Path) -> None:
    assert load("EfficientNet-Lite0", size=64).size == 64
    name = written(tmp_path / "M.onnx", mean_model())
    assert load(name.replace("onnx:", "ONNX:"), threads=1).encode([noise(8, 8, 3)]).shape == (1, 3)
    with pytest.raises(ValueError, match="efficientnet-lite0 has no option 'threads': it has size"):
        load("efficientnet-lite0", threads=3)
    with pytest.raises(ValueError, match="phash has no option 'size': it has none"):
        load("phash", size=3)
    with pytest.raises(ValueError, match="has no option 'size': it has threads, providers"):
        load(name, size=3)
