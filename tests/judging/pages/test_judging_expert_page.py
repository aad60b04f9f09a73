"""Joining by a link, the expert's page and what it asks for."""

from __future__ import annotations

import io
import re
import time
from dataclasses import replace
from typing import Any

import pytest
from PIL import Image
from starlette.testclient import TestClient

from helpers.pages import HOSTILE
from helpers.panels import SECRET
from helpers.visitors import CANT_TELL, N_PAIRS, NOT_SIMILAR, OWN, SIMILAR, World, problem, sent
from lookalike.judging.pages.app import create_judge_app, expert_link, organiser_link
from lookalike.judging.pages.links import EXPERT, Keys, Pass
from lookalike.judging.store.board import CHANGES
from lookalike.judging.store.types import StoreAwayError, StoreFullError
from lookalike.study.study import Study
from lookalike.web.thumbnails import Thumbnails

# Joining


def test_a_link_opens_a_session_and_leaves_the_address_bar(world: World) -> None:
    answer = world.stranger().client.get(world.link("ann"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/judge")
    assert answer.headers["cache-control"] == "no-store"
    (cookie,) = answer.headers.get_list("set-cookie")
    flags = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "samesite=lax", "path=/"} <= flags
    assert "secure" not in flags
    token = world.link("ann").rpartition("/")[2]
    assert token not in cookie
    browser = world.expert()
    assert token not in browser.client.get("/judge").text
    assert browser.client.get("/").headers["location"] == "/judge"
    assert world.organiser().client.get("/").headers["location"] == "/organise"


@pytest.mark.parametrize("way", ["told", "by a proxy"])
def test_behind_https_the_cookie_is_for_https_alone(world: World, study: Study, way: str) -> None:
    app = create_judge_app(study, world.store, world.keys, secure=way == "told")
    headers = {"x-forwarded-proto": "https"} if way == "by a proxy" else {}
    with TestClient(app, base_url=OWN, follow_redirects=False) as client:
        assert "; Secure" in client.get(world.link("ann"), headers=headers).headers["set-cookie"]


def test_cookies_of_two_studies_on_one_machine_are_two(world: World) -> None:
    other = Keys(b"x" * 32)
    app = create_judge_app(world.study, world.store, other)
    assert world.app is not app
    with TestClient(app, base_url=OWN, follow_redirects=False) as client:
        expert = world.store.expert("ann")
        assert expert is not None
        mine = client.get(expert_link(other, expert, OWN)).headers["set-cookie"].partition("=")[0]
    theirs = world.stranger().client.get(world.link("ann")).headers["set-cookie"].partition("=")[0]
    assert mine != theirs


def test_links_that_were_cut_changed_or_made_elsewhere_are_refused(world: World) -> None:
    token = world.link("ann").rpartition("/")[2]
    said, proof = token.split(".")
    forged = Keys(b"x" * 32).signed("link", Pass("ann", EXPERT, 1))
    session = world.keys.signed("session", Pass("ann", EXPERT, 1))
    other = world.link("bob").rpartition("/")[2].split(".")[0]
    cut = (said, f"{said}.", f".{proof}", token[:-1], token + "A", f"{other}.{proof}", "é", "a" * 5000)
    for wrong in (*cut, forged, session):
        answer = world.stranger().client.get(f"/join/{wrong}")
        assert "just as the organiser gave it" in problem(answer, 401), wrong
        assert "set-cookie" not in answer.headers


def test_every_link_that_is_over_says_why(world: World) -> None:
    old = {name: world.link(name) for name in ("ann", "bob")}
    world.store.revoke("ann")
    world.store.renew("bob")
    past = int(time.time() * 1000) - 1000
    world.store.renew("eve", past)
    unknown = expert_link(world.keys, replace(world.store.experts()[0], name="zoe", revoked=None), OWN)
    late = organiser_link(world.keys, world.store.organiser(), OWN, expires=past)
    taken_back = organiser_link(world.keys, world.store.organiser(), OWN)
    world.store.renew_organiser()
    for link, words in {
        old["ann"]: "ask the organiser for a new one",
        old["bob"]: "There is a newer link",
        world.link("eve"): "expired",
        unknown: "There is no expert 'zoe'",
        late: "expired",
        taken_back: "taken back",
    }.items():
        assert words in problem(world.stranger().client.get(link), 401)


def test_an_organiser_whose_link_was_taken_back_is_out_at_once(world: World) -> None:
    organiser = world.organiser()
    world.store.renew_organiser()
    assert "taken back" in problem(organiser.client.get("/organise"), 401)
    assert world.organiser().client.get("/organise").status_code == 200


# The expert's page and what it asks for


def test_the_page_is_blind(world: World) -> None:
    browser = world.expert()
    world.expert("bob").vote(*[task["pair"] for task in world.expert("bob").claim()], answer=NOT_SIMILAR)
    answer = browser.client.get("/judge")
    claimed = browser.post("/api/claim", {"n": 6, "recent": True})
    voted = browser.post("/api/votes", {"votes": [sent(claimed.json()["tasks"][0]["pair"])]})
    for text in (answer.text, claimed.text, voted.text):
        assert not re.search(r"vase-\d|\b(bob|eve|score|rank|model|gold)\b", text), text
        assert SECRET.replace(" ", "-") not in text
    assert set(claimed.json()["tasks"][0]) == {"pair", "query", "item", "answered"}
    assert set(claimed.json()["progress"]) == {"done", "left", "total", "sure", "everybody_done", "everybody_total"}


def test_experts_are_told_what_is_asked(world: World) -> None:
    text = world.expert().read("/judge").text
    assert text.count("Do they look alike?") == 3  # the title, the line above the answers, and the help
    world.store.brief(
        "Same potter?", f"Look at {HOSTILE}\nclosely.\r\n\r\n- the foot\n  of it\n\n- {{{{ 7 * 7 }}}}\nand so on\n"
    )
    read = world.expert().read("/judge")
    assert "Do they look alike?" not in read.text
    assert read.text.count("Same potter?") == 3
    guide = f"Look at {' '.join(HOSTILE.split())} closely. the foot of it {{{{ 7 * 7 }}}} and so on Say what you see."
    assert guide in read.text
    tags = [tag for tag, _ in read.found]
    assert (tags.count("ul"), tags.count("li"), tags.count("img")) == (1, 2, 0)


def test_a_page_shows_its_briefing_again_once_it_is_another(world: World) -> None:
    def mark(name: str) -> tuple[str | None, str | None]:
        (found,) = [a for _, a in world.expert(name).read("/judge").found if "data-briefing" in a]
        return found["data-briefing"], found["data-box"]

    first = mark("ann")
    assert mark("ann") == first
    assert mark("bob")[0] == first[0]
    assert mark("bob")[1] != first[1]
    world.store.brief(guide="Look at the foot.")
    assert mark("ann")[0] != first[0]
    assert mark("ann")[1] == first[1]


def test_what_is_left_is_sure_to_come_only_where_nobody_is_beyond_those_wanted(study: Study) -> None:
    world = World(study, ("ann", "bob"))
    with TestClient(world.app, base_url=OWN), world.store:
        ann = world.expert("ann")
        assert ann.ask("/api/claim", {"n": 1})["progress"]["sure"] is True
        world.store.add_expert("eve")
        assert ann.ask("/api/claim", {"n": 1})["progress"]["sure"] is False


def test_pairs_are_handed_out_with_images_that_load(world: World) -> None:
    browser = world.expert()
    tasks = browser.claim()
    assert len({task["pair"] for task in tasks}) == 6
    assert browser.claim() == tasks  # those in hand, not others
    for task in tasks:
        for side in ("query", "item"):
            answer = browser.client.get(task[side])
            assert (answer.status_code, answer.headers["content-type"]) == (200, "image/jpeg")
            assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
            with Image.open(io.BytesIO(answer.content)) as image:
                assert image.size == (160, 160)
            unchanged = browser.client.get(task[side], headers={"if-none-match": answer.headers["etag"]})
            assert (unchanged.status_code, unchanged.content) == (304, b"")


def test_the_images_are_those_of_the_pair(world: World, study: Study) -> None:
    browser = world.expert()
    for task in browser.claim(3):
        known = world.task("ann", task["pair"])
        assert known is not None
        for side, name in (("query", known.query), ("item", known.item)):
            body = browser.client.get(task[side]).content
            path = study.image_path(int(study.catalogue.positions([name])[0]))
            assert body == Thumbnails.view(path).body


def test_answers_are_kept_once_however_often_they_are_sent(world: World) -> None:
    browser = world.expert()
    pair, other = (task["pair"] for task in browser.claim(2))
    votes = {"votes": [sent(pair), sent(other, CANT_TELL)]}
    first = browser.ask("/api/votes", votes)
    assert [vote["status"] for vote in first["votes"]] == ["kept", "kept"]
    assert [vote["client"] for vote in first["votes"]] == [vote["client"] for vote in votes["votes"]]
    assert (first["progress"]["done"], first["progress"]["everybody_done"]) == (2, 2)
    again = browser.ask("/api/votes", votes)
    assert [vote["status"] for vote in again["votes"]] == ["known", "known"]
    kept = world.store.votes()
    assert sorted(kept.answers.tolist()) == [CANT_TELL, SIMILAR]
    assert kept.experts.tolist() == ["ann", "ann"]


def test_a_mark_that_was_used_for_another_answer_keeps_its_first(world: World) -> None:
    browser = world.expert()
    vote = sent(browser.claim()[0]["pair"])
    browser.ask("/api/votes", {"votes": [vote]})
    (said,) = browser.ask("/api/votes", {"votes": [vote | {"answer": NOT_SIMILAR}]})["votes"]
    assert said["status"] == "changed"
    assert "same mark" in said["words"]
    assert world.store.votes().answers.tolist() == [SIMILAR]


def test_who_thinks_again_says_so_and_the_last_counts(world: World) -> None:
    browser = world.expert()
    pair = browser.claim()[0]["pair"]
    assert browser.vote(pair) == browser.vote(pair, answer=NOT_SIMILAR) == ["kept"]
    votes = world.store.votes()
    assert (votes.answers.tolist(), votes.last().answers.tolist()) == ([SIMILAR, NOT_SIMILAR], [NOT_SIMILAR])
    recent = browser.ask("/api/claim", {"n": 1, "recent": True})["recent"]
    assert [(task["pair"], task["answered"]) for task in recent] == [(pair, NOT_SIMILAR)]
    assert browser.client.get(recent[0]["item"]).status_code == 200


def test_who_changes_an_answer_without_end_is_told_to_wait(world: World) -> None:
    browser = world.expert()
    pair = browser.claim()[0]["pair"]
    votes = [sent(pair, number % 2) for number in range(3 * CHANGES)]
    found = browser.ask("/api/votes", {"votes": votes})["votes"]
    assert [vote["status"] for vote in found] == ["kept"] * (1 + CHANGES) + ["often"] * (2 * CHANGES - 1)
    assert {vote.get("words") for vote in found[1 + CHANGES :]} == {
        "You changed your answers very often within a minute. The one before counts; wait a minute to change it."
    }
    again = browser.ask("/api/votes", {"votes": votes[: 1 + CHANGES]})["votes"]  # the connection was lost
    assert {vote["status"] for vote in again} == {"known"}
    assert len(world.store.votes()) == 1 + CHANGES


def test_enough_is_enough_and_said_in_words(world: World) -> None:
    pair = world.expert("ann").claim()[0]["pair"]
    world.expert("ann").vote(pair)
    bob = world.expert("bob")
    while tasks := bob.claim():
        bob.vote(*[task["pair"] for task in tasks])
    (said,) = world.expert("eve").ask("/api/votes", {"votes": [sent(world.same(pair, "ann", "eve"))]})["votes"]
    assert (said["status"], said["words"]) == ("enough", "Enough others had judged the pair meanwhile.")
    (said,) = world.expert("eve").ask("/api/votes", {"votes": [sent(10**9)]})["votes"]
    assert said["status"] == "unknown"
    assert "eve" not in world.store.votes().experts


def test_later_comes_back_when_nothing_else_is_left(world: World) -> None:
    browser = world.expert()
    first = browser.claim()[0]["pair"]
    assert browser.ask("/api/later", {"pair": first}) == {}
    seen: list[int] = []
    while tasks := browser.claim():
        seen.append(tasks[0]["pair"])
        browser.vote(tasks[0]["pair"])
    assert (len(seen), len(set(seen)), seen[-1]) == (N_PAIRS, N_PAIRS, first)
    assert "no such pair" in problem(browser.post("/api/later", {"pair": 10**9}), 404)


def test_an_image_that_vanished_is_not_there_and_reported(world: World, study: Study) -> None:
    browser = world.expert()
    task = browser.claim()[0]
    known = world.task("ann", task["pair"])
    assert known is not None
    path = study.image_path(int(study.catalogue.positions([known.item])[0]))
    assert path is not None
    path.write_bytes(b"\x89PNG and then nothing")
    assert "cannot be shown" in problem(browser.client.get(task["item"].partition("?")[0]), 404)
    path.unlink()
    assert "cannot be shown" in problem(browser.client.get(task["item"]), 404)
    assert browser.claim()[0]["item"].partition("?")[0] == task["item"].partition("?")[0]
    assert browser.ask("/api/missing", {"pair": task["pair"], "side": "item"}) == {}
    page = world.organiser().read("/organise").text
    assert "Missing images 1" in page
    assert known.item in page
    assert browser.ask("/api/later", {"pair": task["pair"]}) == {}
    assert task["pair"] not in [other["pair"] for other in browser.claim()]


def test_only_a_pair_of_ones_own_can_be_reported(world: World) -> None:
    world.expert("ann").claim()
    held = {task["pair"] for task in world.expert("bob").claim()}
    strange = next(pair for pair in range(1, 10**6) if pair not in held)
    assert world.expert("bob").post("/api/missing", {"pair": strange, "side": "item"}).status_code == 404
    assert world.store.status().missing == []


def test_two_tabs_of_one_expert_double_nothing(world: World) -> None:
    one, two = world.expert(), world.expert()
    tasks = one.claim()
    assert two.claim() == tasks
    assert one.vote(tasks[0]["pair"]) == two.vote(tasks[0]["pair"]) == ["kept"]
    assert two.ask("/api/votes", {"votes": [sent(tasks[1]["pair"])]})["progress"]["done"] == 2
    assert len(world.store.votes().last()) == 2
    assert tasks[0]["pair"] not in [task["pair"] for task in two.claim()]


BAD = {
    "/api/claim": [
        b"", b"{", b"[]", {}, {"n": 0}, {"n": 26}, {"n": "6"}, {"n": True}, {"n": 6, "more": 1}, {"n": 1.5},
        b'{"n": NaN}', {"n": 6, "sheet": 1}, {"n": 6, "sheet": 25}, {"n": 6, "sheet": "2"},
    ],
    "/api/later": [{}, {"pair": -1}, {"pair": 2**60}, {"pair": None}, {"pair": "1"}, [1]],
    "/api/missing": [{}, {"pair": 1}, {"pair": 1, "side": "both"}, {"pair": 1, "side": ["query"]}],
    "/api/votes": [
        {}, {"votes": []}, {"votes": {}}, {"votes": [[]]}, {"votes": [sent(1, 5)]}, {"votes": [sent(1, seconds=-1)]},
        {"votes": [sent(1, answer=True)]}, {"votes": [sent(1, answer="1")]}, {"votes": [sent(1, answer=None)]},
        {"votes": [sent(1, client="x")]}, {"votes": [sent(1, client=1)]}, {"votes": [sent(-1)]},
        {"votes": [sent(1, at=-1)]}, {"votes": [sent(1, at="now")]}, {"votes": [sent(1, expert="bob")]},
        {"votes": [sent(1, seconds=1e9)]},
        {"votes": [sent(1)] * 201}, b'{"votes": [{"seconds": Infinity}]}', b"\xff\xfe",
    ],
}  # fmt: skip


@pytest.mark.parametrize("path", BAD)
def test_what_does_not_fit_is_refused_in_one_sentence(world: World, path: str) -> None:
    browser = world.expert()
    browser.claim()
    for body in BAD[path]:
        said = problem(browser.post(path, body), 422)
        assert said.startswith("What was sent does not fit"), said
        assert said.count("\n") == 0
    assert len(world.store.votes()) == 0


def test_numbers_tell_nothing_and_what_was_handed_to_nobody_cannot_be_judged(world: World) -> None:
    ann, bob = world.expert("ann"), world.expert("bob")
    hers, his = ([task["pair"] for task in browser.claim(12)] for browser in (ann, bob))
    assert not set(hers) & set(his)
    assert {world.keys.revealed("pair ann", number) for number in hers} <= set(range(1, 200))
    assert ann.vote(*range(1, 150), *his) == ["unknown"] * 161
    addresses = [task[side] for task in ann.claim(12) for side in ("query", "item")]
    numbers = {int(re.fullmatch(r"/picture/\w+/(\d+)\..*", address)[1]) for address in addresses}  # type: ignore[index]
    assert min(numbers) > 10**6  # none is a place in the catalogue of 48


def test_votes_are_those_of_the_session_whoever_they_claim_to_be(world: World) -> None:
    bob = world.expert("bob")
    task = bob.claim()[0]
    assert bob.post("/api/votes?expert=ann", {"votes": [sent(task["pair"])]}, **{"x-expert": "ann"}).status_code == 200
    assert world.store.votes().experts.tolist() == ["bob"]


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [(StoreAwayError("gone: postgresql://me:secret@db/x"), 503, "database"), (StoreFullError("full"), 507, "disk")],
)
def test_a_store_that_fails_is_said_in_words_and_the_app_goes_on(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    status: int,
    words: str,
) -> None:
    browser = world.expert()
    vote = {"votes": [sent(browser.claim()[0]["pair"])]}

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(world.store, "take", fail)
        answer = browser.post("/api/votes", vote)
        said = problem(answer, status)
        assert words in said
        assert "sent again" in said
        assert "secret" not in answer.text + caplog.text
        assert answer.headers["retry-after"] == "2"
    assert browser.ask("/api/votes", vote)["votes"][0]["status"] == "kept"
