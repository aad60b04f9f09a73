"""The defences of `lookalike look` against other sites, large requests and hostile names."""

from __future__ import annotations

import asyncio
import hashlib
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.testclient import TestClient

from helpers.looking import OWN, SECRET, bring, links, png, problem, token
from helpers.pages import HOSTILE, Reader
from helpers.shops import picture
from lookalike.study.study import Study
from lookalike.web import guard, server
from lookalike.web.look import app
from lookalike.web.look.app import create_look_app

# Defences


def test_every_answer_carries_the_headers_of_safety(client: TestClient) -> None:
    paths = ["/", "/like?item=nobody", "/nowhere", "/thumbnails/0", "/static/look.js", "/static/nothing", "/?page=x"]
    answers = [
        *(client.get(path) for path in paths),
        client.get("/", headers={"host": "evil.example"}),
        bring(client, b"x"),
    ]
    for answer in answers:
        policy = dict(part.strip().partition(" ")[::2] for part in answer.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert (policy["script-src"], policy["style-src"], policy["frame-ancestors"]) == ("'self'", "'self'", "'none'")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "server" not in answer.headers


def test_pages_have_no_script_or_style_of_their_own(client: TestClient, hostile: TestClient) -> None:
    for answer in (client.get("/"), client.get("/like?item=hat/p01-0.png"), hostile.get("/"), client.get("/nowhere")):
        read = Reader(answer.text)
        assert not any(text.strip() for text in read.scripts)
        for tag, attributes in read.found:
            assert "style" not in attributes, tag
            assert not [name for name in attributes if name.startswith("on") or name == "hx-on"], tag
            for name in ("src", "href", "action"):
                address = str(attributes.get(name, ""))
                assert not re.match(r"[a-z]+:|//", address), address


def test_static_files_are_kept_by_version(client: TestClient) -> None:
    for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', client.get("/").text):
        assert "immutable" in client.get(address).headers["cache-control"]
        assert client.get(address.partition("?")[0]).headers["cache-control"] == "no-cache"


def test_htmx_is_the_one_that_is_written_down() -> None:
    folder = Path(server.__file__).parent / "static"
    said = (folder / "README.md").read_text()
    assert hashlib.sha256((folder / "htmx.min.js").read_bytes()).hexdigest() in said
    version = re.search(r'version:"([\d.]+)"', (folder / "htmx.min.js").read_text())
    assert version
    assert f"htmx {version[1]}" in said
    assert "Zero-Clause BSD" in (folder / "htmx.LICENSE.txt").read_text()


def test_the_colours_are_those_of_reports() -> None:
    package = Path(server.__file__).parents[1]
    report, web = ((package / name).read_text() for name in ("report/page.css", "web/static/base.css"))
    shared = re.findall(r"--(?:paper|surface|ink|soft|line|accent|accent-soft|tie|hit|miss): [^;]+;", web)
    assert len(shared) == 20
    assert [colour for colour in shared if colour not in report] == []


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example:8000", "0.0.0.0", "[::2]",
     "evil.example:localhost", "localhost@evil.example", "127.0.0.2", "localhost.", "a b", "", "localhost:80:80"],
)  # fmt: skip
def test_foreign_hosts_are_refused(client: TestClient, host: str) -> None:
    for path in ("/", "/thumbnails/0", "/static/look.js"):
        assert "does not answer to" in problem(client.get(path, headers={"host": host}), 403)
    refused = client.post("/pictures", headers={"host": host}, data={"csrf": token(client)})
    problem(refused, 403)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:54321", "[::1]:8000", "look.example", "Look.Example:443"]
)
def test_names_of_the_loopback_and_allowed_ones_are_answered_on_any_port(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 200


def raw(
    client: TestClient, path: str, *headers: tuple[bytes, bytes], method: str = "GET", body: Any = ()
) -> tuple[int, bytes]:
    """An answer to a request as the server takes it, its path not made pretty by any client."""
    sent: list[Any] = []
    parts = [*body, b""]

    async def receive() -> Any:
        part = parts.pop(0) if parts else b""
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: Any) -> None:
        sent.append(message)

    from urllib.parse import unquote

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": unquote(path), "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(b"host", b"localhost"), *headers], "client": ("127.0.0.1", 1), "server": ("localhost", 8000),
    }  # fmt: skip
    asyncio.run(client.app(scope, receive, send))  # type: ignore[arg-type]
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


