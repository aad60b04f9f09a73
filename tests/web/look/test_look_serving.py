"""Many pictures at once, a study that changes, and the command."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from starlette.testclient import TestClient

from helpers.commands import assert_refused
from helpers.looking import N_ITEMS, OWN, bring, ids, page, png, token, until
from helpers.pages import Reader
from helpers.shops import DAMAGES, damage_model, make_shop
from lookalike.core.errors import InputError
from lookalike.study.study import Study
from lookalike.web import guard, thumbnails
from lookalike.web.look import snapshot
from lookalike.web.look.app import create_look_app
from lookalike.web.server import listen
from lookalike.web.thumbnails import Thumbnails

# Many pictures at once


@pytest.fixture
def decoding(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The pictures that are decoded at the same time, by their pixels, at each moment when one more is begun."""
    from PIL.PngImagePlugin import PngImageFile

    load, now, seen, lock = PngImageFile.load, [], [], threading.Lock()

    def watched(image: Any) -> Any:
        if not image.tile:  # it is decoded already
            return load(image)
        pixels = image.width * image.height
        with lock:
            now.append(pixels)
            seen.append([*now])
        time.sleep(0.1)  # long enough for others to begin, if they may
        try:
            return load(image)
        finally:
            with lock:
                now.remove(pixels)

    monkeypatch.setattr(PngImageFile, "load", watched)
    return seen


def test_pictures_are_decoded_by_few_threads_within_so_many_pixels(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoding: list[list[int]]
) -> None:
    room = thumbnails.Room(200_000)
    monkeypatch.setattr(thumbnails, "ROOM", room)
    monkeypatch.setattr(snapshot, "ROOM", room)
    sizes = [(250, 600), (10, 10), (300, 400), (1_000, 1_000), (100, 400), (250, 250)]
    large = [png(np.full((*size, 3), 90, np.uint8)) for size in sizes]
    with TestClient(create_look_app(study, thumbnails=Thumbnails(tmp_path / "kept")), base_url=OWN) as opened:
        form = {"csrf": token(opened)}
        with ThreadPoolExecutor(18) as browsers:
            asked = [browsers.submit(bring, opened, body, data=form) for body in large]
            asked += [browsers.submit(opened.get, f"/{kind}/{n}") for n in range(4) for kind in ("thumbnails", "views")]
            brought = [one.result() for one in asked][: len(large)]
            assert [answer.status_code for answer in brought] == [303] * len(large)
            found = [browsers.submit(opened.get, answer.headers["location"] + "&model=pixels") for answer in brought]
            assert all(len(ids(Reader(one.result().text))) == 24 for one in found)
    assert len(decoding) >= 2 * len(large) + 8
    assert all(sum(pixels) <= 200_000 for pixels in decoding if len(pixels) > 1)
    assert max(map(len, decoding)) <= max(2, os.cpu_count() or 2)
    assert [1_000_000] in decoding  # alone
    assert room.left == room.pixels


