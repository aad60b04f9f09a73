"""A cache for each test alone."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of each test's own, and no network by accident: clients are not found."""
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path