@pytest.mark.parametrize("way", ["/thumbnails/{}", "/views/{}", "/pictures/{}", "/static/{}", "/{}", "/like/{}"])
@pytest.mark.parametrize(
    "target",
    ["../secret.txt", "../../secret.txt", "..%2f..%2fsecret.txt", "..%252fsecret.txt", "....//secret.txt", "٣", "0x1",
     "%2e%2e/secret.txt", "..\\secret.txt", "..%5csecret.txt", "/etc/passwd", "//etc/passwd", "%2fetc%2fpasswd", "-1",
     "etc/passwd%00.png", "file:///etc/passwd", "0/../../secret.txt", "{study}", "{study}/study.toml", "1e3",
     "C:/secret.txt", "9" * 21, "9" * 5000, "+1", " 1"],
)  # fmt: skip
def test_nothing_outside_the_study_can_be_reached(client: TestClient, study: Study, way: str, target: str) -> None:
    inside = target.format(study=study.path) if "{" in target else target
    status, body = raw(client, way.format(inside))
    assert status in (403, 404, 405, 410), (status, body[:200])
    assert SECRET.encode() not in body
    assert b"root:" not in body
    assert b"[project]" not in body


def test_the_real_file_would_have_been_found(study: Study) -> None:
    """What the test before does not reach is there."""
    assert (study.path / ".." / "secret.txt").read_text() == SECRET


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:3000"},
        {"origin": "http://localhost"},
        {"origin": "http://localhost:8000.evil.example"},
        {"origin": "ftp://localhost:8000"},
        {"origin": "http://[bad"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"origin": OWN, "sec-fetch-site": "cross-site"},
    ],
)
def test_posts_from_other_sites_are_refused(client: TestClient, headers: dict[str, str]) -> None:
    answer = bring(client, png(picture(0, 0)), headers=headers)
    assert "another site" in problem(answer, 403)


def test_own_posts_are_taken(client: TestClient) -> None:
    for headers in ({}, {"origin": OWN}, {"origin": OWN, "sec-fetch-site": "same-origin"}):
        assert bring(client, png(picture(0, 0)), headers=headers).status_code == 303
    proxied = {"host": "look.example", "origin": "https://look.example", "sec-fetch-site": "same-origin"}
    assert bring(client, png(picture(0, 0)), headers=proxied).status_code == 303
    by_header = bring(client, png(picture(0, 0)), data={}, headers={"x-csrf-token": token(client)})
    assert by_header.status_code == 303


@pytest.mark.parametrize("given", [None, "", "x", "0" * 64, "é"])
def test_posts_without_the_token_are_refused(client: TestClient, given: str | None) -> None:
    answer = bring(client, png(picture(0, 0)), data={} if given is None else {"csrf": given})
    assert "before the server was started anew" in problem(answer, 403)


def test_tokens_of_another_server_are_worthless(client: TestClient, hostile: TestClient) -> None:
    assert bring(client, png(picture(0, 0)), data={"csrf": token(hostile)}).status_code == 403


