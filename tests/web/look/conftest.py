"""A shop, and the app in which visitors look at it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from helpers.looking import OWN, SECRET
from helpers.shops import make_hostile, make_shop
from lookalike.study.study import Study
from lookalike.web.look.app import create_look_app
from lookalike.web.thumbnails import Thumbnails


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("look")
    (folder / "secret.txt").write_text(SECRET)
    return make_shop(folder)


@pytest.fixture(scope="module")
def client(study: Study) -> Iterator[TestClient]:
    app = create_look_app(study, thumbnails=Thumbnails(study.path.parent / "thumbnails"), hosts=["look.example"])
    with TestClient(app, base_url=OWN) as opened:
        yield opened


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with TestClient(create_look_app(make_hostile(tmp_path_factory.mktemp("hostile"))), base_url=OWN) as opened:
        yield opened
