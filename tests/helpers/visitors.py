"""Browsers without a screen that visit the judging app: experts, the organiser and strangers."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable
from typing import Any

from starlette.testclient import TestClient

from helpers.pages import Reader
from helpers.panels import N_QUERIES, K
from lookalike.judging.pages.app import create_judge_app, expert_link, organiser_link
from lookalike.judging.pages.links import Keys
from lookalike.judging.store.store import Store
from lookalike.judging.store.types import JudgingTask
from lookalike.study.study import Study
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


def note(pair: int, text: str = "the handle differs", kind: str = "note", **more: Any) -> dict[str, Any]:
    return {"client": str(uuid.uuid4()), "pair": pair, "kind": kind, "text": text} | more


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


def problem(answer: Any, status: int) -> str:
    """What is said to whoever is refused: words, and nothing of the inside."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert not re.search(r"Traceback|File \"|\.py\b|Error\b|<function|sqlite|SELECT|INSERT", answer.text), answer.text
    if answer.headers["content-type"] == "application/json":
        said = answer.json()
        assert list(said) == ["problem"]
        return str(said["problem"])
    return Reader(answer.text).text


# Who may do what

EXPERTS_ONLY: dict[tuple[str, str], Callable[[Browser], Any]] = {
    ("GET", "/judge"): lambda browser: browser.client.get("/judge"),
    ("POST", "/api/claim"): lambda browser: browser.post("/api/claim", {"n": 3}),
    ("POST", "/api/votes"): lambda browser: browser.post("/api/votes", {"votes": [sent(1)]}),
    ("POST", "/api/later"): lambda browser: browser.post("/api/later", {"pair": 1}),
    ("POST", "/api/missing"): lambda browser: browser.post("/api/missing", {"pair": 1, "side": "query"}),
    ("POST", "/api/note"): lambda browser: browser.post("/api/note", note(1)),
    ("GET", "/practice"): lambda browser: browser.client.get("/practice"),
    ("POST", "/api/practice"): lambda browser: browser.post("/api/practice", {}),
    ("POST", "/api/practice/answer"): lambda browser: browser.post(
        "/api/practice/answer", {"mark": "0" * 16, "round": 1, "place": 0, "answer": 1}
    ),
    ("GET", "/end"): lambda browser: browser.client.get("/end"),
    ("GET", "/picture/{side}/{given}"): lambda browser: browser.client.get(f"/picture/query/0.{'A' * 43}"),
}
ORGANISER_ONLY: dict[tuple[str, str], Callable[[Browser], Any]] = {
    ("GET", "/organise"): lambda browser: browser.client.get("/organise"),
    ("POST", "/organise/add"): lambda browser: browser.form("/organise/add", name="mallory"),
    ("POST", "/organise/revoke"): lambda browser: browser.form("/organise/revoke", name="bob"),
    ("POST", "/organise/renew"): lambda browser: browser.form("/organise/renew", name="bob"),
    ("POST", "/organise/admit"): lambda browser: browser.form("/organise/admit", name="bob"),
    ("GET", "/organise/experts.csv"): lambda browser: browser.client.get("/organise/experts.csv"),
    ("GET", "/organise/picture/{side}/{given}"): lambda browser: browser.client.get("/organise/picture/query/0"),
    ("GET", "/organise/view/{side}/{given}"): lambda browser: browser.client.get("/organise/view/query/0"),
    ("GET", "/organise/notes"): lambda browser: browser.client.get("/organise/notes"),
    ("GET", "/organise/verdicts"): lambda browser: browser.client.get("/organise/verdicts"),
    ("POST", "/organise/verdict"): lambda browser: browser.form(
        "/organise/verdict", query="q", item="i", answer="1", client="c", at="0"
    ),
    ("GET", "/organise/export.{kind}"): lambda browser: browser.client.get("/organise/export.csv"),
}
