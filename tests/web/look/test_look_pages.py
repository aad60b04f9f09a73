"""Pages of `lookalike look`: the catalogue, look-alikes, and pictures."""

from __future__ import annotations

import io
import os
import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from helpers.looking import N_ITEMS, bomb, bring, ids, links, page, png, problem, token
from helpers.pages import Reader
from helpers.shops import DAMAGED, MISSING, N_VIEWS, picture
from lookalike.study.finder import Finder
from lookalike.study.study import Study
from lookalike.web.look import app, snapshot, uploads
from lookalike.web.look.app import State
from lookalike.web.thumbnails import Thumbnails, render

# The catalogue


def test_the_grid_shows_the_catalogue_a_page_at_a_time(client: TestClient, study: Study) -> None:
    first, second = page(client, "/"), page(client, "/", page=2)
    assert "72 items" in first.text
    assert (len(ids(first)), len(ids(second))) == (app.PER_PAGE, N_ITEMS - app.PER_PAGE)
    assert sorted(ids(first) + ids(second)) == sorted(study.catalogue.ids.tolist())
    listed = page(client, "/", order="listed")
    assert ids(listed) == study.catalogue.ids[: app.PER_PAGE].tolist() != ids(first)
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
    few = {column.name: column for column in snapshot.Shelf(study).columns}
    assert dict(few["category"].choices or ()) == {"bag": 24, "hat": 24, "shoe": 24}
    monkeypatch.setattr(snapshot, "CHOICES", 5)
    many = snapshot.Shelf(study)
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
        fields.pop("by", None)  # names or looks, which is no part of the state
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
    assert "an item, a picture or words" in problem(client.get("/like"), 422)
    assert "an item, a picture or words" in problem(client.get("/like?item=a&picture=b"), 422)


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
