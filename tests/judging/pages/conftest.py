"""A study of vases, and the judging app that serves it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from helpers.panels import make_vases
from helpers.visitors import OWN, World
from lookalike.study.study import Study


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judging")
    make_vases(folder, side=48)
    return folder


@pytest.fixture
def study(template: Path, tmp_path: Path) -> Study:
    shutil.copytree(template, tmp_path / "shop")
    return Study.open(tmp_path / "shop" / "study")


@pytest.fixture
def world(study: Study) -> Iterator[World]:
    made = World(study)
    with TestClient(made.app, base_url=OWN), made.store:
        yield made
