"""The judging app through its in-process client: every route, and every line of defence with an attempt to break it."""

from __future__ import annotations

import hmac
import io
import json
import logging
import os
import re
import shutil
import stat
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.routing import Route
from starlette.testclient import TestClient

from helpers.pages import HOSTILE, Reader
from helpers.panels import N_QUERIES, SECRET, K, make_vases
from lookalike.discovery.agreement import agreement
from lookalike.discovery.dawid_skene import RULES
from lookalike.discovery.formats import read_judgements
from lookalike.discovery.votes import Votes
from lookalike.judging.pages import organiser as organising
from lookalike.judging.pages import sessions
from lookalike.judging.pages.app import RATE, create_judge_app, expert_link, organiser_link
from lookalike.judging.pages.links import EXPERT, Keys, Pass
from lookalike.judging.pages.sessions import Rate
from lookalike.judging.pages.statistics import Figures, disagreements
from lookalike.judging.store.board import CHANGES
from lookalike.judging.store.store import JudgingTask, Store, StoreAwayError, StoreFullError
from lookalike.study.study import Study
from lookalike.web.guard import HEADERS
from lookalike.web.thumbnails import Thumbnails

OWN = "http://localhost:8000"
N_PAIRS = K * N_QUERIES
SIMILAR, NOT_SIMILAR, CANT_TELL = 1, 0, -1


