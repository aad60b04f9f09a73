"""The page Duplicates, asked as its script asks: pairs, decisions, what is done with files, and what is refused."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from helpers.copied_photos import copied_study
from helpers.looking import OWN, problem
from helpers.pages import Reader
from helpers.photos import command, contents
from lookalike.study.duplicate_decisions import DecisionLog
from lookalike.study.study import Study
from lookalike.web.look.app import create_look_app

NEAR = {"model": "colour", "near": 0.9}


class Reviewer:
    """A browser on the page Duplicates."""

    def __init__(self, study: Study, hosts: tuple[str, ...] = ("127.0.0.1",)) -> None:
        self.study = study
        self.client = TestClient(create_look_app(study, hosts=hosts), base_url=OWN)
        found = re.search(r'data-csrf="([0-9a-f]{64})"', self.client.get("/duplicates").text)
        assert found
        self.token = found[1]

    def post(self, path: str, body: Any, **headers: str) -> Any:
        return self.client.post(f"/duplicates/{path}", json=body, headers={"x-csrf-token": self.token, **headers})

    def ask(self, path: str, body: Any) -> Any:
        answer = self.post(path, body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def plan(self, **asked: str) -> Any:
        return self.client.get("/duplicates/plan", params=asked).json()

    def decide(self, kind: str, first: str, second: str, **settings: Any) -> Any:
        made = {"id": str(uuid.uuid4()), "kind": kind, "first": first, "second": second}
        return self.ask("decide", {"decisions": [made], **settings})


def names(answer: Any) -> list[list[str]]:
    return [[item["id"] for item in pair["items"]] for pair in answer["pairs"]]


@pytest.fixture
def shop(tmp_path: Path) -> Study:
    return copied_study(tmp_path)


@pytest.fixture
def reviewer(shop: Study) -> Iterator[Reviewer]:
    opened = Reviewer(shop)
    with opened.client:
        yield opened


def test_same_bytes_and_same_looks_are_two_lists(reviewer: Reviewer, shop: Study) -> None:
    same, near = reviewer.ask("pairs", {}), reviewer.ask("pairs", NEAR)
    assert names(same) == [[f"holiday-by-the-sea-00{n}.png", f"sub/zz-copy-00{n}.png"] for n in range(4)]
    assert {pair["nearness"] for pair in same["pairs"]} == {"same bytes"}
    assert sorted(names(near)) == [[f"holiday-by-the-sea-00{n}.png", f"small-00{n}.png"] for n in range(4)]
    assert all(re.fullmatch(r"cosine 0\.\d{4}|cosine 1\.0000", pair["nearness"]) for pair in near["pairs"])
    first = near["pairs"][0]["items"][0]  # groups come in no order of names
    path = (shop.path / ".." / "photos" / first["id"]).resolve()
    assert first["path"] == str(path)
    assert (first["pixels"], first["bytes"]) == ([96, 72], path.stat().st_size)
    assert reviewer.client.get(first["view"]).headers["content-type"] == "image/jpeg"


def test_decisions_are_shared_with_the_command(reviewer: Reviewer, shop: Study, capsys: Any) -> None:
    sea, copy, small = "holiday-by-the-sea-000.png", "sub/zz-copy-000.png", "small-000.png"
    after = reviewer.decide("drop", copy, sea)
    assert (after["left"], after["dropped"]) == (3, 1)
    near = reviewer.ask("pairs", NEAR)
    assert [copy, small] in names(near)  # it stands for what was dropped, and is measured anew
    after = reviewer.decide("apart", copy, small, **NEAR)
    assert (after["left"], after["apart"]) == (3, 1)
    assert command("duplicates", str(shop.path), "--near", "0.9") == 0
    assert "1 pair set aside" in capsys.readouterr().out
    other = Reviewer(shop)  # another process would see the same
    assert sorted(pair[1] for pair in names(other.ask("pairs", NEAR))) == [f"small-00{n}.png" for n in (1, 2, 3)]
    assert command("duplicates", str(shop.path), "--decided") == 0
    assert f"copy  {sea}  (same bytes)" in capsys.readouterr().out


def test_undo_goes_back_to_the_pair(reviewer: Reviewer) -> None:
    for number in range(3):
        reviewer.decide("drop", f"holiday-by-the-sea-00{number}.png", f"sub/zz-copy-00{number}.png")
    last = reviewer.ask("pairs", {})["recent"][-1]
    assert last["second"] == "sub/zz-copy-002.png"
    undone = reviewer.ask("undo", {"batch": last["id"], "skip": [2, 3]})
    assert (undone["undone"], undone["place"], undone["left"]) == (1, 2, 2)
    assert names(undone)[0][1] == "sub/zz-copy-002.png"
    assert reviewer.ask("undo", {"batch": last["id"]})["undone"] == 0


def test_all_of_the_same_bytes_at_once(reviewer: Reviewer) -> None:
    batch = str(uuid.uuid4())
    assert reviewer.ask("accept", {"batch": batch})["left"] == 0
    assert reviewer.ask("pairs", {})["recent"][-1] | {"n": 4} == reviewer.ask("pairs", {})["recent"][-1]
    assert reviewer.ask("undo", {"batch": batch})["left"] == 4
    assert "look at the others" in problem(reviewer.post("accept", {"batch": batch, **NEAR}), 422)


def test_two_tabs_cannot_drop_both(reviewer: Reviewer, shop: Study) -> None:
    sea, copy = "holiday-by-the-sea-000.png", "sub/zz-copy-000.png"
    assert reviewer.decide("drop", sea, copy)["problems"] == []
    assert reviewer.decide("drop", copy, sea)["problems"] == [
        f"{copy} is dropped already: it cannot be the one that is kept."
    ]
    assert [*DecisionLog(shop.path).read().dropped] == [copy]


def test_move_and_put_back(reviewer: Reviewer, shop: Study, tmp_path: Path) -> None:
    before = contents(tmp_path / "photos")
    reviewer.ask("accept", {"batch": str(uuid.uuid4())})
    reviewer.decide("drop", "holiday-by-the-sea-001.png", "small-001.png", **NEAR)
    plan = reviewer.plan()
    assert (plan["files"], plan["same"], plan["folder"]) == (5, 4, str(tmp_path / "photos-copies"))
    assert plan["bytes"] == sum((tmp_path / "photos" / moved[0]).stat().st_size for moved in plan["moves"])
    assert contents(tmp_path / "photos") == before  # a dry run
    done = reviewer.ask("apply", {"way": "move", "folder": plan["folder"], "digest": plan["digest"]})
    assert done["files"] == 5
    moved = contents(tmp_path / "photos-copies")
    assert len(moved) == 5
    assert contents(tmp_path / "photos") | moved == before
    later = reviewer.plan()
    assert (later["files"], [entry["files"] for entry in later["done"]]) == (0, [5])
    assert reviewer.ask("pairs", {})["left"] == 0
    assert reviewer.ask("put-back", {"name": done["undo"]}) == {"files": 5}
    assert contents(tmp_path / "photos") == before
    assert "undone already" in problem(reviewer.post("put-back", {"name": done["undo"]}), 404)


def test_links_and_an_undo_that_no_longer_fits(reviewer: Reviewer, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    reviewer.ask("accept", {"batch": str(uuid.uuid4())})
    plan = reviewer.plan(way="link")
    done = reviewer.ask("apply", {"way": "link", "digest": plan["digest"]})
    assert (photos / "holiday-by-the-sea-002.png").samefile(photos / "sub" / "zz-copy-002.png")
    assert reviewer.plan(way="link")["files"] == 0
    (photos / "sub" / "zz-copy-001.png").unlink()
    (photos / "sub" / "zz-copy-001.png").write_bytes(b"another")
    before = contents(photos)
    assert "Nothing was undone" in problem(reviewer.post("put-back", {"name": done["undo"]}), 422)
    assert contents(photos) == before


def test_only_what_was_shown_is_done(reviewer: Reviewer, tmp_path: Path) -> None:
    before = contents(tmp_path)
    plan = reviewer.plan()
    assert "nothing to do" in problem(reviewer.post("apply", sent(plan)), 409)
    reviewer.decide("drop", "holiday-by-the-sea-000.png", "sub/zz-copy-000.png")
    assert "nothing was done" in problem(reviewer.post("apply", sent(plan)), 409)
    plan = reviewer.plan()
    moved = sent(plan) | {"folder": str(tmp_path / "elsewhere")}
    assert "nothing was done" in problem(reviewer.post("apply", moved), 409)
    for folder, words in (("copies", "a whole path"), (str(tmp_path / "photos" / "x"), "it is inside"),
                          (str(tmp_path), "not a new or empty folder"), ("/a\0b", "a whole path")):  # fmt: skip
        answer = reviewer.client.get("/duplicates/plan", params={"folder": folder})
        assert words in problem(answer, 422)
    (tmp_path / "photos" / "sub" / "zz-copy-000.png").write_bytes(b"another file by now")
    assert "nothing was done" in problem(reviewer.post("apply", sent(plan)), 409)
    kept = {name: content for name, content in contents(tmp_path).items() if "zz-copy-000" not in name}
    assert kept.items() >= {name: each for name, each in before.items() if "zz-copy-000" not in name}.items()
    assert not (tmp_path / "photos-copies").exists()


def test_tiles_and_counts_tell_of_copies(reviewer: Reviewer, tmp_path: Path) -> None:
    grid = reviewer.client.get("/")
    read = Reader(grid.text)
    assert "13 items 4 of them copies of 4 images" in read.text
    assert read.text.count("2 equal files") == 8
    paths = [attributes["data-path"] for _, attributes in read.found if "data-path" in attributes]
    assert str(tmp_path / "photos" / "sub" / "zz-copy-002.png") in paths
    assert "<span>holiday-by-the-sea</span><span>-000.png" not in grid.text  # the end has ten letters
    assert "<span>holiday-by-the-s</span><span>ea-000.png</span>" in grid.text
    like = Reader(reviewer.client.get("/like", params={"item": "holiday-by-the-sea-000.png"}).text)
    assert "12 items, 3 of them copies of 3 images" in like.text
    open_to_others = Reviewer(reviewer.study, hosts=("look.example",))
    assert str(tmp_path) not in open_to_others.client.get("/").text


def sent(plan: Any) -> dict[str, Any]:
    return {"way": "move", "folder": plan["folder"], "digest": plan["digest"]}


def test_a_page_that_others_can_open_moves_nothing(shop: Study, tmp_path: Path) -> None:
    reviewer = Reviewer(shop, hosts=("127.0.0.1", "look.example"))
    with reviewer.client:
        reviewer.ask("accept", {"batch": str(uuid.uuid4())})
        plan = reviewer.plan()
        assert plan["closed"]
        assert plan["command"] == "lookalike duplicates shop --decided --move FOLDER --apply"
        pairs = reviewer.ask("pairs", NEAR)
        assert str(tmp_path) not in str([plan, pairs])  # others need not know where files are
        body = {"way": "move", "folder": str(tmp_path / "new"), "digest": plan["digest"]}
        assert "this machine alone" in problem(reviewer.post("apply", body), 403)
        assert "this machine alone" in problem(reviewer.post("put-back", {"name": "2024-01-01-000000-000000"}), 403)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("path", ["pairs", "decide", "accept", "undo", "apply", "put-back"])
def test_posts_need_the_token_and_the_right_form(reviewer: Reviewer, path: str) -> None:
    assert reviewer.post(path, {}, **{"x-csrf-token": "0" * 64}).status_code == 403
    assert reviewer.post(path, {}, origin="http://evil.example").status_code == 403
    for body in ([], {"x": 1}, {"near": "1"}, {"decisions": [{}]}, {"batch": "x"}, {"n": 10**9}, {"skip": [-1]}):
        assert reviewer.post(path, body).status_code == 422
    big = {"x-csrf-token": reviewer.token, "content-type": "application/json"}
    assert reviewer.client.post(f"/duplicates/{path}", content=b" " * 5_000_000, headers=big).status_code == 413


def test_wrong_settings_are_sentences(reviewer: Reviewer, hostile: TestClient) -> None:
    assert "no model 'none'" in problem(reviewer.client.get("/duplicates?model=none"), 404)
    assert reviewer.client.get("/duplicates?keep=all").status_code == 422
    assert "above 0, up to 1" in problem(reviewer.post("pairs", {"model": "colour", "near": 1.5}), 422)
    assert "'x' is not among" in problem(reviewer.post("decide", {"decisions": [
        {"id": str(uuid.uuid4()), "kind": "drop", "first": "x", "second": "y"}]}), 422)  # fmt: skip
    page = hostile.get("/duplicates")
    assert page.status_code == 200
    token = re.search(r'data-csrf="([0-9a-f]{64})"', page.text)
    assert token
    answer = hostile.post("/duplicates/pairs", json={}, headers={"x-csrf-token": token[1]})
    assert "has no images" in problem(answer, 422)
    assert not any(text.strip() for text in Reader(page.text).scripts)
