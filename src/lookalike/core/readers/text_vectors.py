"""Vectors that are written as text: "[0.1, 0.2]", "0.1 0.2", or the bits of a code, "0110"."""

import re

import numpy as np

from lookalike.core.errors import InputError

_MARKS = str.maketrans(dict.fromkeys("[](){},;|", " "))
_BITS = re.compile(r"[01]{2,}")
FEWEST = 8  # bits of a text that is surely a code, and no number
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_VECTOR = re.compile(rf"\s*(?:[\[({{]\s*)?{_NUMBER}(?:\s*[,;|\s]\s*{_NUMBER})+\s*[\])}}]?\s*")
LONGEST = 200  # letters of a text that are looked at, to see whether it is a vector

__all__ = ["is_bit_text", "is_vector_text", "vectors_of_text"]


def is_bit_text(text: str) -> bool:
    """Whether a text is the bits of a code.

    >>> [is_bit_text(text) for text in ("01100101", "101", "2001")]
    [True, False, False]
    """
    return len(text) >= FEWEST and _BITS.fullmatch(text) is not None


def is_vector_text(text: str) -> bool:
    """Whether a text is a vector in brackets, or several numbers, or the bits of a code.

    >>> [is_vector_text(text) for text in ("[0.1, -2e3]", "0.5 1", "3", "fire engine", "2024-01-02")]
    [True, True, False, False, False]
    """
    if is_bit_text(text):
        return True
    start = text[:LONGEST]
    if len(text) > LONGEST:  # what is cut off would be half a number
        start = re.sub(r"[^\s,;|]*$", "", start).rstrip(" ,;|\t\n")
    return _VECTOR.fullmatch(start) is not None


def vectors_of_text(texts: list[str], what: str, first_row: int = 0) -> np.ndarray:
    """Vectors as a matrix of floats, or bits as a matrix of 0 and 1.

    what: the name of the texts in errors. first_row: the number of the first.

    >>> vectors_of_text(["[0.5, 1]", "2 3"], "column 'emb'")
    array([[0.5, 1. ],
           [2. , 3. ]])
    >>> vectors_of_text(["011", "100"], "column 'code'")
    array([[0, 1, 1],
           [1, 0, 0]], dtype=uint8)
    """
    are_bits = bool(texts) and all(map(_BITS.fullmatch, texts))
    rows: list[list[float]] = [
        list(map(float, text)) if are_bits else _numbers(text, f"row {first_row + row} of {what}")
        for row, text in enumerate(texts)
    ]
    for row, numbers in enumerate(rows):
        if len(numbers) != len(rows[0]):
            raise InputError(
                f"{what} has vectors of different lengths: row {first_row} has {len(rows[0])} numbers, row "
                f"{first_row + row} has {len(numbers)}"
            )
    return np.array(rows, np.uint8 if are_bits else float).reshape(len(rows), -1 if rows else 0)


def _numbers(text: str, what: str) -> list[float]:
    """The numbers of a text."""
    words = text.translate(_MARKS).split()
    if "..." in text or "…" in text:
        raise InputError(f"{what} was cut short when it was written, {text[:40]!r}: write all of its numbers")
    try:
        if "_" in text or not words:
            raise ValueError(text)
        return list(map(float, words))
    except ValueError as error:
        raise InputError(f"{what} must be a vector such as [0.1, 0.2], got {text[:40]!r}") from error