class Browser:
    """Somebody's browser: cookies, the page that was opened last, and the token in it."""

    def __init__(self, world: World) -> None:
        self.client = TestClient(world.app, base_url=OWN, follow_redirects=False)
        self.token = "0" * 64

    def open(self, link: str) -> Browser:
        joined = self.client.get(link)
        assert joined.status_code == 303, joined.text
        self.read(joined.headers["location"])
        return self

    def read(self, path: str) -> Reader:
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        found = re.search(r'(?:data-csrf|name="csrf" value)="([0-9a-f]{64})"', answer.text)
        assert found
        self.token = found[1]
        return Reader(answer.text)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.client.post(path, content=content, headers={"x-csrf-token": self.token, **headers})

    def ask(self, path: str, body: Any) -> Any:
        answer = self.post(path, body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def form(self, path: str, **fields: str) -> Any:
        """Send a form of the organiser's page."""
        parts = {name: (None, value) for name, value in {"csrf": self.token, **fields}.items()}
        return self.client.post(path, files=parts)

    def claim(self, n: int = 6) -> list[dict[str, Any]]:
        return self.ask("/api/claim", {"n": n})["tasks"]  # type: ignore[no-any-return]

    def vote(self, *pairs: int, answer: int = SIMILAR) -> list[str]:
        votes = [sent(pair, answer) for pair in pairs]
        return [vote["status"] for vote in self.ask("/api/votes", {"votes": votes})["votes"]]


def sent(pair: int, answer: int = SIMILAR, **more: Any) -> dict[str, Any]:
    return {
        "client": str(uuid.uuid4()), "pair": pair, "answer": answer, "seconds": 2.5, "at": time.time_ns() // 10**6,
    } | more  # fmt: skip


class World:
    """A study that is judged, its store, and whoever visits."""

    def __init__(self, study: Study, experts: tuple[str, ...] = ("ann", "bob", "eve"), **options: Any) -> None:
        self.study, self.store, self.keys = study, Store.open(None, study), Keys.of(study.path)
        self.store.configure(experts_per_pair=2)
        for name in experts:
            self.store.add_expert(name)
        thumbnails = Thumbnails(study.path.parent / "thumbnails")
        self.app = create_judge_app(study, self.store, self.keys, thumbnails=thumbnails, **options)

    def link(self, name: str) -> str:
        expert = self.store.expert(name)
        assert expert is not None
        return expert_link(self.keys, expert, OWN)

    def task(self, name: str, number: int) -> JudgingTask | None:
        """The pair that an expert's page knows by this number."""
        return self.store.task(name, self.keys.revealed(f"pair {name}", number))

    def same(self, number: int, of: str, to: str) -> int:
        """By which number another expert's page would know a pair."""
        return self.keys.disguised(f"pair {to}", self.keys.revealed(f"pair {of}", number))

    def expert(self, name: str = "ann") -> Browser:
        return Browser(self).open(self.link(name))

    def organiser(self) -> Browser:
        return Browser(self).open(organiser_link(self.keys, self.store.organiser(), OWN))

    def stranger(self) -> Browser:
        return Browser(self)


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


def problem(answer: Any, status: int) -> str:
    """What is said to whoever is refused: words, and nothing of the inside."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert not re.search(r"Traceback|File \"|\.py\b|Error\b|<function|sqlite|SELECT|INSERT", answer.text), answer.text
    if answer.headers["content-type"] == "application/json":
        said = answer.json()
        assert list(said) == ["problem"]
        return str(said["problem"])
    return Reader(answer.text).text


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
        b"", b"{", b"[]", {}, {"n": 0}, {"n": 25}, {"n": "6"}, {"n": True}, {"n": 6, "more": 1}, {"n": 1.5},
        b'{"n": NaN}',
    ],
    "/api/later": [{}, {"pair": -1}, {"pair": 2**60}, {"pair": None}, {"pair": "1"}, [1]],
    "/api/missing": [{}, {"pair": 1}, {"pair": 1, "side": "both"}, {"pair": 1, "side": ["query"]}],
    "/api/votes": [
        {}, {"votes": []}, {"votes": {}}, {"votes": [[]]}, {"votes": [sent(1, 2)]}, {"votes": [sent(1, seconds=-1)]},
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


# Who may do what

EXPERTS_ONLY: dict[tuple[str, str], Callable[[Browser], Any]] = {
    ("GET", "/judge"): lambda browser: browser.client.get("/judge"),
    ("POST", "/api/claim"): lambda browser: browser.post("/api/claim", {"n": 3}),
    ("POST", "/api/votes"): lambda browser: browser.post("/api/votes", {"votes": [sent(1)]}),
    ("POST", "/api/later"): lambda browser: browser.post("/api/later", {"pair": 1}),
    ("POST", "/api/missing"): lambda browser: browser.post("/api/missing", {"pair": 1, "side": "query"}),
    ("GET", "/picture/{side}/{given}"): lambda browser: browser.client.get(f"/picture/query/0.{'A' * 43}"),
}
ORGANISER_ONLY: dict[tuple[str, str], Callable[[Browser], Any]] = {
    ("GET", "/organise"): lambda browser: browser.client.get("/organise"),
    ("POST", "/organise/add"): lambda browser: browser.form("/organise/add", name="mallory"),
    ("POST", "/organise/revoke"): lambda browser: browser.form("/organise/revoke", name="bob"),
    ("POST", "/organise/renew"): lambda browser: browser.form("/organise/renew", name="bob"),
    ("GET", "/organise/picture/{side}/{given}"): lambda browser: browser.client.get("/organise/picture/query/0"),
    ("GET", "/organise/export.{kind}"): lambda browser: browser.client.get("/organise/export.csv"),
}
OPEN = {("GET", "/"), ("GET", "/join/{token}")}


def routes_of(app: Any) -> set[tuple[str, str]]:
    found = {(method, route.path) for route in app.routes if isinstance(route, Route) for method in route.methods or ()}
    rest = {route.path for route in app.routes if not isinstance(route, Route)}
    assert rest == {"/static"}  # no documentation of the API, no schema
    return found


def revoked(world: World) -> Browser:
    browser = world.expert("eve")
    browser.claim()
    world.store.revoke("eve")
    return browser


def expired(world: World) -> Browser:
    """One who joined two hours ago by a link that has ended since; the browser still sends the cookie."""
    now, hour = int(time.time() * 1000), 3_600_000
    world.store.renew("eve", now - hour)
    with pytest.MonkeyPatch.context() as past:
        past.setattr(sessions, "now_ms", lambda: now - 2 * hour)
        browser = world.expert("eve")
    assert len(browser.client.cookies) == 1
    return browser


def renewed(world: World) -> Browser:
    browser = world.expert("eve")
    world.store.renew("eve")
    return browser


def forged(world: World) -> Browser:
    """With a cookie of the right form that another key has signed, and a token that some page of this server has."""
    browser = world.expert("ann")
    for name in list(browser.client.cookies):
        browser.client.cookies.set(
            name, Keys(b"y" * 32).signed("session", Pass("ann", EXPERT, 1)), domain="localhost.local"
        )
    return browser


def upgraded(world: World) -> Browser:
    """An expert who hands the cookie in as that of the organiser."""
    browser = world.expert("ann")
    names = {name.partition("-")[0]: name for name in (*world.organiser().client.cookies, *browser.client.cookies)}
    browser.client.cookies.set(names["organiser"], browser.client.cookies[names["expert"]], domain="localhost.local")
    return browser


def link_as_cookie(world: World) -> Browser:
    browser = world.expert("ann")
    for name in list(browser.client.cookies):
        browser.client.cookies.set(name, world.link("ann").rpartition("/")[2], domain="localhost.local")
    return browser


VISITORS: dict[str, Callable[[World], Browser]] = {
    "nobody": World.stranger,
    "an expert": World.expert,
    "a revoked expert": revoked,
    "one whose link has expired": expired,
    "one with an old link": renewed,
    "one with a forged cookie": forged,
    "an expert who would be organiser": upgraded,
    "one whose cookie is a link": link_as_cookie,
    "the organiser": World.organiser,
}


def test_the_scan_knows_every_route(world: World) -> None:
    assert routes_of(world.app) == OPEN | set(EXPERTS_ONLY) | set(ORGANISER_ONLY)


@pytest.mark.parametrize("visitor", VISITORS)
def test_no_route_is_open_to_those_it_is_not_for(world: World, visitor: str) -> None:
    browser = VISITORS[visitor](world)
    may = {"an expert": {EXPERT}, "an expert who would be organiser": {EXPERT}, "the organiser": {"organiser"}}
    before = (world.store.experts(), len(world.store.votes()), world.store.status().missing)
    for role, routes in (("expert", EXPERTS_ONLY), ("organiser", ORGANISER_ONLY)):
        if role in may.get(visitor, set()):
            continue
        for route, ask in routes.items():
            answer = ask(browser)
            assert answer.status_code in (401, 403), (visitor, route, answer.status_code)
            problem(answer, answer.status_code)
            assert "vase" not in answer.text.replace("vases", "")
    assert (world.store.experts(), len(world.store.votes()), world.store.status().missing) == before


def test_those_whom_routes_are_for_are_let_in(world: World) -> None:
    """Else the scan would be of locked doors."""
    browser = world.expert()
    browser.claim()
    wanted = {"/picture/{side}/{given}": 404}
    for (_, path), ask in EXPERTS_ONLY.items():
        assert ask(browser).status_code in (wanted.get(path, 200), 404 if path.startswith("/api/") else 200), path
    organiser = world.organiser()
    for (method, path), ask in ORGANISER_ONLY.items():
        assert ask(organiser).status_code == (303 if method == "POST" else 200), path


def test_an_expert_cannot_use_what_was_handed_to_another(world: World) -> None:
    ann, bob = world.expert("ann"), world.expert("bob")
    task = ann.claim()[0]
    for side in ("query", "item"):
        assert ann.client.get(task[side]).status_code == 200
        assert "for you" in problem(bob.client.get(task[side]), 404)
        assert problem(world.organiser().client.get(task[side]), 401)
    ann.vote(task["pair"], answer=NOT_SIMILAR)
    for answer in (bob.post("/api/claim", {"n": 24, "recent": True}), bob.client.get("/judge")):
        assert "ann" not in answer.text.replace("cannot", "")
    assert {task["answered"] for task in bob.claim(24)} == {None}
    assert bob.ask("/api/claim", {"n": 1, "recent": True})["recent"] == []


def test_a_tab_of_another_expert_in_the_same_browser_cannot_vote(world: World) -> None:
    """Its answers would go under the name of whoever joined last."""
    browser = world.expert("ann")
    task, token = browser.claim()[0], browser.token
    browser.open(world.link("bob"))
    answer = browser.client.post("/api/votes", json={"votes": [sent(task["pair"])]}, headers={"x-csrf-token": token})
    assert "Load it again" in problem(answer, 403)
    assert len(world.store.votes()) == 0


# Security, line by line


POSTS = [route for route in (*EXPERTS_ONLY, *ORGANISER_ONLY) if route[0] == "POST"]


@pytest.mark.parametrize("path", [path for _, path in POSTS])
def test_nothing_is_done_without_the_token_of_the_session(world: World, path: str) -> None:
    browser = world.organiser() if path.startswith("/organise") else world.expert("ann")
    ask = (EXPERTS_ONLY | ORGANISER_ONLY)["POST", path]
    others = {"none": "", "of another expert": world.expert("bob").token, "of the other role": world.organiser().token}
    if path.startswith("/organise"):
        others["of the other role"] = world.expert("ann").token
    own = browser.token
    for whose, token in (others | {"cut": own[:-1], "longer": own + "0", "made up": "0" * 64}).items():
        browser.token = token
        if whose != "of another expert" or not path.startswith("/organise"):
            assert ask(browser).status_code in (403, 422), whose
    browser.token = own
    assert ask(browser).status_code in (200, 303, 404)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"host": "evil.example"},
    ],
)
def test_other_sites_can_do_nothing_even_with_token_and_cookie(world: World, headers: dict[str, str]) -> None:
    browser = world.expert()
    task = browser.claim()[0]
    assert browser.post("/api/votes", {"votes": [sent(task["pair"])]}, **headers).status_code == 403
    if "origin" not in headers:
        assert browser.client.get(task["query"], headers=headers).status_code == 403
    assert len(world.store.votes()) == 0


def test_a_link_may_be_followed_from_a_mail(world: World) -> None:
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert world.stranger().client.get(world.link("ann"), headers=headers).status_code == 303


def test_every_answer_has_the_strict_policy(world: World) -> None:
    expert, organiser = world.expert(), world.organiser()
    task = expert.claim()[0]
    answers = [
        world.stranger().client.get("/"),
        world.stranger().client.get("/join/wrong"),
        world.stranger().client.get("/nothing"),
        world.stranger().client.get("/static/judge.js"),
        world.stranger().client.get(world.link("ann")),
        expert.client.get("/judge"),
        expert.client.get(task["query"]),
        expert.post("/api/claim", {"n": 1}),
        expert.post("/api/claim", b"{"),
        organiser.client.get("/organise"),
        organiser.client.get("/organise/export.csv"),
        world.stranger().client.get("/", headers={"host": "evil.example"}),
    ]
    for answer in answers:
        for name, value in HEADERS.items():
            assert answer.headers.get_list(name) == [value], (answer.url, name)
    policy = HEADERS["content-security-policy"]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'")


@pytest.mark.parametrize("role", ["expert", "organiser"])
def test_pages_have_no_script_or_style_within(world: World, role: str) -> None:
    browser = world.expert() if role == "expert" else world.organiser()
    read = browser.read("/judge" if role == "expert" else "/organise")
    assert [text for text in read.scripts if text.strip()] == []
    for tag, attributes in read.found:
        assert not {name for name in attributes if name == "style" or name.startswith(("on", "hx-on"))}, (
            tag,
            attributes,
        )
        for name in ("src", "href", "action", "hx-get"):
            address = str(attributes.get(name) or "/")
            assert address.startswith(("/", "#")), (tag, name, address)
            assert not address.startswith("//")


def test_everything_secret_is_compared_in_constant_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison that ends early would tell, letter by letter, how far a guess is right."""
    compared: list[tuple[bytes, bytes]] = []
    whole = hmac.compare_digest

    def spy(one: Any, two: Any) -> bool:
        compared.append((one, two))
        return whole(one, two)

    browser = world.expert()
    address = browser.claim()[0]["query"]
    monkeypatch.setattr(hmac, "compare_digest", spy)

    def guesses(ask: Callable[[], Any]) -> set[bytes]:
        compared.clear()
        assert ask().status_code in (401, 403, 404)
        return {given for _, given in compared}

    assert b"guess" in guesses(lambda: world.stranger().client.get("/join/abc.guess"))
    proof = address.partition("?")[0].rpartition(".")[2]
    wrong = proof[:-2] + ("AA" if proof[-2:] != "AA" else "BB")
    assert wrong.encode() in guesses(lambda: browser.client.get(address.replace(proof, wrong)))
    browser.token = "f" * 64
    assert b"f" * 64 in guesses(lambda: browser.post("/api/claim", {"n": 1}))
    (cookie,) = browser.client.cookies
    browser.client.cookies.set(cookie, "abc.guess", domain="localhost.local")
    assert b"guess" in guesses(lambda: browser.client.get("/judge"))


def test_requests_are_limited_in_size(world: World) -> None:
    browser = world.expert()
    assert "at most 64 kB" in problem(browser.post("/api/votes", b" " * 64_001), 413)
    assert browser.post("/api/votes", b" " * 63_000).status_code == 422
    assert "at most 64 kB" in problem(world.organiser().form("/organise/add", name="x" * 70_000), 413)


def test_sessions_are_limited_in_speed_and_not_by_others(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, take = [100.0], Rate.take
    monkeypatch.setattr(Rate, "take", lambda rate, name: take(rate, name, clock[0]))
    world = World(study, rate=1.0)
    with TestClient(world.app, base_url=OWN), world.store:
        fast, calm = world.expert("ann"), world.expert("bob")
        statuses = [fast.post("/api/claim", {"n": 1}).status_code for _ in range(12)]
        assert statuses == [200] * 5 + [429] * 7  # those of six seconds at once, with the page
        assert "too fast" in problem(fast.post("/api/claim", {"n": 1}), 429)
        assert calm.post("/api/claim", {"n": 1}).status_code == 200
        clock[0] += 1
        statuses = [fast.post("/api/claim", {"n": 1}).status_code for _ in range(2)]
        assert statuses == [200, 429]


def test_requests_of_all_kinds_are_counted_together(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, take = [100.0], Rate.take
    monkeypatch.setattr(Rate, "take", lambda rate, name: take(rate, name, clock[0]))
    world = World(study, rate=2.0)
    with TestClient(world.app, base_url=OWN), world.store:
        browser = world.expert()  # which opens the page
        (task,) = browser.claim(1)
        kinds: list[Callable[[], Any]] = [
            lambda: browser.client.get(task["query"]),
            lambda: browser.post("/api/votes", {"votes": [sent(task["pair"])]}),
            lambda: browser.post("/api/claim", {"n": 1}),
            lambda: browser.post("/api/missing", {"pair": task["pair"], "side": "item"}),
            lambda: browser.client.get("/judge"),
        ]
        assert [ask().status_code for ask in kinds * 2] == [200] * 10
        assert [ask().status_code for ask in kinds] == [429] * 5
        assert "too fast" in problem(kinds[0](), 429)
        organiser = world.organiser()
        assert organiser.client.get("/organise/export.csv").status_code == 200
        world.store.renew("ann")
        assert world.expert().post("/api/claim", {"n": 1}).status_code == 200  # a new link begins anew
        clock[0] += 1
        assert [ask().status_code for ask in (kinds[0], kinds[0])] == [401, 401]


@pytest.mark.parametrize(("pages", "gone"), [(2, False), (1, True)])
def test_who_judges_five_pairs_a_second_is_never_too_fast(pages: int, gone: bool) -> None:
    """With all that the page asks for beside: pairs, images ahead, and for a missing image why, and a word of it."""
    script = (files("lookalike.web") / "static/judge.js").read_text(encoding="utf-8")
    ahead = int(re.findall(r"const AHEAD = (\d+)", script)[0])
    rate, pictures = Rate(RATE, RATE * sessions.AT_ONCE), 6 if gone else 2
    for _ in range(pages * (2 + pictures * ahead)):
        rate.take("ann", now=0.0)
    for n in range(5 * 3600):
        for _ in range(pages * (2 + pictures)):  # the answer, pairs, and the images of one more
            rate.take("ann", now=n / 5)


def test_no_image_outside_the_study_is_shown(world: World, study: Study) -> None:
    secret = study.path.parent / "secret.png"
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(secret)
    browser, organiser = world.expert(), world.organiser()
    address = browser.claim()[0]["query"].partition("?")[0]
    position, proof = address.rpartition("/")[2].split(".")
    wrong = [
        f"/picture/query/{int(position) + 1}.{proof}", f"/picture/item/{position}.{proof}",
        f"/picture/query/-1.{proof}",
        f"/picture/query/..%2F..%2Fsecret.png.{proof}", f"/picture/../{position}.{proof}", f"/picture/query/{position}",
        f"/picture/query/{10**11}.{proof}", f"/picture/both/{position}.{proof}", f"/picture/query/{position}.{proof}A",
        f"/picture/query/0{position}.{proof}/../../secret.png", f"/picture/query/%00.{proof}",
        "/picture/query/secret.png",
    ]  # fmt: skip
    for path in wrong:
        assert browser.client.get(path).status_code == 404, path
    for path in ("/organise/picture/query/..%2Fsecret.png", "/organise/picture/x/0", "/organise/picture/query/-1"):
        assert organiser.client.get(path).status_code == 404, path
    beyond = organiser.client.get(f"/organise/picture/item/{10**6}")
    assert beyond.headers["content-type"] == "image/svg+xml"  # words


def test_a_file_that_is_no_image_is_never_sent(template: Path, tmp_path: Path) -> None:
    shutil.copytree(template, tmp_path / "shop")
    for photo in (tmp_path / "shop" / "photos").iterdir():
        photo.write_text("root:x:0:0:secret")
    world = World(Study.open(tmp_path / "shop" / "study"))
    with TestClient(world.app, base_url=OWN), world.store:
        browser = world.expert()
        for task in browser.claim():
            for side in ("query", "item"):
                answer = browser.client.get(task[side])
                assert (answer.status_code, b"secret" in answer.content) == (404, False)


def test_logs_hold_no_secret(world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.DEBUG)
    browser, organiser = world.expert(), world.organiser()
    browser.vote(browser.claim()[0]["pair"])
    link = world.link("ann")
    browser.client.get("/join/wrong.token")

    def fail(*_: Any) -> Any:
        raise RuntimeError("inside")

    monkeypatch.setattr(world.store, "expert", fail)
    assert "Something went wrong" in problem(world.stranger().client.get(link), 500)
    logged = "\n".join(map(caplog.handler.format, (one for one in caplog.records if not one.name.startswith("httpx"))))
    assert "inside" in logged  # it is logged, and the address of the link is not
    key = (world.study.path / "judging" / "key").read_bytes()
    cookies = [*browser.client.cookies.values(), *organiser.client.cookies.values()]
    tokens = [link.rpartition("/")[2], browser.token, organiser.token]
    for secret in [*cookies, *tokens, *(part for token in tokens for part in token.split(".")), key.hex()]:
        assert secret not in logged
    assert repr(key) not in logged
    assert key.hex() not in repr(world.keys)


def test_the_key_of_a_study_is_its_owners_alone(study: Study, caplog: pytest.LogCaptureFixture) -> None:
    before = os.umask(0)
    try:
        keys = Keys.of(study.path)
    finally:
        os.umask(before)
    path = study.path / "judging" / "key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_bytes()) == 32
    assert list(path.parent.iterdir()) == [path]
    token = keys.signed("link", Pass("ann"))
    path.chmod(0o644)
    assert Keys.of(study.path).read("link", token) == Pass("ann")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "others could read" in caplog.text
    path.write_bytes(b"short")
    with pytest.raises(ValueError, match="damaged: remove it"):
        Keys.of(study.path)


def test_keys_differ_between_studies_and_are_made_once(template: Path, tmp_path: Path) -> None:
    found: list[str] = []
    for name in ("one", "two"):
        shutil.copytree(template / "study", tmp_path / name)
        made: list[str] = []
        threads = [
            threading.Thread(target=lambda: made.append(Keys.of(tmp_path / name).proof("x")))  # noqa: B023
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 8
        assert len(set(made)) == 1
        found += made
    assert len(set(found)) == 2


def test_markup_in_names_is_shown_as_text(template: Path, tmp_path: Path) -> None:
    from lookalike.discovery.catalogue import Catalogue
    from lookalike.discovery.pool import Pool

    names = [HOSTILE, "<b>bold</b>", "{{ 7 * 7 }}", "'\"><script>alert(1)</script>"]
    shutil.copytree(template / "photos", tmp_path / "photos")
    shop = Catalogue(names, paths=[f"../photos/vase-00{n}.png" for n in range(4)])
    study = Study.create(tmp_path / "hostile", f"<script>{HOSTILE}</script>", shop, queries=[0])
    study.write_pool(Pool.build({"m": np.array([[9.0, 3, 2, 1]])}, study.collection, k=3))
    experts = (HOSTILE, "<i>x</i>", "{{ 7 * 7 }}")
    world = World(study, experts)
    with TestClient(world.app, base_url=OWN), world.store:
        for number, name in enumerate(experts[:2]):
            browser = world.expert(name)
            tasks = browser.claim()
            browser.vote(*[task["pair"] for task in tasks], answer=number)
            browser.ask("/api/missing", {"pair": tasks[0]["pair"], "side": "query"})
            read = browser.read("/judge")
            assert name in read.text
            assert [attributes["data-name"] for _, attributes in read.found if "data-name" in attributes] == [name]
        read = world.organiser().read("/organise")
        for name in (*experts, *names):
            assert name in read.text
        assert "49" not in read.text
        assert not [tag for tag, attributes in read.found if tag in ("b", "i") and attributes.get("onerror")]
        assert {attributes.get("src", "") for tag, attributes in read.found if tag == "script"} == {
            str(src) for tag, attributes in read.found if tag == "script" and (src := attributes.get("src"))
        }
        assert "alert(1)" not in "".join(read.scripts)
        assert f"{names[0]}" in {str(a.get("title")) for _, a in read.found}


# The organiser


def judged(world: World) -> Votes:
    """Three experts who do not always agree."""
    rng = np.random.default_rng(0)
    for name in ("ann", "bob", "eve"):
        browser = world.expert(name)
        for _ in range(4):
            votes = [sent(task["pair"], int(rng.choice([1, 1, 1, 0, 0, -1]))) for task in browser.claim()]
            if votes:
                browser.ask("/api/votes", {"votes": votes})
    return world.store.votes()


def test_the_organiser_sees_coverage_agreement_experts_and_disagreements(world: World) -> None:
    votes = judged(world)
    text = world.organiser().read("/organise").text
    found = agreement(votes)
    assert f"{len(votes.last()):,} of {2 * N_PAIRS} answers" in text
    assert f"{100 * len(votes.last()) / (2 * N_PAIRS):.1f} %" in text
    assert f"{found.alpha:.2f}".replace("-", "−") in text
    assert f"{found.ac1:.2f}".replace("-", "−") in text
    for figures in found.figures:
        assert re.search(rf"{figures.expert} {figures.votes} 2\.5 {100 * figures.similar:.1f} %", text), text
    split = disagreements(votes)
    assert f"Disagreements {len(split)}" in text
    assert len(split) > 3
    first = split[0]
    said = " ".join(name for name, answer in first.answers if answer == SIMILAR)
    assert f"{first.query} {first.item} similar {said}" in text


def test_disagreements_have_pictures_that_only_the_organiser_gets(world: World) -> None:
    judged(world)
    organiser = world.organiser()
    read = organiser.read("/organise")
    addresses = [str(a["src"]) for tag, a in read.found if tag == "img"]
    assert len(addresses) >= 8
    for address in addresses:
        answer = organiser.client.get(address)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/jpeg")
        assert world.expert().client.get(address).status_code == 401


def test_a_revoked_expert_is_out_at_once_and_a_new_link_lets_in_again(world: World) -> None:
    ann, organiser = world.expert(), world.organiser()
    old = world.link("ann")
    ann.vote(ann.claim()[0]["pair"])
    answer = organiser.form("/organise/revoke", name="ann")
    assert (answer.status_code, answer.headers["location"]) == (303, "/organise#links")
    for ask in EXPERTS_ONLY.values():
        assert "taken back" in problem(ask(ann), 401)
    page = organiser.read("/organise")
    assert old not in str(page.found)
    assert organiser.form("/organise/renew", name="ann").status_code == 303
    assert "newer link" in problem(world.stranger().client.get(old), 401)
    page = organiser.read("/organise")
    (new,) = [str(a["value"]) for _, a in page.found if a.get("aria-label") == "Link of ann"]
    again = world.stranger().open(new.replace("http://localhost:8000", OWN))
    assert again.ask("/api/claim", {"n": 1})["progress"]["done"] == 1  # votes stay
    assert problem(ann.post("/api/claim", {"n": 1}), 401)


def test_the_organiser_adds_experts(world: World) -> None:
    organiser = world.organiser()
    assert organiser.form("/organise/add", name="zoë & co").status_code == 303
    assert world.expert("zoë & co").claim()
    for name, words in {"ann": "already", "": "name", " x": "space", "a\nb": "one line", "x" * 101: "100"}.items():
        assert words in problem(organiser.form("/organise/add", name=name), 422)
    for act in ("revoke", "renew"):
        assert "nobody" in problem(organiser.form(f"/organise/{act}", name="nobody"), 422)
    assert "missing" in problem(organiser.form("/organise/revoke"), 422)


def test_links_end_after_the_days_that_were_given(world: World) -> None:
    organiser = world.organiser()
    before = int(time.time() * 1000)

    def days(name: str) -> float | None:
        found = world.store.expert(name)
        assert found is not None
        return None if found.expires is None else (found.expires - before) / 86_400_000

    organiser.form("/organise/add", name="dora", days="14")
    assert days("dora") == pytest.approx(14, abs=0.01)
    organiser.form("/organise/renew", name="ann", days=" 2 ")
    assert days("ann") == pytest.approx(2, abs=0.01)
    organiser.form("/organise/renew", name="dora", days="")
    assert days("dora") is None
    world.store.renew("eve", before - 1000)
    text = organiser.read("/organise").text
    ann = world.store.expert("ann")
    assert ann is not None
    assert ann.expires is not None
    assert f"ann works until {time.strftime('%d %B %Y', time.gmtime(ann.expires / 1000))}" in text
    assert "dora works, no end" in text
    assert f"eve expired on {time.strftime('%d %B %Y', time.gmtime(before / 1000 - 1))}" in text
    for wrong in ("0", "-1", "36501", "nan", "inf", "soon", "1e9"):
        assert "up to 36,500, or without end" in problem(organiser.form("/organise/add", name="zoe", days=wrong), 422)
        assert "without end" in problem(organiser.form("/organise/renew", name="dora", days=wrong), 422)
    assert world.store.expert("zoe") is None
    assert days("dora") is None


def test_within_the_open_page_it_says_what_was_done(world: World) -> None:
    organiser = world.organiser()
    for act, name, words in (
        ("add", HOSTILE, f"{HOSTILE} was added"),
        ("renew", "ann", "ann has a new link"),
        ("revoke", "ann", "The link of ann was revoked"),
    ):
        parts = {"csrf": (None, organiser.token), "name": (None, name)}
        answer = organiser.client.post(f"/organise/{act}", files=parts, headers={"hx-request": "true"})
        assert answer.status_code == 200
        found = Reader(answer.text).found
        assert [a["data-done"] for _, a in found if "data-done" in a] == [words]
        changed = [at for at, (_, a) in enumerate(found) if a.get("class") == "changed"]
        assert [found[at + 1][1]["title"] for at in changed] == [name]
    assert not [a for _, a in organiser.read("/organise").found if "data-done" in a]


def test_within_the_open_page_a_refusal_is_a_notice(world: World) -> None:
    organiser = world.organiser()
    parts = {"csrf": (None, organiser.token), "name": (None, "ann")}
    answer = organiser.client.post("/organise/add", files=parts, headers={"hx-request": "true"})
    assert (answer.status_code, answer.headers["hx-retarget"]) == (422, "#notice")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_votes_are_exported_with_their_experts(world: World, tmp_path: Path, kind: str) -> None:
    votes = judged(world)
    answer = world.organiser().client.get(f"/organise/export.{kind}")
    assert answer.headers["content-disposition"] == f'attachment; filename="vases-votes.{kind}"'
    path = tmp_path / f"votes.{kind}"
    path.write_bytes(answer.content)
    assert Votes.read(path).digest == votes.digest


@pytest.mark.parametrize("kind", ["qrels", "json"])
@pytest.mark.parametrize("rule", ["majority", "unanimous"])
def test_judgements_are_exported(world: World, tmp_path: Path, kind: str, rule: str) -> None:
    organiser = world.organiser()
    assert "Nothing has been judged" in problem(organiser.client.get(f"/organise/export.{kind}"), 404)
    votes = judged(world)
    path = tmp_path / f"judgements.{kind}"
    path.write_bytes(organiser.client.get(f"/organise/export.{kind}?rule={rule}").content)
    expected = RULES[rule](votes).by_pair
    assert {(query, item): grade for query, item, grade in read_judgements(path)} == expected


def test_other_exports_are_refused(world: World) -> None:
    organiser = world.organiser()
    assert "csv, parquet, qrels, json" in problem(organiser.client.get("/organise/export.exe"), 404)
    assert "no such rule" in problem(organiser.client.get("/organise/export.json?rule=x"), 422)
    assert organiser.client.get("/organise/export.csv").text.startswith("query,item,expert,answer")


def test_pages_of_disagreements(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(organising, "PER_PAGE", 2)
    votes = judged(world)
    organiser = world.organiser()
    shown: list[str] = []
    n_pages = -(-len(disagreements(votes)) // 2)
    for page in range(1, n_pages + 1):
        read = organiser.read(f"/organise?page={page}")
        shown += [str(a["src"]) for tag, a in read.found if tag == "img"]
    assert len(shown) == 2 * len(disagreements(votes))
    assert organiser.client.get("/organise?page=999").status_code == 200
    assert organiser.client.get("/organise?page=0").status_code == 422


def test_before_anything_is_judged_the_page_says_so(world: World) -> None:
    text = world.organiser().read("/organise").text
    assert "Coverage 0 %" in text
    assert "Krippendorff’s alpha: not known yet" in text
    assert "nan" not in text.lower().replace("unanimous", "").split()


def test_the_organiser_sees_the_terms_in_force(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(organising, "FRESH", 0.0)
    said = "2 experts judge each pair, in the order of depth, with no budget: all 60 pairs of the pool."
    assert f"{said} Asked: “Do they look alike?”, without a guide." in world.organiser().read("/organise").text
    world.store.configure(experts_per_pair=1, order="adaptive", budget=20)
    world.store.brief("<i>Same</i> potter?", "Look.")
    text = world.organiser().read("/organise").text
    assert "1 expert judges each pair, in the order of adaptive, within a budget: 20 of the 60 pairs" in text
    assert "Asked: “<i>Same</i> potter?”, with a guide." in text


def test_the_page_says_what_it_counts(world: World) -> None:
    ann, bob = world.expert("ann"), world.expert("bob")
    pairs = [task["pair"] for task in ann.claim(4)]
    ann.vote(*pairs[:2], answer=CANT_TELL)
    ann.vote(pairs[2])
    bob.vote(world.same(pairs[0], "ann", "bob"), answer=CANT_TELL)
    bob.vote(world.same(pairs[2], "ann", "bob"))
    text = world.organiser().read("/organise").text
    assert "Of 60 pairs, 2 have all 2 answers and 1 some, “can’t tell” among them; 2 have no answer but “can’t" in text
    assert "100 % of 1 pairs with two decided votes or more are unanimous" in text


def test_a_pair_that_was_put_off_and_filled_by_others_is_put_off_no_more(world: World) -> None:
    ann = world.expert("ann")
    pair = ann.claim(1)[0]["pair"]
    ann.ask("/api/later", {"pair": pair})

    def put_off() -> int:
        figures = Figures.of(world.store.status(), world.store.votes(), None, 0)
        return next(line.later for line in figures.experts if line.name == "ann")

    assert put_off() == 1
    for name in ("bob", "eve"):
        world.expert(name).vote(world.same(pair, "ann", name))
    assert put_off() == 0


def test_figures_of_time(world: World) -> None:
    now = int(time.time() * 1000)
    seconds = {"ann": [0.4, 0.6, 30.0], "bob": [1.0, 601.0, 600.0], "eve": [None, None, None]}
    for name, took in seconds.items():
        browser = world.expert(name)
        tasks = browser.claim(3)
        votes = [sent(task["pair"], seconds=one, at=now - 60_000) for task, one in zip(tasks, took, strict=True)]
        browser.ask("/api/votes", {"votes": votes})
    figures = Figures.of(world.store.status(), world.store.votes(), None, now)
    lines = {line.name: line for line in figures.experts}
    assert {name: line.quick for name, line in lines.items()} == {"ann": True, "bob": False, "eve": False}
    assert lines["ann"].worked == pytest.approx(31)
    assert lines["bob"].worked == 601  # the break of more than ten minutes is none of it
    assert np.isnan(lines["eve"].worked)
    assert figures.per_minute == 9
    assert figures.left == 2 * N_PAIRS - 9
    assert figures.hours_to_end == pytest.approx(figures.left / 9 / 60)
    late = Figures.of(world.store.status(), world.store.votes(), None, now + 3_600_000)
    assert np.isnan(late.hours_to_end)
    text = world.organiser().read("/organise").text
    assert re.search(r"ann quick 3 .* 31 s \d+ min ago bob 3 .* 10 min \d+ min ago eve 3 .* – \d+ min ago", text), text
    assert re.search(r"answers a minute lately: at this pace it ends in about \d+ minutes\. About \d", text), text


@pytest.mark.parametrize(
    ("hours", "words"),
    [
        (0.01, "in less than a minute"),
        (0.02, "in about 1 minute"),
        (0.5, "in about 30 minutes"),
        (3.21, "in about 3.2 hours"),
        (47, "in about 47 hours"),
        (72, "in 3 days, on 04 January 1970"),
        (1e9, "in more than ten years"),
    ],
)
def test_how_far_the_end_is(world: World, hours: float, words: str) -> None:
    from lookalike.judging.pages.app import JudgePages, _date

    pieces = JudgePages(date=_date).environment.get_template("organise_pieces.html").module
    assert str(pieces.ending(hours, 0)) == words  # type: ignore[attr-defined]


def test_figures_of_a_record(world: World) -> None:
    votes = judged(world)
    figures = Figures.of(world.store.status(), votes, None, int(time.time() * 1000))
    assert figures.coverage == len(votes.last()) / (2 * N_PAIRS)
    assert figures.median_seconds == 2.5
    assert figures.hours_left == pytest.approx((2 * N_PAIRS - len(votes.last())) * 2.5 / 3600)
    assert figures.per_minute == len(votes)  # all within this minute
    kappas = [row["kappa"] for row in figures.agreement.kappa_rows() if row["kappa"] == row["kappa"]]
    assert figures.kappas == (min(kappas), max(kappas))
    for pair in figures.disagreements:
        assert pair.count(SIMILAR) > 0 < pair.count(NOT_SIMILAR)
    shares = [min(pair.count(1), pair.count(0)) / (pair.count(1) + pair.count(0)) for pair in figures.disagreements]
    assert shares == sorted(shares, reverse=True)
    last = {(q, i): set() for q, i in votes.last().pairs}  # type: ignore[var-annotated]
    for pair, answer in zip(votes.last().pairs, votes.last().answers.tolist(), strict=True):
        last[pair].add(answer)
    assert {(p.query, p.item) for p in figures.disagreements} == {pair for pair, said in last.items() if {0, 1} <= said}
