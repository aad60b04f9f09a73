"""Files that an earlier version wrote are read, and give the same numbers and codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers import old_files

WRITTEN = Path(__file__).parent / "data" / "old"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy, since opening a study writes to it."""
    shutil.copytree(WRITTEN, tmp_path / "old")
    return tmp_path / "old"


def near(value: Any) -> Any:
    """The same value, in which numbers may differ by rounding."""
    if isinstance(value, dict):
        return {key: near(part) for key, part in value.items()}
    if isinstance(value, list):
        return [near(part) for part in value]
    return pytest.approx(value, rel=1e-12, abs=1e-12) if isinstance(value, float) else value


def without_news(value: Any, old: Any) -> Any:
    """The value without what earlier versions did not tell: keys of dictionaries that the old one does not have."""
    if isinstance(value, dict) and isinstance(old, dict):
        return {key: without_news(part, old[key]) for key, part in value.items() if key in old}
    if isinstance(value, list) and isinstance(old, list) and len(value) == len(old):
        return [without_news(part, before) for part, before in zip(value, old, strict=True)]
    return value


def test_old_files_give_the_same_numbers(folder: Path) -> None:
    expected = json.loads((WRITTEN / "answers.json").read_text())
    assert without_news(old_files.answers(folder), expected) == near(expected)
    assert len(expected) > 25


def test_training_goes_on_from_an_old_checkpoint(folder: Path, tmp_path: Path) -> None:
    expected = json.loads((WRITTEN / "answers.json").read_text())
    assert old_files.trained_on(folder, tmp_path) == expected["learned"]
