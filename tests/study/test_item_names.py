"""Items by their names: folded as people expect, in ids and in paths."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.core.errors import StudyError
from lookalike.discovery.catalogue import Catalogue
from lookalike.study.item_names import ItemNames, folded

IDS = ["shoes/Café 01.JPG", "shoes/ｃａｆｅ-02.jpg", "hats/Straße.png", "hats/01.jpg", "bags/01.jpg", "tie"]


@pytest.fixture
def names() -> ItemNames:
    return ItemNames(Catalogue(IDS))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("cafe", [0, 1]), ("CAFÉ", [0, 1]), (unicodedata.normalize("NFD", "café"), [0, 1]), ("ｃａｆｅ", [0, 1]),
        ("strasse", [2]), ("STRASSE", [2]), ("hats/", [2, 3]), ("01 hats", [3]), ("jpg bags", [4]), ("ie", [5]),
        ("nothing", []), ("", [0, 1, 2, 3, 4, 5]), ("<b>", []), ("*", []), (".*", []),
    ],
)  # fmt: skip
def test_words_in_any_order_case_and_width(names: ItemNames, words: str, expected: list[int]) -> None:
    assert names.holding(words).nonzero()[0].tolist() == expected


def test_paths_are_searched_where_ids_are_others() -> None:
    names = ItemNames(Catalogue(["a", "b"], paths=["../pics/red/one.jpg", "../pics/blue/two.jpg"]))
    assert names.holding("blue").tolist() == [False, True]
    assert names.position("two.jpg") == 1
    below = ItemNames(Catalogue(["red/1.jpg"], paths=["../pics/red/1.jpg"]))
    assert not below.holding("pics").any()  # or every item of a folder would be found by the folder's name


def test_an_item_is_meant_by_its_id_or_by_a_file_name_of_its_own(names: ItemNames) -> None:
    assert [names.position(name) for name in (*IDS, "Straße.png", "nothing")] == [0, 1, 2, 3, 4, 5, 2, None]
    assert names.position(unicodedata.normalize("NFD", "Café 01.JPG")) == 0
    with pytest.raises(StudyError, match=r"2 items are called 01.jpg: name one by its id, such as hats/01.jpg, bags"):
        names.position("01.jpg")
    assert names.similar("strasse.PNG") == "hats/Straße.png"


@given(st.text(max_size=20))
def test_folding_twice_is_folding_once(text: str) -> None:
    assert folded(folded(text)) == folded(text)
    assert folded(text.upper()) == folded(text.upper().lower()) or "ı" in text  # Turkish has letters of its own


def test_a_hundred_thousand_names_are_searched_in_a_moment() -> None:
    names = ItemNames(Catalogue([f"folder-{item % 37}/photo_{item:06d} blue dress.jpg" for item in range(100_000)]))
    assert names.holding("Dress 0999").sum() == 120  # the names are folded now
    started = time.process_time()
    assert names.holding("blue 09").sum() > 10_000
    assert time.process_time() - started < 0.5  # 0.02 on a quiet machine