def test_a_page_never_waits_for_a_picture(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are asked for, and however long they take."""
    monkeypatch.setattr(thumbnails, "ROOM", thumbnails.Room(1_000_000))
    with TestClient(create_look_app(study), base_url=OWN) as opened, ThreadPoolExecutor(50) as browsers:
        with thumbnails.ROOM.lent() as take:
            take(1_000_000)
            waiting = [browsers.submit(opened.get, "/views/0") for _ in range(50)]
            assert "72 items" in page(opened, "/").text
            assert not any(one.done() for one in waiting)
        assert {one.result().status_code for one in waiting} == {200}


def test_room_is_given_in_turn_and_given_back() -> None:
    room, order = thumbnails.Room(10), []

    def use(pixels: int) -> None:
        with room.lent() as take:
            take(pixels)
            order.append(pixels)

    with ThreadPoolExecutor(3) as threads:
        with room.lent() as take:
            take(4)
            threads.submit(use, 8)
            until(lambda: room._turn.locked())
            small = threads.submit(use, 3)  # for which there is room, but not before the large one
        small.result(timeout=30)
    assert order == [8, 3]
    with contextlib.suppress(ValueError), room.lent() as take:
        take(5)
        raise ValueError("damaged")
    assert room.left == 10


# The study changes


def test_a_study_that_changes_is_looked_at_again(tmp_path: Path) -> None:
    study = make_shop(tmp_path)
    with TestClient(create_look_app(study, thumbnails=Thumbnails(tmp_path / "kept")), base_url=OWN) as opened:
        assert "fresh" not in page(opened, "/").text
        study.add_model("fresh", gallery=np.random.default_rng(0).normal(size=(N_ITEMS, 3)))
        assert "fresh" in page(opened, "/").text
        assert len(ids(page(opened, "/like", item="hat/p01-0.png", model="fresh"))) == 24
        study.remove_model("fresh")
        assert opened.get("/?model=fresh").status_code == 404
        shutil.rmtree(tmp_path / "shop" / "models")
        assert "no model with vectors" in page(opened, "/").text
        assert "no model with vectors" in page(opened, "/like", item="hat/p01-0.png").text


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_model_that_cannot_be_read_says_so_and_others_go_on(study: Study, tmp_path: Path, damage: str) -> None:
    shutil.copytree(study.path.parent, tmp_path / "own")
    own = Study.open(tmp_path / "own" / study.path.name)
    damage_model(own, "phash", damage)
    with TestClient(create_look_app(own), base_url=OWN) as opened:
        assert "72 items" in page(opened, "/").text
        read = page(opened, "/like", item="hat/p01-0.png", model=["phash", "pixels"], k=12)
        assert "phash" in read.text
        assert DAMAGES[damage] in read.text
        assert len(ids(read)) == 12


# Tokens and hosts


def test_tokens_are_for_one_subject_and_one_key() -> None:
    tokens = guard.Tokens()
    assert tokens.right(tokens.make("a"), "a")
    assert not tokens.right(tokens.make("a"), "b")
    assert not guard.Tokens().right(tokens.make("a"), "a")


# The command


@contextlib.contextmanager
def start(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "lookalike", "look", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:  # or a test that fails would wait for it for ever
            process.kill()


def test_the_command_says_where_the_page_is_and_ends_quietly(study: Study) -> None:
    import http.client

    with start(study.path, "--port", 0, "--json", "--no-open") as server:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["address"]
        parts = urlsplit(address)
        assert parts.hostname == "127.0.0.1"
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
        connection.request("GET", "/")
        assert b"72 items" in connection.getresponse().read()
        connection.request("GET", "/", headers={"Host": "evil.example"})
        answer = connection.getresponse()
        assert (answer.status, b"evil.example" in answer.read()) == (403, True)
        connection.close()
        code, out, err = run_look(study.path, "--port", parts.port)  # the same port once more
        assert (code, out) == (2, "")
        assert err.startswith("lookalike: port ")
        assert err.count("\n") == 1
        server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=20)
        assert (server.returncode, out, err) == (0, "", "")


SLOW = """
import asyncio, contextlib
from fastapi import FastAPI
from lookalike.web.server import listen, serve

app = FastAPI()

@app.get("/")
async def slow():
    print("asked", flush=True)
    await asyncio.sleep(600)

with contextlib.suppress(KeyboardInterrupt), listen("127.0.0.1", 0) as listening:
    print(listening.getsockname()[1], flush=True)
    serve(app, listening)
"""


def test_a_request_that_is_still_being_answered_when_it_ends_is_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SLOW], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            with socket.create_connection(("127.0.0.1", int(server.stdout.readline()))) as asking:
                asking.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                assert server.stdout.readline() == "asked\n"
                server.send_signal(signal.SIGINT)
                said = server.communicate(timeout=60)[1]
        finally:
            server.kill()
    assert "Traceback" not in said, said
    assert server.returncode == 0


def run_look(*arguments: object) -> tuple[int, str, str]:
    with start(*arguments) as done:
        out, err = done.communicate(timeout=60)
        return done.returncode, out, err


def test_whoever_opens_it_to_others_is_told(study: Study) -> None:
    with start(study.path, "--port", 0, "--host", "0.0.0.0", "--no-open") as server:
        assert server.stdout is not None
        assert urlsplit(server.stdout.readline().split()[3]).hostname not in (None, "0.0.0.0")  # one to be followed
        server.send_signal(signal.SIGINT)
        assert "anyone who can reach" in server.communicate(timeout=20)[1]
        assert server.returncode == 0


def test_bad_input_ends_with_one_sentence(study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command, words in {
        f"look {tmp_path}/nothing": "there is no folder",
        f"look {tmp_path}": "is not a study",
        f"look {study.path} --port 70000": "65535",
        f"look {study.path} --host no.such.host.invalid": "there is no host",
        f"look {study.path} --allow-host a.example:80": "without a port",
    }.items():
        assert_refused(capsys, tmp_path, command, words)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert_refused(capsys, tmp_path, f"look {study.path} --port {port}", "choose another")
        with pytest.raises(InputError, match="choose another port, or 0") as error:
            listen("127.0.0.1", port)
        assert error.value.sentence(lambda option: f"--{option.name}").endswith("choose another --port, or 0")


@pytest.mark.parametrize("package", ["fastapi", "httptools", "jinja2", "uvicorn", "python_multipart"])
def test_a_missing_package_says_what_to_install(study: Study, tmp_path: Path, package: str) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None; from lookalike.cli import main; "
        f"main(['look', {str(study.path)!r}, '--port', '0'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert package in done.stderr
    assert "pip install 'lookalike[judge]'" in done.stderr
