"""Fixtures of all tests of studies."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.photos import write
from helpers.small_study import SHOP, WILD
from lookalike.discovery import vote_log
from lookalike.study import folder
from lookalike.study.study import Study


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for number in range(6):
        write(folder / ("cats" if number < 3 else "dogs") / f"{number}.png", number)
    return folder


@pytest.fixture
def closed(tmp_path: Path) -> Study:
    return Study.create(tmp_path / "closed", "shoes & hats", SHOP, ["a", "c"])


@pytest.fixture
def wild(tmp_path: Path) -> Study:
    return Study.create(tmp_path / "wild", "wild ones", SHOP, WILD, wild=True)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "WAIT", 0.1)
    monkeypatch.setattr(vote_log, "WAIT", 0.1)
