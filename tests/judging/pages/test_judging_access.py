"""Who may do what, and the defences of the app, line by line."""

from __future__ import annotations

import hmac
import logging
import os
import re
import shutil
import stat
import threading
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.routing import Route
from starlette.testclient import TestClient

from helpers.pages import HOSTILE
from helpers.visitors import EXPERTS_ONLY, NOT_SIMILAR, ORGANISER_ONLY, OWN, Browser, World, problem, sent
from lookalike.judging.pages import sessions
from lookalike.judging.pages.app import RATE
from lookalike.judging.pages.links import EXPERT, Keys, Pass
from lookalike.judging.pages.sessions import Rate
from lookalike.study.study import Study
from lookalike.web.guard import HEADERS

OPEN = {("GET", "/"), ("GET", "/join/{token}"), ("GET", "/crowd/{token}"), ("POST", "/crowd/{token}")}


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
    wanted = {"/picture/{side}/{given}": 404, "/organise/verdict": 404}  # of a pair that is not there
    wanted |= {"/practice": 303, "/end": 303, "/api/practice/answer": 409}
    for (_, path), ask in EXPERTS_ONLY.items():
        assert ask(browser).status_code in (wanted.get(path, 200), 404 if path.startswith("/api/") else 200), path
    organiser = world.organiser()
    for (method, path), ask in ORGANISER_ONLY.items():
        assert ask(organiser).status_code == wanted.get(path, 303 if method == "POST" else 200), path


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
    assert ask(browser).status_code in (200, 303, 404, 409)


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
