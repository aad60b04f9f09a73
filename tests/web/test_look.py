"""The page of a study, asked through its in-process client: every route, every filter, every line of defence."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np
import pytest
from PIL import Image
from starlette.requests import Request
from starlette.responses import Response
from starlette.testclient import TestClient

from helpers.commands import assert_refused
from helpers.pages import HOSTILE, Reader
from helpers.shops import DAMAGED, DAMAGES, MISSING, N_VIEWS, damage_model, make_hostile, make_shop, picture
from lookalike.core.errors import InputError
from lookalike.study.finder import Finder
from lookalike.study.study import Study
from lookalike.web import guard as guarding
from lookalike.web import server as serving
from lookalike.web import thumbnails as pictures
from lookalike.web.look import app as look
from lookalike.web.look import snapshot as shelf
from lookalike.web.look import uploads
from lookalike.web.look.app import State, create_look_app
from lookalike.web.server import listen
from lookalike.web.thumbnails import Thumbnails, render

OWN = "http://localhost:8000"
N_ITEMS = 72
SECRET = "nobody may read this"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("look")
    (folder / "secret.txt").write_text(SECRET)
    return make_shop(folder)


@pytest.fixture(scope="module")
def client(study: Study) -> Iterator[TestClient]:
    app = create_look_app(study, thumbnails=Thumbnails(study.path.parent / "thumbnails"), hosts=["look.example"])
    with TestClient(app, base_url=OWN) as opened:
        yield opened


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with TestClient(create_look_app(make_hostile(tmp_path_factory.mktemp("hostile"))), base_url=OWN) as opened:
        yield opened


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


# The catalogue


def test_the_grid_shows_the_catalogue_a_page_at_a_time(client: TestClient, study: Study) -> None:
    first, second = page(client, "/"), page(client, "/", page=2)
    assert "72 items" in first.text
    assert (len(ids(first)), len(ids(second))) == (look.PER_PAGE, N_ITEMS - look.PER_PAGE)
    assert sorted(ids(first) + ids(second)) == sorted(study.catalogue.ids.tolist())
    listed = page(client, "/", order="listed")
    assert ids(listed) == study.catalogue.ids[: look.PER_PAGE].tolist() != ids(first)
    following = [attributes["href"] for tag, attributes in first.found if attributes.get("rel") == "next"]
    assert following == ["/?page=2"]
    assert ids(Reader(client.get(str(following[0])).text)) == ids(second)


def test_pages_past_the_last_are_not_there(client: TestClient) -> None:
    assert "these 72 items fill 2" in problem(client.get("/?page=3"), 404)
    assert "page" in problem(client.get("/?page=0"), 422)
    assert "page" in problem(client.get("/?page=x"), 422)
    assert "order" in problem(client.get("/?order=upside-down"), 422)
    assert "k" in problem(client.get("/like?item=a&k=100000"), 422)


def test_the_catalogue_is_filtered_by_labels_and_searched_by_id(client: TestClient) -> None:
    hats = page(client, "/", **{"is.category": "hat"})
    assert "24 of 72 items" in hats.text
    assert all(name.startswith("hat/") for name in ids(hats))
    red = page(client, "/", **{"is.category": "hat", "is.colour": "red"})
    assert {name[4:7] for name in ids(red)} == {"p01", "p07"}
    assert {name[4:7] for name in ids(page(client, "/", **{"is.identity": "p01"}))} == {"p01"}
    assert sorted(ids(page(client, "/", q="P04-"))) == [f"hat/p04-{view}.png" for view in range(N_VIEWS)]
    nothing = page(client, "/", q="no such thing")
    assert "0 of 72 items" in nothing.text
    assert "Nothing fits" in nothing.text
    assert "no such column" in problem(client.get("/?is.price=3"), 404)


def test_values_of_a_column_are_chosen_from_a_list_or_where_there_are_many_typed(
    study: Study, monkeypatch: Any
) -> None:
    few = {column.name: column for column in shelf.Shelf(study).columns}
    assert dict(few["category"].choices or ()) == {"bag": 24, "hat": 24, "shoe": 24}
    monkeypatch.setattr(shelf, "CHOICES", 5)
    many = shelf.Shelf(study)
    columns = {column.name: column for column in many.columns}
    assert (columns["identity"].choices, columns["identity"].n_values) == (None, 12)
    mask = many.mask("", {"identity": "P0"})
    assert mask is not None
    assert mask.sum() == 10 * N_VIEWS


def test_every_link_keeps_the_state(client: TestClient) -> None:
    state = {"q": "p0", "is.category": "hat", "model": "phash", "k": "12", "order": "listed"}
    read = page(client, "/", **state)
    for link in links(read, "data-cell"):
        kept = parse_qs(urlsplit(link).query)
        assert {name: values[0] for name, values in kept.items() if name != "item"} == state
    there = Reader(client.get(links(read, "data-cell")[0]).text)
    back = [str(attributes["href"]) for tag, attributes in there.found if attributes.get("class") == "back"]
    assert {name: values[0] for name, values in parse_qs(urlsplit(back[0]).query).items()} == state
    assert ids(Reader(client.get(back[0]).text)) == ids(read)


@pytest.mark.parametrize("path", ["/", "/like?item=hat/p01-0.png"])
def test_every_form_keeps_the_state(client: TestClient, path: str) -> None:
    state = {"q": "p0", "is.category": "hat", "model": "phash", "k": "12", "order": "listed"}
    text = client.get(path, params={**parse_qs(urlsplit(path).query), **state}).text
    for name in ("filters", "search"):
        (form,) = re.findall(rf'<form class="{name}".*?</form>', text, re.DOTALL)
        fields = {str(field.get("name")): field.get("value") for tag, field in Reader(form).found if tag == "input"}
        chosen = re.findall(
            r'<select name="([^"]*)">(?:(?!</select>).)*?<option(?: value="[^"]*")? selected>(\w+)', form, re.DOTALL
        )
        said = {**fields, **{column: value for column, value in chosen if value != "all"}}
        assert {key: value for key, value in said.items() if key != "item"} == state, name
        assert ("item" in said) == (name == "filters" and path != "/")


def test_state_and_address_are_the_same_thing() -> None:
    state = State("a&b", (("x y", "1=2"),), ("m", "n"), 12, "listed", 3)
    kept = parse_qs(urlsplit(state.at("/", item="#?")).query)
    numbers = {"k": ["12"], "order": ["listed"], "page": ["3"]}
    assert kept == {"item": ["#?"], "q": ["a&b"], "is.x y": ["1=2"], "model": ["m", "n"], **numbers}
    assert State().at("/") == "/"


# Look-alikes


def groups(answer: Any) -> list[tuple[str, list[str]]]:
    """Of each group: what it says, and its items."""
    parts = re.findall(r'<li class="group.*?(?=<li class="group|</ol>)', answer.text, re.DOTALL)
    return [(Reader(part.partition("<ul>")[0]).text, ids(Reader(part))) for part in parts]


@pytest.mark.parametrize("model", ["pixels", "pixels-itq-16", "phash", "coarse"])
def test_an_items_look_alikes_are_those_of_the_finder(client: TestClient, study: Study, model: str) -> None:
    item = 7
    name = str(study.catalogue.ids[item])
    answer = client.get("/like", params={"item": name, "model": model, "k": 20})
    looks = Finder(study, model).like_item(item, 20)
    shown = groups(answer)
    assert [each for _, items in shown for each in items] == study.catalogue.ids[looks.items].tolist()
    assert [len(items) for _, items in shown] == np.bincount(looks.groups).tolist()
    starts = np.flatnonzero(np.diff(looks.groups, prepend=-1))
    for (words, items), start in zip(shown, starts.tolist(), strict=True):
        last = items[-1] == study.catalogue.ids[looks.items[-1]]
        size = len(items) + (looks.more if last else 0)
        rank = f"{start + 1}" if size == 1 else f"{start + 1}–{start + size}"
        distance = looks.distances[start]
        near = f"distance {np.sqrt(-distance):.3g}" if model == "pixels" else f"distance {distance}"
        assert words == f"{rank} {near}" + (f" · {size} items , in no order" if size > 1 else "")
    assert (f"and {looks.more} more as near" in Reader(answer.text).text) == bool(looks.more)


def test_equally_near_items_are_boxed_and_those_cut_off_are_counted(client: TestClient, study: Study) -> None:
    answer = client.get("/like", params={"item": str(study.catalogue.ids[0]), "model": "coarse", "k": 12})
    looks = Finder(study, "coarse").like_item(0, 12)
    assert looks.more > 0  # 72 codes of 4 bits: most are tied
    assert f"and {looks.more} more as near" in Reader(answer.text).text
    boxes = re.findall(r'<li class="group( tied)? g(\d)"', answer.text)
    assert ("", "1") not in boxes or len(groups(answer)[0][1]) == 1
    assert any(tied for tied, _ in boxes)


def test_up_to_three_models_stand_side_by_side(client: TestClient, study: Study) -> None:
    name = str(study.catalogue.ids[3])
    answer = client.get("/like", params={"item": name, "model": ["pixels", "phash", "coarse"], "k": 12})
    assert re.findall(r"<h2 id=\"model-\d\">(.*?)</h2>", answer.text) == ["pixels", "phash", "coarse"]
    assert len(ids(Reader(answer.text))) == 36
    four = client.get("/like", params={"item": name, "model": ["pixels", "phash", "coarse", "pixels-itq-16"]})
    assert "At most 3 models" in problem(four, 422)


def test_runs_are_not_models_to_search_by(client: TestClient) -> None:
    read = page(client, "/")
    assert [name for name in ("coarse", "phash", "pixels", "ranked") if name in read.text] == [
        "coarse",
        "phash",
        "pixels",
    ]
    assert "no model 'ranked'" in problem(client.get("/?model=ranked"), 404)
    assert "no item 'nobody'" in problem(client.get("/like?item=nobody"), 404)
    assert "an item or a picture" in problem(client.get("/like"), 422)
    assert "an item or a picture" in problem(client.get("/like?item=a&picture=b"), 422)


def test_what_is_found_is_filtered_by_label(client: TestClient, study: Study) -> None:
    item = study.catalogue.ids.tolist().index("hat/p01-0.png")
    answer = client.get("/like", params={"item": "hat/p01-0.png", "model": "pixels", "is.colour": "blue", "k": 12})
    mask = study.catalogue.column("colour") == "blue"
    wanted = Finder(study, "pixels").like_item(item, 12, among=mask)
    assert ids(Reader(answer.text)) == study.catalogue.ids[wanted.items].tolist()
    nothing = client.get("/like", params={"item": "hat/p01-0.png", "is.colour": "red", "is.identity": "p00"})
    assert "Nothing fits the filter" in Reader(nothing.text).text


def test_items_of_the_same_identity_and_category_are_marked(client: TestClient) -> None:
    answer = client.get("/like", params={"item": "hat/p01-0.png", "model": "pixels", "k": 24})
    own, kind = set(), set()
    for card in re.findall(r'<a class="card.*?</a>', answer.text, re.DOTALL):
        name = ids(Reader(card))[0]
        (own if "same identity" in card else kind if "same category" in card else set()).add(name)
    shown = set(ids(Reader(answer.text)))
    assert own == {name for name in shown if "p01" in name}
    assert kind == {name for name in shown if name.startswith("hat/")} - own
    assert len(own) == N_VIEWS - 1  # views of one product differ less than products do
    text = Reader(answer.text).text
    assert f"{len(own)} of 24 of the same identity" in text
    assert f"{len(own | kind)} of 24 of the same category" in text


# Pictures


def test_thumbnails_and_views_are_pictures_of_the_item(client: TestClient, study: Study) -> None:
    item = study.catalogue.ids.tolist().index("bag/p00-0.png")
    for kind in ("thumbnails", "views"):
        answer = client.get(f"/{kind}/{item}")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/jpeg")
        with Image.open(io.BytesIO(answer.content)) as image:
            small = np.asarray(image.resize((40, 40)), float)
        assert abs(small - picture(0, 0)).mean() < 12
        assert abs(small - picture(1, 0)).mean() > 20
        assert answer.content != (study.path.parent / "photos" / "bag/p00-0.png").read_bytes()


def test_a_large_picture_is_sent_no_larger_than_a_screen_and_upright(tmp_path: Path) -> None:
    pixels = np.zeros((3000, 2000, 3), np.uint8)
    pixels[:100] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # held to the right: what is at the top belongs to the right
    Image.fromarray(pixels).save(tmp_path / "a.jpg", exif=exif)
    for drawn, longest in (
        (Thumbnails(tmp_path).of(tmp_path / "a.jpg"), 320),
        (Thumbnails.view(tmp_path / "a.jpg"), 1600),
    ):
        with Image.open(io.BytesIO(drawn.body)) as image:
            assert image.size == (longest, round(longest * 2 / 3))
            assert not image.getexif()
            shown = np.asarray(image)
        assert shown[:, -5:].mean() > 200 > 50 > shown[:, :5].mean()


def test_tiny_pictures_are_enlarged_as_squares() -> None:
    chess = np.indices((2, 2)).sum(0)[..., None].repeat(3, 2).astype(np.uint8) * 255
    with Image.open(io.BytesIO(render(chess, 320))) as image:
        assert image.size == (160, 160)
        shown = np.asarray(image.convert("L"), int)
    assert abs(shown[5:75, 5:75] - 0).max() < 20
    assert abs(shown[5:75, 85:155] - 255).max() < 20


def test_browsers_keep_pictures_for_as_long_as_they_are_the_same(client: TestClient, study: Study) -> None:
    address = re.findall(r'src="(/thumbnails/\d+\?v=[0-9a-f]+)"', client.get("/").text)[0]
    first = client.get(address)
    assert "immutable" in first.headers["cache-control"]
    bare = client.get(address.partition("?")[0])
    assert bare.headers["cache-control"] == "private, no-cache"
    again = client.get(address, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(address, headers={"if-none-match": '"other"'}).status_code == 200


def test_thumbnails_are_kept_by_contents_whole_and_only_if_that_is_possible(tmp_path: Path) -> None:
    path, folder = tmp_path / "a.png", tmp_path / "kept"
    Image.fromarray(picture(1, 1)).save(path)
    thumbnails = Thumbnails(folder)
    first = thumbnails.of(path)
    (kept,) = folder.rglob("*.jpg")
    assert kept.read_bytes() == first.body
    kept.write_bytes(first.body[:-2] + b"??")  # changed, and found not to be whole
    assert thumbnails.of(path).body == first.body
    other = render(picture(2, 2), 320)
    kept.write_bytes(other)
    assert thumbnails.of(path).body == other  # it is what is kept that is sent
    os.utime(path, ns=(1, 1))
    assert thumbnails.of(path) != first
    assert thumbnails.of(path).body == first.body
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert Thumbnails(blocked).of(path).body == first.body
    assert blocked.read_text() == "in the way"


def test_thumbnails_are_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path))
    assert Thumbnails().folder == tmp_path / "thumbnails"


@pytest.mark.parametrize(("name", "words"), [(MISSING, "file is missing"), (DAMAGED, "cannot be read")])
def test_words_stand_in_for_a_picture_that_is_lost_or_damaged(
    client: TestClient, study: Study, name: str, words: str
) -> None:
    item = study.catalogue.ids.tolist().index(name)
    for kind in ("thumbnails", "views"):
        answer = client.get(f"/{kind}/{item}")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")
        assert words in answer.text
        assert answer.headers["cache-control"] == "no-store"
    assert page(client, "/like", item=name, model="pixels")


def test_a_catalogue_without_pictures_is_shown_by_its_ids(hostile: TestClient) -> None:
    answer = hostile.get("/")
    assert "<img" not in answer.text
    assert answer.text.count('class="picture word"') == 8
    assert "file is missing" in hostile.get("/thumbnails/0").text


# Pictures of one's own


def test_a_picture_that_is_brought_is_searched_for(client: TestClient, study: Study) -> None:
    body = (study.path.parent / "photos" / "bag/p03-2.png").read_bytes()
    answer = bring(client, body, "mine.png", path="/pictures?model=phash&k=12&is.category=bag&page=2")
    assert answer.status_code == 303
    kept = parse_qs(urlsplit(answer.headers["location"]).query)
    assert {name: values[0] for name, values in kept.items() if name != "picture"} == {
        "model": "phash", "k": "12", "is.category": "bag",
    }  # fmt: skip
    there = client.get(answer.headers["location"])
    assert "mine.png" in Reader(there.text).text
    assert groups(there)[0][1][0] == "bag/p03-2.png"
    assert groups(there)[0][0].startswith("1 distance 0") or groups(there)[0][0].startswith("1–")
    assert all(name.startswith("bag/") for name in ids(Reader(there.text)))
    assert client.get(answer.headers["location"]).text == there.text  # the address finds it again
    shown = client.get(f"/pictures/{kept['picture'][0]}")
    assert shown.headers["content-type"] == "image/jpeg"
    with Image.open(io.BytesIO(shown.content)) as image:
        assert abs(np.asarray(image.resize((40, 40)), float) - picture(3, 2)).mean() < 12


def test_a_model_from_a_file_says_that_it_cannot_search_by_new_pictures(client: TestClient) -> None:
    answer = bring(client, png(picture(1, 1)), path="/pictures?model=coarse&model=phash")
    there = client.get(answer.headers["location"])
    assert "coarse was added from a file, without an encoder" in Reader(there.text).text
    assert len(ids(Reader(there.text))) == 24  # the other one does


def test_pictures_that_were_brought_have_names_nobody_can_guess_and_are_forgotten(client: TestClient) -> None:
    tokens = {
        parse_qs(urlsplit(bring(client, png(picture(1, n))).headers["location"]).query)["picture"][0] for n in range(3)
    }
    assert len(tokens) == 3
    assert all(re.fullmatch(r"[\w-]{24}", each) for each in tokens)
    for path in ("/like?picture=AAAAAAAAAAAAAAAAAAAAAAAA", "/pictures/AAAAAAAAAAAAAAAAAAAAAAAA"):
        assert "no longer held" in problem(client.get(path), 410)
    held = uploads.Uploads(most=2, most_bytes=100)
    first, second = (held.add(uploads.Upload(name, b"12345", b"67890")) for name in "ab")
    assert held.get(first)  # now the last one used
    third = held.add(uploads.Upload("c", b"12345", b"67890"))
    assert [held.get(each) is not None for each in (first, second, third)] == [True, False, True]
    large = held.add(uploads.Upload("d", b"0" * 1000, b""))
    assert [held.get(each) is not None for each in (first, third, large)] == [False, False, True]


def bomb() -> bytes:
    """A small PNG that says it is 40,000 × 40,000 pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    size = (40_000).to_bytes(4, "big")
    header = chunk(b"IHDR", size + size + bytes([8, 0, 0, 0, 0]))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 100_000)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"just text", "is not an image"),
        (b"", "is empty"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "is not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is not an image"),
        (png(picture(0, 0))[:500], "is damaged"),
        (bomb(), "has more pixels than the 89,478,485 allowed"),
    ],
    ids=["text", "empty", "svg", "postscript", "truncated", "bomb"],
)
def test_what_is_no_picture_is_refused_in_words(client: TestClient, body: bytes, words: str) -> None:
    started = time.monotonic()
    said = problem(bring(client, body, "a<b>\u00fc.png"), 422)
    assert f"a<b>\u00fc.png {words}" in said
    assert "/tmp" not in said
    assert time.monotonic() - started < 5


