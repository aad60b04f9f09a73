"""What people type into the search box. A vacuous test would only take apart what it has put together from words
without signs, quotes and stars: here texts hold all of them, and any text at all is parsed or refused in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.core.errors import InputError
from lookalike.search.expressions import MOST_PARTS, QueryPart, named, parse, written

ODD = st.text("ab .-+−*×\"“„0123456789'_/\t\n<é漢\u2028\u00a0", max_size=12)


def parts_of(*texts: str) -> list[tuple[int, float, str]]:
    return [(part.sign, part.weight, part.text) for text in texts for part in parse(text)]


def test_signs_are_words_of_their_own_or_stand_before_a_word() -> None:
    expected = [(1, 1.0, "photo.jpg"), (1, 1.0, "red t-shirt"), (-1, 1.0, "a dress")]
    for text in (
        "photo.jpg + red t-shirt - a dress",
        "photo.jpg + red t-shirt − a dress",
        "  photo.jpg +red   t-shirt\t−a\ndress ",
        "+ photo.jpg + red t-shirt -a dress",
    ):
        assert parts_of(text) == expected, text
    assert parts_of("black-and-white C++ a+b") == [(1, 1.0, "black-and-white C++ a+b")]


def test_quotes_and_weights() -> None:
    assert parse('"salt + pepper" - 0.5*"sea - side"') == (
        QueryPart("salt + pepper", quoted=True),
        QueryPart("sea - side", -1, 0.5, quoted=True),
    )
    assert parts_of("2*red + 1.25×blue") == [(1, 2.0, "red"), (1, 1.25, "blue")]
    assert parse('"2*red"') == (QueryPart("2*red", quoted=True),)
    assert parts_of("2* red") == [(1, 2.0, "red")]
    assert parts_of("„rotes Kleid“ + “blue”") == [(1, 1.0, "rotes Kleid"), (1, 1.0, "blue")]
    assert parts_of('a 5" screen') == [(1, 1.0, 'a 5" screen')]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "nothing is searched for"),
        (" \t\n", "nothing is searched for"),
        ("red +", "nothing follows the last sign of 'red \\+'"),
        ("red + - blue", "nothing between two signs, at place 7"),
        ("--red", "nothing between two signs"),
        ("- dress", "begin with what to find, as red − dress"),
        ("-dress − hat", "everything is taken away"),
        ('red + "blue', "a quote is opened and not closed"),
        ('red + ""', "nothing in the quotes"),
        ('red + "  "', "nothing in the quotes"),
        ("0*red + blue", "'red' counts 0 times"),
        (" + ".join("abcdefghijklmnopqrst"), f"at most {MOST_PARTS} parts, got 20"),
    ],
)
def test_what_cannot_be_searched_for_is_said(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse(text)


@given(ODD)
def test_any_text_is_parsed_or_refused_and_what_is_written_is_parsed_the_same(text: str) -> None:
    try:
        parts = parse(text)
    except InputError:  # any other error is a bug
        return
    assert parse(written(parts)) == parts
    assert any(part.sign > 0 for part in parts)
    assert all(part.text.strip() and part.weight > 0 for part in parts)


WORDS = st.lists(st.text("abz漢é'_/.-+0123456789<>", min_size=1, max_size=6), min_size=1, max_size=3).map(" ".join)
PLAIN = WORDS.filter(lambda text: not any(word[0] in "+-" for word in text.split()))
QUOTED = st.text('ab +-−*0 "', min_size=1, max_size=10).filter(
    lambda text: text.strip() and not any(quote in text for quote in ('" ',)) and not text.endswith('"')
)
PART = st.builds(
    lambda text, sign, weight, quoted: QueryPart(text[quoted], sign, weight, bool(quoted)),
    st.tuples(PLAIN, QUOTED),
    st.sampled_from([1, -1]),
    st.integers(1, 999_999).map(lambda number: number / 1000),
    st.sampled_from([0, 1]),
)


@given(PART.filter(lambda part: part.sign > 0), st.lists(PART, max_size=5))
def test_parts_that_are_written_are_parsed_again(first: QueryPart, others: list[QueryPart]) -> None:
    assert parse(written([first, *others])) == (first, *others)


@given(st.text('ab .-+*"0漢', min_size=1, max_size=10).filter(lambda text: text.strip() and '"' not in text))
def test_any_name_can_be_meant_as_it_is(name: str) -> None:
    (part,) = parse(written([named(name)]))
    assert part.text == name
