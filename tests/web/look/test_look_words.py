"""The box of `lookalike look`: file names or looks, words and pictures, and what each part was taken for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.testclient import TestClient

from helpers.looking import OWN, bring, ids, links, page, problem
from helpers.pages import Reader
from helpers.word_pairs import make_words_study
from lookalike.study.combined import like_parts, read_ingredients
from lookalike.study.encode import encode_folder
from lookalike.study.finder import Finder
from lookalike.study.item_names import ItemNames
from lookalike.study.study import Study
from lookalike.web.look.app import create_look_app
from lookalike.web.thumbnails import Thumbnails

RED_THREE = "red/three-0003.png"


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Study:
    study = make_words_study(tmp_path_factory.mktemp("look-words"))
    encode_folder(study.path.parent / "digits", study.path, model="colour", threads=1)
    return study


@pytest.fixture(scope="module")
def visitor(digits: Study) -> Iterator[TestClient]:
    app = create_look_app(digits, thumbnails=Thumbnails(digits.path.parent / "thumbnails"))
    with TestClient(app, base_url=OWN) as opened:
        yield opened


def labels(read: Reader) -> list[str]:
    marked = [attributes for tag, attributes in read.found if tag == "a" and attributes.get("class") == "remove"]
    return [str(attributes["aria-label"]).removeprefix("Remove ") for attributes in marked]


def removals(read: Reader) -> list[str]:
    return [str(attributes["href"]) for tag, attributes in read.found if attributes.get("class") == "remove"]


def test_words_and_pictures_are_searched_as_by_the_finder(visitor: TestClient, digits: Study) -> None:
    words = f"{RED_THREE} − red + blue"
    read = page(visitor, "/like", words=words, model="image")
    ingredients = read_ingredients(words, ItemNames(digits.catalogue), lambda text: None)
    looks = like_parts(Finder(digits, "image"), ingredients, 24)
    assert ids(read) == digits.catalogue.ids[looks.items].tolist()
    assert labels(read) == [f"picture {RED_THREE}", "without red", "words blue"]
    only = visitor.get(removals(page(visitor, "/like", words="blue - red", model="image"))[0])
    assert "300 items" in only.text  # without anything to find, there is the catalogue


def test_each_removal_leads_to_the_search_without_that_part(visitor: TestClient) -> None:
    links_of = removals(page(visitor, "/like", words="three − red + 2*blue", model="image"))
    left = [parse_qs(urlsplit(link).query)["words"][0] for link in links_of]
    assert left == ["− red + 2*blue", "three + 2*blue", "three − red"]
    assert labels(Reader(visitor.get(links_of[0]).text)) == ["without red", "2 × words blue"]


def test_the_box_says_what_it_searches(visitor: TestClient) -> None:
    names, looks = page(visitor, "/", q="THREE-00"), page(visitor, "/like", words="three")
    for read, chosen in ((names, "names"), (looks, "looks")):
        radios = [attributes for tag, attributes in read.found if attributes.get("name") == "by"]
        assert [(radio["value"], "checked" in radio) for radio in radios] == [
            ("names", chosen == "names"),
            ("looks", chosen == "looks"),
        ]
    assert "by file name: “THREE-00”" in names.text
    assert ids(names) == sorted(ids(names))
    assert all("three-00" in name for name in ids(names))
    assert (
        visitor.get("/", params={"q": "red three", "by": "looks"}, follow_redirects=False)
        .headers["location"]
        .startswith("/like?words=red+three")
    )
    assert ids(page(visitor, "/", q="three red")) == ids(page(visitor, "/", q="red/three-"))


def test_words_choose_a_model_that_takes_them_and_others_say_what_they_lack(visitor: TestClient) -> None:
    assert all(name.startswith("red/") for name in ids(page(visitor, "/like", words="red"))[:9])
    both = visitor.get("/like", params={"words": "red", "model": ["colour", "image"]})
    assert "colour has no text side, so that it cannot be searched by words: lookalike encode --model" in both.text
    assert len(ids(Reader(both.text))) == 24


def test_more_is_added_and_taken_away(visitor: TestClient) -> None:
    def after(words: str, more: str, sign: str) -> str:
        parameters = {"words": words, "more": more, "sign": sign, "model": "image"}
        answer = visitor.get("/like", params=parameters, follow_redirects=False)
        assert answer.status_code == 303, answer.text
        query = parse_qs(urlsplit(answer.headers["location"]).query)
        assert query["model"] == ["image"]
        return query["words"][0]

    assert after("three", "red", "-") == "three − red"
    assert after("three − red", "blue + green", "-") == "three − red − blue − green"
    assert after("three", "- red", "+") == "three − red"
    assert after("three", RED_THREE, "+") == f"three + {RED_THREE}"
    assert "quote is opened" in problem(visitor.get('/like?words=three&more="red'), 422)
    assert "sign" in problem(visitor.get("/like?words=three&more=red&sign=x"), 422)


def test_a_picture_that_was_brought_is_a_part(visitor: TestClient, digits: Study) -> None:
    body = (digits.path.parent / "digits" / RED_THREE).read_bytes()
    token = parse_qs(urlsplit(bring(visitor, body, "<i>mine</i>.png").headers["location"]).query)["picture"][0]
    read = page(visitor, "/like", words=f"picture:{token} − red + blue", model="image")
    assert labels(read) == ["picture i>.png", "without red", "words blue"]  # what is behind the last slash of a name
    assert all(name.startswith("blue/three") for name in ids(read)[:5])
    alone = visitor.get("/like", params={"words": f"picture:{token}"}, follow_redirects=False)
    assert parse_qs(urlsplit(alone.headers["location"]).query)["picture"] == [token]
    assert "no longer held" in problem(visitor.get("/like?words=picture:AAAAAAAAAAAAAAAAAAAAAAAA"), 410)
    item = visitor.get("/like", params={"words": "three-0003.png"}, follow_redirects=False)
    assert parse_qs(urlsplit(item.headers["location"]).query)["item"] == [RED_THREE]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "Nothing is searched for"),
        ("red +", "Nothing follows the last sign"),
        ("− red", "Everything is taken away"),
        ("red + none.jpg", "There is no file none.jpg"),
        ("red " * 600, "words"),
    ],
)
def test_what_cannot_be_searched_for_is_said(visitor: TestClient, words: str, sentence: str) -> None:
    assert sentence in problem(visitor.get("/like", params={"words": words}), 422)


def test_an_address_names_one_thing(visitor: TestClient) -> None:
    assert "an item, a picture or words" in problem(visitor.get("/like?words=red&item=a"), 422)
    assert "an item, a picture or words" in problem(visitor.get("/like"), 422)


def test_markup_is_text(visitor: TestClient) -> None:
    read = visitor.get("/like", params={"words": "<script>alert(1)</script> + \"<b onclick='x'>\"", "model": "image"})
    assert "<script>alert" not in read.text
    assert "<b onclick" not in read.text
    assert labels(Reader(read.text)) == ["words <script>alert(1)</script>", "words <b onclick='x'>"]
    assert not re.search(r"<b[^>]*>\s*</b>", visitor.get("/", params={"q": "<b></b>"}).text)


def test_every_link_and_form_keeps_the_words(visitor: TestClient) -> None:
    state = {"words": "three − red", "is.category": "blue", "model": "image", "k": "12"}
    read = page(visitor, "/like", **state)
    hidden = [
        (attributes.get("name"), attributes.get("value"))
        for tag, attributes in read.found
        if tag == "input" and attributes.get("type") == "hidden"
    ]
    assert hidden.count(("words", "three − red")) == 2  # the filters, and what adds to the words
    assert all(name.startswith("blue/") for name in ids(read))
    assert all("model=image" in link for link in removals(read) + links(read, "data-cell"))


def test_a_study_without_a_text_side_says_what_it_would_need(tmp_path: Path, digits: Study) -> None:
    plain = encode_folder(digits.path.parent / "digits", tmp_path / "study", model="colour", threads=1).study
    with TestClient(create_look_app(plain), base_url=OWN) as opened:
        assert "For words: colour has no text side, so that it cannot be searched by words" in opened.get("/").text
        assert 'class="refine"' not in opened.get("/like", params={"item": RED_THREE}).text