def test_a_form_without_a_picture_is_refused(client: TestClient) -> None:
    own = {"csrf": token(client)}
    assert "No picture was chosen" in problem(client.post("/pictures", files={"picture": ("", b"")}, data=own), 422)
    assert "No picture" in problem(
        client.post("/pictures", data={**own, "picture": "x"}, files={"other": ("a", b"")}), 422
    )
    assert "multipart" in problem(client.post("/pictures", data=own), 422)
    assert "not a whole form" in problem(
        client.post("/pictures", content=b"--x", headers={"content-type": "multipart/form-data"}), 422
    )
    two = [("picture", ("a", b"1")), ("picture", ("b", b"2"))]
    assert "not a whole form" in problem(client.post("/pictures", data=own, files=two), 422)


def test_within_an_open_page_a_refusal_is_a_notice(client: TestClient) -> None:
    answer = bring(client, b"no", headers={"hx-request": "true"})
    assert "is not an image" in problem(answer, 422)
    assert (answer.headers["hx-retarget"], answer.headers["hx-push-url"]) == ("#notice", "false")
    assert "hx-retarget" not in bring(client, b"no").headers


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
    folder = Path(serving.__file__).parent / "static"
    said = (folder / "README.md").read_text()
    assert hashlib.sha256((folder / "htmx.min.js").read_bytes()).hexdigest() in said
    version = re.search(r'version:"([\d.]+)"', (folder / "htmx.min.js").read_text())
    assert version
    assert f"htmx {version[1]}" in said
    assert "Zero-Clause BSD" in (folder / "htmx.LICENSE.txt").read_text()


