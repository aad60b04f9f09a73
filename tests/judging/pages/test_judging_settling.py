"""Notes, flags and verdicts over HTTP: blind between experts, on disk when acknowledged, text whatever is in them."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pyarrow.parquet as pq
import pytest

from helpers.pages import HOSTILE
from helpers.visitors import NOT_SIMILAR, SIMILAR, Browser, World, note, problem
from lookalike.discovery.votes import Votes
from lookalike.judging.store.machine_votes import MachineVotes, import_with_machines
from lookalike.judging.store.remarks import all_notes, all_verdicts


def disagree(world: World, n: int = 2) -> list[tuple[str, str]]:
    """Let ann and bob say the contrary of some pairs; these, as the organiser's queue has them."""
    ann, bob = world.expert("ann"), world.expert("bob")
    numbers = [task["pair"] for task in ann.claim(n)]
    assert ann.vote(*numbers) == ["kept"] * n
    assert bob.vote(*(world.same(number, "ann", "bob") for number in numbers), answer=NOT_SIMILAR) == ["kept"] * n
    tasks = [world.task("ann", number) for number in numbers]
    return [(task.query, task.item) for task in tasks if task is not None]


def shown(page: Any) -> tuple[str, str]:
    """The pair that the page of verdicts shows."""
    fields = dict(re.findall(r'name="(query|item)" value="([^"]*)"', page.text))
    return fields["query"], fields["item"]


def verdict(organiser: Browser, pair: tuple[str, str], answer: int, client: str, at: int = 0) -> Any:
    fields = {"query": pair[0], "item": pair[1], "answer": str(answer), "client": client, "at": str(at)}
    return organiser.form("/organise/verdict", **fields)


def test_a_note_is_kept_once_and_seen_by_the_organiser_alone(world: World) -> None:
    ann, bob = world.expert("ann"), world.expert("bob")
    (task, other, *_) = ann.claim()
    written = note(task["pair"], f"  {HOSTILE}\nsecond line ")
    for status in ("kept", "known"):
        assert ann.ask("/api/note", written) == {"status": status}
    assert problem(ann.post("/api/note", written | {"text": "x"}), 409)
    ann.ask("/api/note", note(other["pair"], "", "flag"))
    assert ann.vote(other["pair"]) == ["kept"]  # a flagged pair can be judged
    for body in (
        note(task["pair"], " "), note(task["pair"], "x" * 1001), note(task["pair"], "a\0b"), note(-1),
        note(task["pair"], kind="shout"), note(task["pair"], client="1"), {"pair": task["pair"]},
        note(task["pair"], more=1), note(task["pair"], text=3),  # type: ignore[arg-type]
    ):  # fmt: skip
        assert problem(ann.post("/api/note", body), 422)
    assert problem(ann.post("/api/note", note(123_456_789)), 404)
    assert problem(bob.post("/api/note", note(task["pair"])), 404)  # the number of another's page
    assert len(all_notes(world.store)) == 2
    for path in ("/judge",):
        assert "second line" not in bob.client.get(path).text
    assert "second line" not in bob.post("/api/claim", {"n": 24, "recent": True}).text
    organiser = world.organiser()
    page = organiser.read("/organise/notes")
    assert HOSTILE in page.text
    assert "Flagged as broken" in page.text
    assert "1 pair is flagged" in page.text
    assert "1 note, 1 pair flagged as broken" in organiser.read("/organise").text
    table = list(csv.reader(io.StringIO(organiser.client.get("/organise/export.csv?what=notes").text)))
    assert table[0] == ["query", "item", "expert", "kind", "text", "time"]
    assert [row[2:5] for row in table[1:]] == [["ann", "note", f"{HOSTILE}\nsecond line"], ["ann", "flag", ""]]
    for wrong in ("/organise/export.qrels?what=notes", "/organise/export.csv?what=secrets"):
        problem(organiser.client.get(wrong), 422)


