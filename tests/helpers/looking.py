"""What tests of `lookalike look` ask of its pages."""

from __future__ import annotations

import io
import re
import time
import zlib
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
from PIL import Image
from starlette.testclient import TestClient

from helpers.pages import Reader

OWN = "http://localhost:8000"
N_ITEMS = 72
SECRET = "nobody may read this"


def page(client: TestClient, path: str, **parameters: Any) -> Reader:
    answer = client.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    return Reader(answer.text)


def links(read: Reader, marked: str) -> list[str]:
    return [str(attributes["href"]) for tag, attributes in read.found if tag == "a" and marked in attributes]


def ids(read: Reader) -> list[str]:
    """The items that a page shows, in order."""
    return [parse_qs(urlsplit(link).query)["item"][0] for link in links(read, "data-cell")]


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def token(client: TestClient) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', client.get("/").text)
    assert found
    return found[1]


def bring(client: TestClient, body: bytes, name: str = "mine.png", *, path: str = "/pictures", **options: Any) -> Any:
    form = {"csrf": token(client)} if "data" not in options else options.pop("data")
    return client.post(path, files={"picture": (name, body)}, data=form, follow_redirects=False, **options)


def problem(answer: Any, status: int) -> str:
    """What a page that refuses says: words, and nothing of the inside."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("text/html")
    said = Reader(answer.text).text
    assert not re.search(r"Traceback|File \"|\.py\b|Error\b|<function", answer.text), said
    assert SECRET not in answer.text
    return said


def bomb() -> bytes:
    """A small PNG that says it is 40,000 × 40,000 pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    size = (40_000).to_bytes(4, "big")
    header = chunk(b"IHDR", size + size + bytes([8, 0, 0, 0, 0]))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 100_000)) + chunk(b"IEND", b"")


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)
