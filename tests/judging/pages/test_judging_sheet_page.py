"""The expert's page with a sheet: which page is served, what it asks for, and what `judge` and `judge status` say."""

from __future__ import annotations

import io
import json
import re
import uuid
from itertools import groupby

import pytest
from PIL import Image

from helpers.panels import SECRET, K, Visitor, serving, vase
from helpers.visitors import NOT_SIMILAR, SIMILAR, World, problem, sent
from lookalike.cli import main
from lookalike.judging.store.sheets import Layout, read_layout, set_layout
from lookalike.judging.store.store import Store
from lookalike.study.study import Study


def on_sheet(n: int, place: int, common: str) -> str:
    """The id that a page makes for an answer on a sheet."""
    return f"{common[:14]}8{common[15:32]}{n:02x}{place:02x}"


def test_the_page_follows_the_layout(world: World) -> None:
    def scripts() -> list[str]:
        return re.findall(r'src="/static/(\w+\.js)', world.expert().client.get("/judge").text)

    pairs = scripts()
    set_layout(world.store, "sheet", 6)
    sheet = scripts()
    assert [set(pairs) - set(sheet), set(sheet) - set(pairs)] == [{"judge.js"}, {"sheet.js"}]  # all else is the same
    (facts,) = [a for _, a in world.expert().read("/judge").found if "data-sheet" in a]
    assert facts["data-sheet"] == "6"
    assert json.loads(facts["data-steps"] or "") == ["Not similar", "Similar"]
    for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', world.expert().client.get("/judge").text):
        assert world.stranger().client.get(address).status_code == 200


def test_a_sheet_is_handed_out_blind_and_with_tiles_for_one_expert(world: World, study: Study) -> None:
    large = study.path.parent / "photos" / study.pool().pairs[0][1]
    vase(1, 1000).save(large)
    ann, bob = world.expert("ann"), world.expert("bob")
    answer = ann.post("/api/claim", {"n": 13, "sheet": 12, "recent": True})
    assert not re.search(r"vase-\d|\b(bob|eve|score|rank|model|gold)\b", answer.text)
    assert SECRET.replace(" ", "-") not in answer.text
    tasks = answer.json()["tasks"]
    assert [len(list(group)) for _, group in groupby(task["query"] for task in tasks)] == [K, K, K]
    assert set(tasks[0]) == {"pair", "query", "item", "tile", "answered"}
    sizes = set()
    for task in tasks:
        image = ann.client.get(task["tile"])
        assert (image.status_code, image.headers["content-type"]) == (200, "image/jpeg")
        sizes.add(Image.open(io.BytesIO(image.content)).size)
        assert "for you" in problem(bob.client.get(task["tile"]), 404)
        wrong = task["tile"].replace("/tile/", "/item/")
        assert problem(ann.client.get(wrong), 404)  # an address is for one size
    assert sizes == {(160, 160), (640, 640)}  # small files are enlarged, large ones made smaller
    other = bob.ask("/api/claim", {"n": 1, "sheet": 12})["tasks"]
    mine = {world.same(task["pair"], "ann", "bob"): place for place, task in enumerate(tasks[:K])}
    assert sorted(mine[task["pair"]] for task in other) == list(range(K))  # the same candidates
    assert [mine[task["pair"]] for task in other] != list(range(K))  # in another order


def test_a_sheet_is_kept_once_and_can_be_undone_as_a_whole(world: World) -> None:
    set_layout(world.store, "sheet")
    ann = world.expert()
    tasks, common = ann.ask("/api/claim", {"n": 1, "sheet": 24})["tasks"], str(uuid.uuid4())
    votes = [
        sent(task["pair"], SIMILAR if place == 0 else NOT_SIMILAR, client=on_sheet(K, place, common), seconds=0.7)
        for place, task in enumerate(tasks)
    ]
    for status in ("kept", "known"):
        found = ann.ask("/api/votes", {"votes": votes})
        assert [vote["status"] for vote in found["votes"]] == [status] * K
    assert found["progress"]["done"] == K
    recent = ann.ask("/api/claim", {"n": 1, "sheet": 24, "recent": True})["recent"]
    assert [(task["pair"], task["answered"]) for task in reversed(recent)] == [
        (vote["pair"], vote["answer"]) for vote in votes
    ]
    assert world.store.votes().seconds.tolist() == [0.7] * K
    many = {"votes": [sent(tasks[0]["pair"]) for _ in range(200)]}
    assert ann.post("/api/votes", many).status_code == 200
    assert len(json.dumps({"votes": many["votes"][:24]})) < 64_000 / 10  # a sheet is far from the limit of a request


def test_judge_remembers_the_layout(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(study.path, ["ann"], "--layout", "sheet", "--sheet-size", "4", "--experts-per-pair", "1") as server:
        visitor = Visitor(server.experts["ann"])
        assert 'data-sheet="4"' in visitor.page
        tasks = visitor.post("/api/claim", n=1, sheet=4)["tasks"]
        assert len(tasks) == 3  # of five: three and two
        votes = [
            {"client": on_sheet(3, place, str(uuid.uuid4())), "pair": task["pair"], "answer": 0}
            for place, task in enumerate(tasks)
        ]
        visitor.post("/api/votes", votes=votes)
    with Store.open(None, study) as store:
        assert read_layout(store) == Layout("sheet", 4)
        set_layout(store, "pairs")
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["judge", "status", str(study.path)])
    assert "3 votes were given on sheets: their seconds are equal shares" in capsys.readouterr().out
    for options, words in {
        ("--sheet-size", "6"): "--sheet-size is for sheets",
        ("--layout", "sheet", "--sheet-size", "25"): "25",
        ("--layout", "grid"): "sheet",
    }.items():
        with pytest.raises(SystemExit, match=r"^2$"):
            main(["judge", str(study.path), "--port", "0", *options])
        assert words in capsys.readouterr().err
