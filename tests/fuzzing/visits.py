"""Requests to the pages of `judge` and `look`: every route that an app has, with every part of a request changed."""

from __future__ import annotations

import functools
import json
import logging
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, unquote, urlencode

from fuzzing.changing import NUMBERS, TEXTS, changed, damaged, json_text
from fuzzing.running import ServerError
from fuzzing.seeds import KEY

HOST, BOUNDARY = "localhost:8000", "boundary"
FORM = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}
AT_ONCE = 12  # requests of one case
CLIENT = "01234567-89ab-cdef-0123-456789abcdef"


class Visitor:
    """Asks an app in this process, with exactly the bytes that are wanted; keeps the cookies that it is given."""

    def __init__(self, app: Any, client: Any, folder: Path) -> None:
        self.app, self._client, self._log = app, client, folder / "requests.txt"
        self._cookies: dict[str, str] = {}
        self._errors: list[Any] = []
        keeper = logging.Handler()
        keeper.emit = self._errors.append  # type: ignore[method-assign]
        told = logging.getLogger("lookalike.web.guard")
        told.handlers, told.propagate = [keeper], False
        told.setLevel(logging.DEBUG)

    @property
    def own(self) -> dict[str, str]:
        """The headers that every request needs."""
        return {"host": HOST, "cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}

    def ask(
        self, method: str, address: str, headers: dict[str, str], body: bytes = b""
    ) -> tuple[int, dict[str, str], bytes]:
        """The status, headers and body of the answer; raises ServerError where the server has failed."""
        path, _, query = address.partition("?")
        lines = [(name.encode(), value.encode("utf-8", "surrogatepass")) for name, value in headers.items()]
        with self._log.open("a") as log:
            log.write(f"{method} {address}\n{lines}\n{body!r}\n\n")
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "root_path": "", "path": unquote(path), "raw_path": path.encode(), "query_string": query.encode(),
            "headers": [(name, re.sub(rb"[\r\n\0]", b"", value)) for name, value in lines],
            "client": ("127.0.0.1", 5000), "server": ("127.0.0.1", 8000),
        }  # fmt: skip
        half = len(body) // 2
        waiting: list[Any] = [{"type": "http.request", "body": body[:half], "more_body": True}]
        waiting += [{"type": "http.request", "body": body[half:]}]
        sent: list[Any] = []

        async def receive() -> Any:
            return waiting.pop(0) if waiting else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        self._client.portal.call(self.app, scope, receive, send)
        status = sent[0]["status"]
        answered = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in sent[0]["headers"]}
        if status >= 500:
            causes = [record.exc_info for record in self._errors if isinstance(record.exc_info, tuple)]
            kind, error, place = causes[-1] if causes else (Exception, "no cause", None)
            said = f"{status} for {method} {address[:200]}: {kind.__name__}: {error}"
            raise ServerError(said).with_traceback(place)
        self._cookies |= re.findall(r"^([^=;]+)=([^;]*)", answered.get("set-cookie", ""))
        return status, answered, b"".join(message.get("body", b"") for message in sent[1:])

    def get(self, address: str) -> str:
        """What is at an address."""
        return self.ask("GET", address, self.own)[2].decode(errors="replace")

    def token(self, page: str) -> str:
        """The proof that a page holds."""
        found = re.search(r'(?:data-csrf|name="csrf" value)="([0-9a-f]{64})"', self.get(page))
        return found[1] if found else "0" * 64


def routes_of(routes: Any, before: str = "") -> Iterator[tuple[str, str, set[str]]]:
    """Method, path and names in queries of each route; what is mounted has a path below it."""
    for route in routes:
        if not hasattr(route, "methods"):
            inside = list(routes_of(getattr(route, "routes", None) or [], before + route.path))
            yield from inside or [("GET", f"{before}{route.path}/{{path}}", set())]
            continue
        waiting, names = [route.dependant] if hasattr(route, "dependant") else [], set()
        while waiting:
            each = waiting.pop()
            names |= {field.alias for field in each.query_params}
            waiting += each.dependencies
        for method in sorted(route.methods or {"GET"}):
            yield method, before + route.path, names