def test_the_queue_of_disagreements_is_settled_without_names(world: World) -> None:
    pairs = disagree(world, 3)
    ann = world.expert("ann")
    recent = ann.ask("/api/claim", {"n": 1, "recent": True})["recent"]
    for task in recent:
        ann.ask("/api/note", note(task["pair"], "only the colour differs"))
        ann.ask("/api/note", note(task["pair"], "cut off", "flag"))
    votes = world.store.votes().digest
    organiser = world.organiser()
    page = organiser.client.get("/organise/verdicts")
    first = shown(page)
    assert first in pairs
    text = re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", page.text))
    assert "1 similar" in text
    assert "1 not similar" in text
    assert "only the colour differs" in text
    assert "cut off" in text
    assert not re.search(r"\b(ann|bob|eve)\b", text)  # without names
    assert verdict(organiser, first, SIMILAR, "v1").headers["location"] == "/organise/verdicts?at=0"
    assert verdict(organiser, first, SIMILAR, "v1").status_code == 303  # sent again
    problem(verdict(organiser, first, NOT_SIMILAR, "v1"), 409)
    second = shown(organiser.client.get("/organise/verdicts?at=0"))
    skipped = shown(organiser.client.get("/organise/verdicts?at=1"))
    assert {first, second, skipped} == set(pairs)
    assert verdict(organiser, second, -1, "v2").status_code == 303
    undone = organiser.client.get("/organise/verdicts?at=0&again=1")
    assert shown(undone) == second
    assert 'value="-1" data-act="unsure" data-key="Space" aria-pressed="true"' in undone.text
    assert shown(organiser.client.get("/organise/verdicts?again=2")) == first
    assert shown(organiser.client.get("/organise/verdicts?again=99")) == first
    assert verdict(organiser, first, -2, "v3").status_code == 303  # taken back
    assert all_verdicts(world.store).by_pair == {second: -1}
    assert shown(organiser.client.get("/organise/verdicts?at=0")) == first  # open again
    assert "Nothing more in the queue" in organiser.client.get("/organise/verdicts?at=9").text
    assert world.store.votes().digest == votes
    assert world.study.verdicts() == all_verdicts(world.store)
    rows = list(csv.reader(io.StringIO(organiser.client.get("/organise/export.csv?what=verdicts").text)))
    assert [row[2] for row in rows] == ["answer", "similar", "can't tell", "taken back"]
    exported = organiser.client.get("/organise/export.parquet?what=verdicts").content
    assert pq.read_table(io.BytesIO(exported)).column_names == ["query", "item", "answer", "time"]
    judged = organiser.client.get("/organise/export.qrels?rule=verdict").text
    assert len(judged.splitlines()) == len(pairs) - 1  # what is left open is not judged


def test_verdicts_that_cannot_be(world: World) -> None:
    (pair,) = disagree(world, 1)
    organiser = world.organiser()
    for answer in ("5", "-3", "", "x", "1.0"):
        fields = {"query": pair[0], "item": pair[1], "answer": answer, "client": "c", "at": "0"}
        problem(organiser.form("/organise/verdict", **fields), 422)
    problem(verdict(organiser, (pair[0], "nothing"), 1, "c"), 404)
    problem(verdict(organiser, pair, 1, ""), 422)
    problem(organiser.form("/organise/verdict", query=pair[0]), 422)
    organiser.token = "0" * 64
    problem(verdict(organiser, pair, 1, "c"), 403)
    assert all_verdicts(world.store).rows == ()


@pytest.mark.parametrize("path", ["/organise/view/query/99999", "/organise/view/side/1", "/organise/view/query/x"])
def test_the_organiser_sees_large_images_of_the_study_alone(world: World, path: str) -> None:
    organiser = world.organiser()
    assert organiser.client.get("/organise/view/item/1").headers["content-type"].startswith("image/")
    problem(organiser.client.get(path), 404)


def test_a_machine_is_a_row_beside_people_and_nothing_else_changes(world: World) -> None:
    pairs = disagree(world, 3)
    organiser = world.organiser()
    cards = re.search(r'(?s)<section class="cards".*?</section>', organiser.client.get("/organise").text)
    assert cards is not None
    queries, items = zip(*pairs, strict=True)
    answers = Votes(queries, items, ["some-vlm"] * 3, [1, 1, 0])
    machine = MachineVotes("some-vlm", answers, ["two bands"] * 3)
    import_with_machines(world.store, world.study, Votes([], [], [], []), [machine])
    page = organiser.client.get("/organise").text
    assert cards[0] in page
    assert re.search(r"some-vlm</span> <em class=\"chip machine\"", page)
    assert "Cohen’s kappa of some-vlm with ann" in page
    assert page.count("some-vlm") == 2  # no link, no disagreement
    assert "two bands" not in organiser.client.get("/organise/verdicts").text
    assert "two bands" not in organiser.client.get("/organise/notes").text
    assert "two bands" in organiser.client.get("/organise/notes?machines=true").text
    problem(organiser.form("/organise/add", name="some-vlm"), 422)
    rows = list(csv.DictReader(io.StringIO(organiser.client.get("/organise/export.csv").text)))
    assert {(row["expert"], row["machine"]) for row in rows} == {("ann", ""), ("bob", ""), ("some-vlm", "yes")}
