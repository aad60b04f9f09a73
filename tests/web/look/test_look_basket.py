"""The basket's routes: tags and exports, and everything that they refuse."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from helpers.looking import OWN, ids, page, problem, token
from helpers.pages import HOSTILE
from helpers.shops import MISSING, make_shop
from lookalike.study.study import Study
from lookalike.study.tags import add_tag, read_tags, remove_tag, tags_path
from lookalike.web.look import basket
from lookalike.web.look.app import create_look_app
from lookalike.web.thumbnails import Thumbnails

HATS = ["hat/p01-0.png", "hat/p01-1.png", "hat/p04-2.png"]


@pytest.fixture
def tagged(study: Study) -> Iterator[Study]:
    add_tag(study, "nice", HATS)
    yield study
    tags_path(study).unlink(missing_ok=True)


def send(client: TestClient, path: str, **body: Any) -> Any:
    return client.post(f"/basket/{path}", json=body, headers={"x-csrf-token": token(client)})


def test_tags_are_given_and_filter_everything(client: TestClient, study: Study) -> None:
    try:
        said = send(client, "tags", ids=[*HATS, "no longer.png"], tag=" nice ").json()
        assert said == {"changed": 3, "gone": 1, "tags": {"nice": 3}}
        assert read_tags(study).ids("nice") == tuple(HATS)
        grid = page(client, "/", tag="nice")
        assert sorted(ids(grid)) == HATS
        assert "3 of 72 items" in grid.text
        assert "nice (3)" in page(client, "/").text
        assert sorted(ids(page(client, "/like", item="shoe/p02-0.png", tag="nice", model="pixels"))) == HATS
        assert sorted(ids(page(client, "/", tag="nice", q="p04"))) == HATS[2:]
        assert "your tags nice" in page(client, "/like", item=HATS[0]).text
        assert "3 of 72 items" in page(client, "/map", tag="nice").text
        said = send(client, "tags", ids=HATS[:1], tag="nice", remove=True).json()
        assert said == {"changed": 1, "gone": 0, "tags": {"nice": 2}}
        assert "has the tag 'other'" in problem(client.get("/?tag=other"), 404)
    finally:
        remove_tag(study, "nice")


def test_links_keep_the_tag(client: TestClient, tagged: Study) -> None:
    read = page(client, "/", tag="nice")
    cells = [str(attributes["href"]) for tag, attributes in read.found if "data-cell" in attributes]
    assert all("tag=nice" in link for link in cells)


def test_markup_in_a_tag_is_text(client: TestClient, study: Study) -> None:
    tag = HOSTILE[:50]
    try:
        assert send(client, "tags", ids=HATS, tag=tag).status_code == 200
        for path, more in (("/", {}), ("/like", {"item": HATS[0]}), ("/map", {})):
            read = page(client, path, **more)
            assert tag in " ".join(read.words) or path != "/"
            assert not [attributes for name, attributes in read.found if name == "img" and "onerror" in attributes]
    finally:
        remove_tag(study, tag)


def test_a_damaged_file_of_tags_is_told_and_all_else_goes_on(client: TestClient, study: Study) -> None:
    tags_path(study).write_text("nothing\n")
    try:
        assert "Tags cannot be shown" in page(client, "/").text
        problem(send(client, "tags", ids=HATS, tag="x"), 422)
    finally:
        tags_path(study).unlink()


def test_csv_and_paths(client: TestClient, tagged: Study) -> None:
    answer = send(client, "export", ids=[*HATS, "x"], form="csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["x-gone"] == "1"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(row["id"], row["category"], row["study_tags"]) for row in rows] == [(hat, "hat", "nice") for hat in HATS]
    paths = send(client, "export", ids=HATS, form="paths").text.splitlines()
    assert [Path(path).is_file() for path in paths] == [True] * 3


def test_links(client: TestClient, study: Study) -> None:
    said = send(client, "export", ids=[*HATS, MISSING], form="links").json()
    assert (said["links"], said["missing"], said["gone"]) == (3, 1, 0)
    assert Path(said["folder"]).parent == study.path / "exports"
    assert len(list(Path(said["folder"]).iterdir())) == 3


def test_queries_are_replaced_only_when_that_is_confirmed(tmp_path: Path) -> None:
    study = make_shop(tmp_path)
    study.remove_model("ranked")
    with TestClient(create_look_app(study, thumbnails=Thumbnails(tmp_path / "small")), base_url=OWN) as client:
        asked = send(client, "export", ids=HATS, form="queries").json()
        assert asked == {"asks": True, "before": 72, "after": 3}
        assert len(Study.open(study.path).queries) == 72
        said = send(client, "export", ids=HATS, form="queries", confirmed=True).json()
        assert said == {"queries": 3, "before": 72, "gone": 0}
        assert Study.open(study.path).queries.ids.tolist() == HATS


def test_a_study_that_holds_its_queries_refuses_others(client: TestClient, study: Study) -> None:
    words = problem(send(client, "export", ids=HATS, form="queries", confirmed=True), 422)
    assert "was added with queries of its own" in words
    assert len(Study.open(study.path).queries) == 72


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("tags", {}, 422), ("tags", {"ids": [], "tag": "x"}, 422), ("tags", {"ids": ["a"]}, 422),
        ("tags", {"ids": "a", "tag": "x"}, 422), ("tags", {"ids": [1], "tag": "x"}, 422),
        ("tags", {"ids": HATS, "tag": "x" * 51}, 422), ("tags", {"ids": HATS, "tag": "a\nb"}, 422),
        ("tags", {"ids": ["gone"], "tag": "x"}, 422), ("tags", {"ids": HATS, "tag": "x", "more": 1}, 422),
        ("tags", {"ids": ["a" * 2001], "tag": "x"}, 422), ("tags", {"ids": HATS, "tag": "none", "remove": True}, 422),
        ("export", {"ids": HATS}, 422), ("export", {"ids": HATS, "form": "zip"}, 422),
        ("export", {"ids": ["gone"], "form": "csv"}, 422), ("export", {"ids": ["../../x"], "form": "links"}, 422),
        ("export", {"ids": HATS, "form": "queries", "confirmed": "yes"}, 422),
    ],
)  # fmt: skip
def test_what_is_no_basket_is_refused(client: TestClient, study: Study, path: str, body: Any, status: int) -> None:
    problem(send(client, path, **body), status)
    assert not tags_path(study).exists()


def test_baskets_are_bounded_and_proven(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(basket, "MOST", 2)
    assert "at most 2 items" in problem(send(client, "export", ids=HATS, form="csv"), 413)
    for path, body in (("/basket/tags", {"ids": HATS, "tag": "x"}), ("/basket/export", {"ids": HATS, "form": "csv"})):
        headers = {"content-type": "application/json"}
        content = json.dumps(body)
        problem(client.post(path, content=content, headers={**headers, "x-csrf-token": "0" * 64}), 403)
        own = {**headers, "x-csrf-token": token(client)}
        problem(client.post(path, content=content, headers={**own, "origin": "http://evil.example"}), 403)
        problem(client.post(path, content=content, headers={**own, "host": "evil.example"}), 403)
        problem(client.post(path, content=b"\xff{", headers=own), 422)
        problem(client.get(path), 405)


def test_a_study_that_can_only_be_read_says_so(
    client: TestClient, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Study, "can_change", property(lambda _: False))
    for path, body in (("tags", {"tag": "x"}), ("export", {"form": "links"})):
        assert "can only be read" in problem(send(client, path, ids=HATS, **body), 403)
    assert "can only be read" in problem(client.post("/map/make", headers={"x-csrf-token": token(client)}), 403)