def test_other_sites_may_link_here_but_not_embed(client: TestClient) -> None:
    for site in ("cross-site", "same-site"):
        for mode in ("no-cors", "cors", "same-origin"):
            for path in ("/", "/thumbnails/0", "/static/look.js"):
                problem(client.get(path, headers={"sec-fetch-site": site, "sec-fetch-mode": mode}), 403)
        link = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
        assert client.get("/", headers=link).status_code == 200
    assert client.get("/", headers={"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}).status_code == 200


def test_requests_that_are_too_large_are_refused_whatever_they_promise(client: TestClient) -> None:
    large = b"0" * (server.LIMIT + 1)
    assert "at most 32 MB" in problem(bring(client, large), 413)
    kind = (b"content-type", b"multipart/form-data; boundary=b")
    start = b'--b\r\nContent-Disposition: form-data; name="picture"; filename="a"\r\n\r\n'
    for promised in ([], [(b"content-length", b"10")], [(b"content-length", b"x")], [(b"content-length", b"9" * 5000)]):
        status, body = raw(client, "/pictures", kind, *promised, method="POST", body=[start, *[bytes(10**6)] * 40])
        assert (status, b"at most 32 MB" in body) == (413, True)


def test_what_many_send_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three send 40 bytes each, of which 100 may be held: one of them is refused, and is soon welcome again."""
    monkeypatch.setattr(guard, "MOST_HELD", 100)
    app = server.create_app(server.Pages(), tokens=(tokens := guard.Tokens()), limit=50)

    @app.post("/")
    async def sent(request: Request) -> Response:
        return Response(str(len(await request.body())))

    async def asked(begun: asyncio.Barrier) -> tuple[int, bytes]:
        got: list[Any] = []
        parts = [b"a" * 40, b""]

        async def receive() -> Any:
            if len(parts) == 1:
                await begun.wait()
            return {"type": "http.request", "body": parts.pop(0) if parts else b"", "more_body": bool(parts)}

        async def send(message: Any) -> None:
            got.append(message)

        headers = [(b"host", b"localhost"), (b"x-csrf-token", tokens.make().encode())]
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
        await app(scope, receive, send)
        return got[0]["status"], got[1]["body"]

    async def all_asked(n: int) -> list[tuple[int, bytes]]:
        begun = asyncio.Barrier(n)
        return sorted(await asyncio.gather(*(asked(begun) for _ in range(n))))

    first, second, third = asyncio.run(all_asked(3))
    assert first == second == (200, b"40")
    assert third[0] == 503
    assert b"Too much is being sent here" in third[1]
    assert asyncio.run(all_asked(2)) == [(200, b"40")] * 2


def test_ids_names_and_labels_are_shown_as_text(hostile: TestClient) -> None:
    answers = [hostile.get("/"), hostile.get("/", params={"q": HOSTILE})]
    answers += [hostile.get("/like", params={"item": HOSTILE}), hostile.get("/like", params={"item": "a\nb"})]
    answers += [
        hostile.get("/like", params={"item": f"{HOSTILE} not there"}),
        hostile.get("/", params={f"is.{HOSTILE}": "x"}),
    ]
    answers += [hostile.get("/", params={"model": HOSTILE}), hostile.get(f"/{quote(HOSTILE)}")]
    answers += [hostile.get("/", headers={"host": HOSTILE})]
    for answer in answers:
        read = Reader(answer.text)
        assert not {tag for tag, _ in read.found} & {"b1", "u", "iframe"}
        assert [tag for tag, attributes in read.found if tag == "img" and attributes.get("src") == "x"] == []
        assert [text for text in read.scripts if text.strip()] == []
        assert "49" not in read.text  # a template in a name is not filled
    first = Reader(answers[0].text)
    assert HOSTILE in first.text
    names = [parse_qs(urlsplit(link).query, keep_blank_values=True)["item"][0] for link in links(first, "data-cell")]
    assert {"../../etc/passwd", "a\nb", "x&y=z#w"} <= set(names)
    for name in names:  # every link leads to its item
        there = Reader(hostile.get("/like", params={"item": name}).text)
        assert " ".join(name.split()) in there.text
    assert "<u>0</u>" in first.text


def test_other_ways_of_asking_are_refused_in_words(client: TestClient) -> None:
    for method in ("PUT", "DELETE", "PATCH"):
        assert client.request(method, "/", headers={"x-csrf-token": token(client)}).status_code == 405
    problem(client.get("/nowhere"), 404)
    for path in ("/docs", "/redoc", "/openapi.json"):
        problem(client.get(path), 404)
    assert problem(client.post("/", headers={"x-csrf-token": token(client)}), 405)


def test_what_goes_wrong_inside_is_not_shown(study: Study, monkeypatch: Any, caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError(f"secret inside: {SECRET}")

    monkeypatch.setattr(app.Looking, "grid", broken)
    with TestClient(create_look_app(study), base_url=OWN) as opened:
        assert "Something went wrong" in problem(opened.get("/"), 500)
        assert opened.get("/like?item=hat/p01-0.png").status_code == 200  # the server goes on
    assert "RuntimeError" in caplog.text
    assert "Traceback" not in caplog.text


def test_websockets_are_closed(client: TestClient) -> None:
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect) as closed, client.websocket_connect("/"):
        pass
    assert closed.value.code == 1008


def test_a_body_that_comes_too_slowly_gets_a_title_of_its_own() -> None:
    assert b"Too slow" in server.Pages().problem(408, "It did not arrive in time.").body
