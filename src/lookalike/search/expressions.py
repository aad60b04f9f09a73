"""What people type into a search box: words and pictures, added and taken away, as `photo.jpg + red − dress`."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lookalike.core.errors import InputError

__all__ = ["MOST_PARTS", "QueryPart", "named", "parse", "written"]

MOST_PARTS = 16
SIGNS = {"+": 1, "-": -1, "−": -1}  # the minus sign of typography, and of this page
QUOTES = '"“”„«»'
LETTER, END, CLOSING = re.compile(r"\S"), re.compile(r"\s|$"), re.compile(f"[{QUOTES}](?=\\s|$)")
WEIGHT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?)[*×]")


@dataclass(frozen=True)
class QueryPart:
    """One part of what is searched for: a text, whether it is added (1) or taken away (-1), and how much it counts.

    quoted: whether it stood in quotes, so that signs in it are text.
    """

    text: str
    sign: int = 1
    weight: float = 1.0
    quoted: bool = False


def parse(expression: str, *, allow_minus: bool = False) -> tuple[QueryPart, ...]:
    """The parts of what was typed.

    A sign is a word of its own, or stands before a word; within a word it is text. A number and a star say how much a
    part counts. allow_minus: whether all parts may be taken away.

    >>> [(part.sign, part.text) for part in parse('photo.jpg + red t-shirt -dress')]
    [(1, 'photo.jpg'), (1, 'red t-shirt'), (-1, 'dress')]
    >>> parse('0.5*red + "salt + pepper"')[1]
    QueryPart(text='salt + pepper', sign=1, weight=1.0, quoted=True)
    """
    expression = "".join(" " if unicodedata.category(letter) == "Cc" else letter for letter in expression)
    pieces = _divided(expression)
    if not pieces:
        raise InputError("nothing is searched for: write words, or the name of a picture, such as photo.jpg + red")
    parts = tuple(_part(sign, words) for sign, words in pieces)
    if len(parts) > MOST_PARTS:
        raise InputError(f"a search has at most {MOST_PARTS} parts, got {len(parts)}: leave some out")
    if not allow_minus and all(part.sign < 0 for part in parts):
        raise InputError(
            f"everything is taken away, nothing is searched for: begin with what to find, as red − {parts[0].text}"
        )
    return parts


def written(parts: Sequence[QueryPart]) -> str:
    """Parts as people type them; `parse` gives the same parts again.

    >>> written((QueryPart("photo.jpg"), QueryPart("red", weight=0.5), QueryPart("a - b", sign=-1, quoted=True)))
    'photo.jpg + 0.5*red − "a - b"'
    """
    texts = []
    for at, part in enumerate(parts):
        sign = ("" if at == 0 else "+ ") if part.sign > 0 else "− "
        weight = "" if part.weight == 1 else f"{part.weight:.3f}".rstrip("0").rstrip(".") + "*"
        texts.append(f'{sign}{weight}"{part.text}"' if part.quoted else f"{sign}{weight}{part.text}")
    return " ".join(texts)


def named(text: str, sign: int = 1) -> QueryPart:
    """The part that means a text as it is, in quotes if it must be.

    >>> written([named("a - b.jpg"), named("c.jpg")])
    '"a - b.jpg" + c.jpg'
    """
    try:
        plain = parse(text) == (QueryPart(text),)
    except InputError:
        plain = False
    return QueryPart(text, sign, quoted=not plain)


class _Word(NamedTuple):
    """A word or what stood in quotes, with the number before it if there is one."""

    text: str
    weight: str | None
    quoted: bool
    end: int


def _divided(expression: str) -> list[tuple[int, list[_Word]]]:
    """Each part's sign and its words."""
    pieces: list[tuple[int, list[_Word]]] = []
    sign: int | None = None
    at = 0
    while (start := LETTER.search(expression, at)) is not None:
        at = start.start()
        if expression[at] in SIGNS:
            if sign is not None:
                raise _nothing_between(expression, at)
            sign = SIGNS[expression[at]]
            at += 1
            continue
        word = _word(expression, at, first=sign is not None or not pieces)
        if sign is not None or not pieces:
            pieces.append((sign or 1, []))
            sign = None
        pieces[-1][1].append(word)
        at = word.end
    if sign is not None:
        raise InputError(f"nothing follows the last sign of {expression.strip()!r}: write what, or leave out the sign")
    return pieces


def _word(expression: str, at: int, *, first: bool) -> _Word:
    """The word that begins here. first: of its part, so that a number may be before it."""
    number = WEIGHT.match(expression, at) if first else None
    at = number.end() if number else at
    weight = number.group(1) if number else None
    if at < len(expression) and expression[at] in QUOTES:
        closing = CLOSING.search(expression, at + 1)
        if closing is None:
            raise InputError(f"a quote is opened and not closed in {expression.strip()!r}: close it, or leave it out")
        return _Word(expression[at + 1 : closing.start()], weight, True, closing.end())
    end = END.search(expression, at)
    assert end is not None
    return _Word(expression[at : end.start()], weight, False, end.start())


def _part(sign: int, words: list[_Word]) -> QueryPart:
    text = " ".join(word.text for word in words if word.text)
    if not text.strip():
        raise InputError("there is nothing in the quotes, or behind the star: write words, or the name of a picture")
    weight = float(words[0].weight or 1)
    if weight == 0:
        raise InputError(f"{text!r} counts 0 times, which is nothing: leave it out, or give it more than 0")
    return QueryPart(text, sign, weight, any(word.quoted for word in words))


def _nothing_between(expression: str, at: int) -> InputError:
    return InputError(
        f"there is nothing between two signs, at place {at + 1} of {expression.strip()!r}: write what to add or take "
        "away, and put a sign that is meant as text in quotes"
    )