def form(fields: dict[str, str], file: bytes | None = None) -> bytes:
    """A form as browsers send it."""
    parts = [(f'name="{name}"', value.encode()) for name, value in fields.items()]
    parts += [] if file is None else [('name="picture"; filename="a.png"\r\nContent-Type: image/png', file)]
    whole = [f"--{BOUNDARY}\r\nContent-Disposition: form-data; {n}\r\n\r\n".encode() + v + b"\r\n" for n, v in parts]
    return b"".join(whole) + f"--{BOUNDARY}--\r\n".encode()


def odd(rng: Random) -> str:
    return rng.choice([rng.choice(TEXTS), str(rng.choice(NUMBERS)), "\ud800", "a" * 3000])


def request(rng: Random, visitor: Visitor, known: dict[str, list[str]], bodies: dict[str, Any], csrf: str) -> None:
    """Ask for one of the routes: with what is known to be right, some of it changed."""
    method, path, names = rng.choice(sorted(routes_of(visitor.app.routes), key=str))

    def value(name: str) -> str:
        return rng.choice(known.get(name, ["1"])) if rng.random() < 0.75 else odd(rng)

    def part(found: re.Match[str]) -> str:
        return quote(value(found[1]).encode("utf-8", "surrogatepass"), safe=rng.choice(["", "/.:"]))

    address = re.sub(r"{(\w+)(?::\w+)?}", part, path)
    asked = [(name, value(name)) for name in sorted({*names, "is.category", "v"}) if rng.random() < 0.4]
    asked += [(rng.choice(["is.", "is.price", odd(rng)]), odd(rng))] if rng.random() < 0.1 else []
    query = urlencode(asked, errors="surrogatepass")
    query = quote(damaged(query.encode(), rng), safe="=&%+") if rng.random() < 0.05 else query
    body, kind = b"", {}
    if method not in ("GET", "HEAD") or rng.random() < 0.05:
        given = bodies[path if path in bodies and rng.random() < 0.9 else rng.choice(sorted(bodies))]
        is_form = isinstance(given, bytes)
        body = given.replace(b"CSRF", csrf.encode()) if is_form else json.dumps(given).encode()
        kind = FORM if is_form else {"content-type": "application/json"}
        if rng.random() < 0.6:
            body = damaged(body, rng) if is_form or rng.random() < 0.2 else json_text(body, rng)
    headers = {
        **visitor.own, **kind, "x-csrf-token": csrf, "content-length": str(len(body)), "origin": f"http://{HOST}",
        "sec-fetch-site": "same-origin", "if-none-match": '"x"', "hx-request": "true", "accept": "application/json",
        "x-forwarded-proto": "https", "range": "bytes=0-10",
    }  # fmt: skip
    for name in rng.sample(sorted(headers), rng.choice([0, 0, 0, 1, 2])):
        headers[name] = damaged(headers[name].encode(), rng).decode("latin-1") if rng.random() < 0.5 else odd(rng)
    for name in [name for name in headers if name not in ("host", "cookie") and rng.random() < 0.1]:
        del headers[name]
    method = rng.choice(["HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "X"]) if rng.random() < 0.05 else method
    visitor.ask(method, f"{address}?{query}" if query else address, headers, body)


def _with_crowd(store: Any, study: Any, *, practised: bool) -> Any:
    """Open a link for anybody, and ask for practice; ann and bob are let through, or not."""
    from lookalike.judging.store.crowd import admit, open_crowd
    from lookalike.judging.store.gates import CrowdTerms
    from lookalike.judging.store.practice import Practice, PracticePair, set_practice

    query, item = study.queries.ids[0], study.catalogue.ids[-1]
    practice = Practice((PracticePair(str(query), str(item), 1, "They are alike."),))
    set_practice(store, practice)
    store.brief(guide=f"# Look\n\n![alike](item:{item}) ![not](item:gone)\n\n- **so** and *so*")
    open_crowd(store, CrowdTerms("C0DE", 4, 3))
    for name in ("ann", "bob") if practised else ():
        admit(store, name)
    return practice


def judge(rng: Random | None, seeds: Path, folder: Path) -> None:
    """Some requests to a study that is judged, by an expert, the organiser, both or a stranger."""
    from starlette.testclient import TestClient

    from lookalike.judging.pages.app import create_judge_app, expert_link, organiser_link
    from lookalike.judging.pages.links import Keys
    from lookalike.judging.pages.sessions import open_link
    from lookalike.judging.store.store import Store
    from lookalike.study.study import Study
    from lookalike.web.thumbnails import Thumbnails

    shutil.copytree(seeds / "study", folder / "study")
    study, keys = Study.open(folder / "study" / "shop"), Keys(KEY)
    with Store.open(None, study) as store:
        app = create_judge_app(study, store, keys, thumbnails=Thumbnails(folder / "thumbnails"), rate=1e6)
        ann = store.expert("ann")
        assert ann is not None
        links = [expert_link(keys, ann, ""), organiser_link(keys, store.organiser(), "")]
        practice = _with_crowd(store, study, practised=rng is None or rng.random() < 0.5)
        links.append(open_link(keys, 1, ""))
        with TestClient(app) as client:
            visitor = Visitor(app, client, folder)
            who = [0, 1] if rng is None else rng.choice([[0], [0], [1], [1], [0, 1], []])
            for number in who:
                visitor.get(links[number])
            csrf = visitor.token("/organise" if who == [1] else "/judge") if who else "0" * 64
            claimed = visitor.ask("POST", "/api/claim", visitor.own | {"x-csrf-token": csrf}, b'{"n": 3}')
            tasks = json.loads(claimed[2])["tasks"] if claimed[0] == 200 else []
            pages = visitor.get("/organise") + str(tasks)
            pairs = [task["pair"] for task in tasks] or [1]
            vote = {"client": CLIENT, "pair": pairs[0], "answer": 1, "seconds": 2.5, "at": 1_700_000_000_000}
            vote |= {"scale": ""}
            bodies = {
                "/api/claim": {"n": 3, "recent": True}, "/api/votes": {"votes": [vote, vote | {"pair": pairs[-1]}]},
                "/api/later": {"pair": pairs[0]}, "/api/missing": {"pair": pairs[0], "side": "item"},
                "/api/note": {"client": CLIENT, "pair": pairs[0], "kind": "flag", "text": "it is\ncut off"},
                "/organise/verdict": form(
                    {"csrf": "CSRF", "query": "a", "item": "b", "answer": "1", "client": "c", "at": "0"}
                ),
                "/api/practice": {"round": 2},
                "/api/practice/answer": {"mark": practice.mark, "round": 1, "place": 0, "answer": 1},
                "/crowd/{token}": form({"csrf": "CSRF"}), "/organise/admit": form({"csrf": "CSRF", "name": "bob"}),
                "/organise/add": form({"csrf": "CSRF", "name": "zoe", "days": "3"}),
                "/organise/revoke": form({"csrf": "CSRF", "name": "bob"}),
                "/organise/renew": form({"csrf": "CSRF", "name": "eve", "days": ""}),
            }  # fmt: skip
            known = {
                "token": [link.rpartition("/")[2] for link in links], "side": ["query", "item"], "page": ["1", "2"],
                "given": re.findall(r"/picture/\w+/([^?\"']+)", pages) or ["1.x"], "path": ["judge.js", "page.css"],
                "kind": ["csv", "parquet", "json", "qrels"], "rule": ["majority", "unanimous", "verdict"],
                "at": ["0", "1"], "again": ["0", "1"], "machines": ["true"], "what": ["notes", "verdicts", ""],
                "participant": ["p-1"],
            }  # fmt: skip
            for _ in range(AT_ONCE if rng is not None else 0):
                request(rng, visitor, known, bodies, csrf)  # type: ignore[arg-type]


def look(rng: Random | None, seeds: Path, folder: Path) -> None:
    """Some requests to the page of a study, in which a picture is damaged, and to which one is brought."""
    from starlette.testclient import TestClient

    from lookalike.study.study import Study
    from lookalike.web.look.app import create_look_app
    from lookalike.web.thumbnails import Thumbnails

    shutil.copytree(seeds / "study", folder / "study")
    picture = folder / "study" / "photos" / "bag" / "00.png"
    whole = shown = picture.read_bytes()
    if rng is not None:
        picture.write_bytes(changed(whole, picture.name, rng))
        shown = changed(whole, picture.name, rng)
    app = create_look_app(Study.open(folder / "study" / "shop"), thumbnails=Thumbnails(folder / "thumbnails"))
    with TestClient(app) as client:
        visitor = Visitor(app, client, folder)
        csrf = visitor.token("/")
        taken = visitor.ask("POST", "/pictures", visitor.own | FORM, form({"csrf": csrf}, whole))[1]
        brought = re.findall(r"picture=([^&]+)", taken["location"])
        visitor.get(f"/like?picture={brought[0]}&model=phash")
        visitor.get("/like?words=bag/00.png+%2B+hat/01.png&model=colour")
        known = {
            "token": brought, "picture": brought, "item": ["0", "3", "bag/00.png", "hat/01.png"], "k": ["1", "12"],
            "model": ["phash", "colour", "colour-itq-8", "ranked"], "order": ["mixed", "listed"], "page": ["1", "2"],
            "tag": ["nice", "other", ""], "number": ["0", "1"], "q": ["bag", ""],
            "words": ["bag/00.png + hat/01.png − 2*red", "hat/01.png"], "more": ["red"],
            "by": ["looks"], "sign": ["+", "-"], "is.category": ["bag", "hat"], "path": ["page.css", "look.js"],
            "near": ["8", "0.9"], "keep": ["largest", "first"], "way": ["move", "link"], "folder": [""],
        }  # fmt: skip
        ids = ["bag/00.png", "hat/01.png"]
        bodies = {
            "/pictures": form({"csrf": "CSRF"}, shown), "/basket/tags": {"ids": ids, "tag": "new", "remove": False},
            "/basket/export": {"ids": ids, "form": "csv", "confirmed": True}, **_reviewing(visitor, csrf),
        }  # fmt: skip
        for _ in range(AT_ONCE if rng is not None else 0):
            request(rng, visitor, known, bodies, csrf)  # type: ignore[arg-type]


def _reviewing(visitor: Visitor, csrf: str) -> dict[str, Any]:
    """What the page Duplicates sends: a search, a decision, and what is done then."""
    search = {"model": "phash", "near": 8.0, "keep": "first", "skip": [0], "n": 3}
    headers = visitor.own | {"x-csrf-token": csrf}
    answer = visitor.ask("POST", "/duplicates/pairs", headers, json.dumps(search | {"skip": []}).encode())[2]
    pairs = json.loads(answer)["pairs"] if answer.startswith(b"{") else []
    first, second = (item["id"] for item in pairs[0]["items"]) if pairs else ("bag/00.png", "bag/01.png")
    made = {"id": CLIENT, "kind": "drop", "first": first, "second": second}
    visitor.ask("POST", "/duplicates/decide", headers, json.dumps(search | {"decisions": [made]}).encode())
    plan = visitor.ask("GET", "/duplicates/plan", visitor.own)[2]
    about = json.loads(plan) if plan.startswith(b"{") else {"folder": "/nowhere/x", "digest": "0" * 64}
    return {
        "/duplicates/pairs": search,
        "/duplicates/decide": search | {"decisions": [made | {"id": CLIENT[::-1]}]},
        "/duplicates/accept": {"batch": CLIENT},
        "/duplicates/undo": search | {"batch": CLIENT},
        "/duplicates/apply": {"way": "move", "folder": about["folder"], "digest": about["digest"]},
        "/duplicates/put-back": {"name": "2024-05-01-100000-000000"},
    }


judge_plainly, look_plainly = functools.partial(judge, None), functools.partial(look, None)
