"""Studies to judge, and databases for their votes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.benches import Bench
from helpers.judges import Server, make_study
from lookalike.study.study import Study


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_study(tmp_path_factory.mktemp("template") / "study").path


@pytest.fixture(params=["sqlite", "postgresql"])
def bench(request: pytest.FixtureRequest, tmp_path: Path, template: Path, server: Server) -> Iterator[Bench]:
    shutil.copytree(template, tmp_path / "study")
    made = Bench(
        Study.open(tmp_path / "study"), server.new_database() if request.param == "postgresql" else None, server
    )
    yield made
    made.close()


@pytest.fixture
def study(tmp_path: Path, template: Path) -> Study:
    shutil.copytree(template, tmp_path / "study")
    return Study.open(tmp_path / "study")