def test_the_colours_are_those_of_reports() -> None:
    package = Path(serving.__file__).parents[1]
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
    large = b"0" * (serving.LIMIT + 1)
    assert "at most 32 MB" in problem(bring(client, large), 413)
    kind = (b"content-type", b"multipart/form-data; boundary=b")
    start = b'--b\r\nContent-Disposition: form-data; name="picture"; filename="a"\r\n\r\n'
    for promised in ([], [(b"content-length", b"10")], [(b"content-length", b"x")], [(b"content-length", b"9" * 5000)]):
        status, body = raw(client, "/pictures", kind, *promised, method="POST", body=[start, *[bytes(10**6)] * 40])
        assert (status, b"at most 32 MB" in body) == (413, True)


def test_what_many_send_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three send 40 bytes each, of which 100 may be held: one of them is refused, and is soon welcome again."""
    monkeypatch.setattr(guarding, "MOST_HELD", 100)
    app = serving.create_app(serving.Pages(), tokens=(tokens := guarding.Tokens()), limit=50)

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

    monkeypatch.setattr(look.Looking, "grid", broken)
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
    room = pictures.Room(200_000)
    monkeypatch.setattr(pictures, "ROOM", room)
    monkeypatch.setattr(shelf, "ROOM", room)
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
    monkeypatch.setattr(pictures, "ROOM", pictures.Room(1_000_000))
    with TestClient(create_look_app(study), base_url=OWN) as opened, ThreadPoolExecutor(50) as browsers:
        with pictures.ROOM.lent() as take:
            take(1_000_000)
            waiting = [browsers.submit(opened.get, "/views/0") for _ in range(50)]
            assert "72 items" in page(opened, "/").text
            assert not any(one.done() for one in waiting)
        assert {one.result().status_code for one in waiting} == {200}


def test_room_is_given_in_turn_and_given_back() -> None:
    room, order = pictures.Room(10), []

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


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


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
    tokens = guarding.Tokens()
    assert tokens.right(tokens.make("a"), "a")
    assert not tokens.right(tokens.make("a"), "b")
    assert not guarding.Tokens().right(tokens.make("a"), "a")


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
        assert error.value.sentence(lambda option: option.flag).endswith("choose another --port, or 0")


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
