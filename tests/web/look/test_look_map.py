"""The map's routes: its page, its points, its sheets of thumbnails, and making it beside the server."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from helpers.looking import N_ITEMS, OWN, page, problem, token, until
from helpers.pages import HOSTILE
from helpers.shops import DAMAGED, MISSING, make_shop
from lookalike.study.map import MapSettings, make_map
from lookalike.study.study import Study
from lookalike.web.look import map as shown_map
from lookalike.web.look.app import create_look_app
from lookalike.web.look.map import CELL, PER_SIDE, MapMaker, ShownMap
from lookalike.web.look.snapshot import Shelf
from lookalike.web.thumbnails import Thumbnails


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return make_shop(tmp_path_factory.mktemp("mapped"))


@pytest.fixture(scope="module")
def mapped(shop: Study) -> Iterator[TestClient]:
    """A study of which one map is made; others are not."""
    make_map(shop, "pixels")
    app = create_look_app(shop, thumbnails=Thumbnails(shop.path.parent / "thumbnails"))
    with TestClient(app, base_url=OWN) as opened:
        yield opened


def points(client: TestClient, **parameters: Any) -> Any:
    answer = client.get("/map/points", params={"model": "pixels", **parameters})
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.json()


def test_points_are_those_of_the_map(mapped: TestClient, shop: Study) -> None:
    said = points(mapped)
    assert said["ready"]
    assert sorted(said["ids"]) == sorted(shop.catalogue.ids.tolist())
    assert [shop.catalogue.ids[position] for position in said["positions"]] == said["ids"]
    assert (min(said["x"]), max(said["x"])) == (0, 65535) or (min(said["y"]), max(said["y"])) == (0, 65535)
    (category, colour) = (next(c for c in said["columns"] if c["name"] == name) for name in ("category", "colour"))
    assert [category["values"][value] for value in category["of"]] == [name.split("/")[0] for name in said["ids"]]
    assert colour["values"] == ["blue", "red"]
    assert said["fits"] is None
    groups = {name: group for name, group in zip(said["ids"], said["groups"], strict=True) if group >= 0}
    assert groups  # views of one product are near-duplicates by their pixels
    products = {(name.split("-")[0], group) for name, group in groups.items()}
    assert len(products) == len({product for product, _ in products})


def test_views_of_a_product_are_near_each_other(mapped: TestClient) -> None:
    said = points(mapped)
    places = np.array([said["x"], said["y"]]).T.astype(float)
    product = np.array([name.split("-")[0] for name in said["ids"]])
    distances = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert (product[distances.argmin(1)] == product).mean() > 0.95


def test_filters_say_which_points_fit(mapped: TestClient) -> None:
    said = points(mapped, **{"is.category": "hat"})
    assert [name for name, fits in zip(said["ids"], said["fits"], strict=True) if fits] == [
        name for name in said["ids"] if name.startswith("hat/")
    ]
    assert sum(points(mapped, q="p04-")["fits"]) == 6
    problem(mapped.get("/map/points", params={"model": "pixels", "is.nothing": "x"}), 404)
    problem(mapped.get("/map/points", params={"model": "nothing"}), 404)


def test_sheets_hold_the_thumbnails_of_neighbours(mapped: TestClient, shop: Study) -> None:
    said = points(mapped)
    assert said["sheets"] == {"count": 2, "cell": CELL, "side": PER_SIDE}
    answer = mapped.get("/map/sheets/0?model=pixels")
    assert answer.headers["content-type"] == "image/jpeg"
    sheet = np.asarray(Image.open(io.BytesIO(answer.content)))
    assert sheet.shape == (CELL * PER_SIDE, CELL * PER_SIDE, 3)
    for place, name in enumerate(said["ids"][: PER_SIDE**2]):
        row, column = place // PER_SIDE * CELL, place % PER_SIDE * CELL
        cell = sheet[row + 4 : row + CELL - 4, column + 4 : column + CELL - 4].astype(float)
        if name in (MISSING, DAMAGED):
            assert cell.std((0, 1)).max() < 3
        else:
            own = np.asarray(Image.open(shop.path.parent / "photos" / name).convert("RGB").resize((CELL, CELL)))
            assert np.abs(cell.mean((0, 1)) - own[4:-4, 4:-4].mean((0, 1))).max() < 6, name
    tag = answer.headers["etag"]
    assert mapped.get("/map/sheets/0?model=pixels", headers={"if-none-match": tag}).status_code == 304
    for wrong in ("2", "-1", "x", "٣", "9" * 20, "1e0"):
        assert "2 sheets" in problem(mapped.get(f"/map/sheets/{wrong}?model=pixels"), 404)
    problem(mapped.get("/map/sheets/0?model=coarse"), 404)


def test_the_page_names_the_model_and_the_hostile_is_text(mapped: TestClient, hostile: TestClient) -> None:
    read = page(mapped, "/map", model="pixels")
    assert "Map of 72 items" in read.text
    assert "pixels finds alike" in read.text
    assert any(attributes.get("href") == "/map" for _, attributes in page(mapped, "/").found)
    assert HOSTILE in page(hostile, "/map").text
    problem(mapped.get("/map?model=ranked"), 404)


def test_a_map_is_made_beside_the_server(mapped: TestClient, shop: Study) -> None:
    assert points(mapped, model="coarse") == {"ready": False, "making": False, "problem": None, "other": None}
    problem(mapped.post("/map/make?model=coarse"), 422)
    problem(mapped.post("/map/make?model=coarse", headers={"x-csrf-token": "0" * 64}), 403)
    begun = mapped.post("/map/make?model=coarse", headers={"x-csrf-token": token(mapped)})
    assert begun.json()["making"]
    assert points(mapped, model="phash")["other"] == "coarse"  # one at a time
    mapped.post("/map/make?model=phash", headers={"x-csrf-token": token(mapped)})
    until(lambda: points(mapped, model="coarse")["ready"])
    assert shop.map_path("coarse").is_file()
    assert len(points(mapped, model="coarse")["ids"]) == N_ITEMS
    assert not shop.map_path("phash").exists()


def test_a_map_that_cannot_be_made_says_why(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    study = make_shop(tmp_path)
    maker = MapMaker()
    (study.path / "maps").write_text("in the way")
    maker.make(study, "coarse")
    until(lambda: not maker.state("coarse")["making"])
    assert "exists" in maker.state("coarse")["problem"]
    monkeypatch.setattr(shown_map, "WORKER", ["-c", "raise SystemExit(3)"])
    maker.make(study, "coarse")
    until(lambda: not maker.state("coarse")["making"])
    assert "ended early" in maker.state("coarse")["problem"]


def test_the_end_of_the_server_ends_the_making(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = MapMaker()
    monkeypatch.setattr(shown_map, "WORKER", ["-c", "import time; time.sleep(600)"])
    with maker.running():
        maker.make(make_shop(tmp_path), "coarse")
        assert maker.state("coarse")["making"]
    until(lambda: not maker.state("coarse")["making"])


def test_a_damaged_model_has_no_map_and_says_so(tmp_path: Any) -> None:
    study = make_shop(tmp_path)
    (study.path / "models" / "phash.npz").write_bytes(b"PK")
    with TestClient(create_look_app(study), base_url=OWN) as client:
        assert "phash.npz" in problem(client.get("/map/points?model=phash"), 422)


def test_the_order_of_sheets_follows_the_map(shop: Study) -> None:
    made = make_map(shop, "pixels", MapSettings(iterations=300))
    shown = ShownMap(Shelf(shop), made)
    places = made.points[shown.order]
    steps = np.linalg.norm(np.diff(places, axis=0), axis=1).mean()
    shuffled = np.random.default_rng(0).permutation(len(places))
    assert steps < 0.6 * np.linalg.norm(np.diff(places[shuffled], axis=0), axis=1).mean()
