"""Checks of what users give, each said once: whole numbers, choices, ids that differ, equal lengths."""

import difflib
import numbers
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from lookalike.core.errors import InputError, InputTypeError, Option

__all__ = ["choice", "distinct", "equal_lengths", "nearest", "same_bits", "same_hasher", "whole_number"]


def whole_number(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """The value as an int; an error if it is not a whole number from `least` to `most`.

    >>> whole_number("k", np.int64(3))
    3
    >>> whole_number("k", 0)
    Traceback (most recent call last):
    lookalike.core.errors.InputError: k must be a whole number from 1, got 0
    """
    bounds = f" must be a whole number from {least}" + ("" if most is None else f" to {most}")
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise InputTypeError(Option(name), f"{bounds}, got {value!r}", parameter=name, value=value)
    if int(value) < least or (most is not None and int(value) > most):
        raise InputError(Option(name), f"{bounds}, got {value}", parameter=name, value=value)
    return int(value)


def choice(name: str, value: Any, choices: Collection[Any]) -> None:
    """Raise if the value is not one of the choices; the error names the nearest one.

    >>> choice("similarity", "cosin", ["cosine", "dot"])
    Traceback (most recent call last):
    lookalike.core.errors.InputError: similarity must be one of 'cosine', 'dot', got 'cosin', did you mean 'cosine'?
    """
    if value in choices:
        return
    similar = nearest(value, choices)
    question = "" if similar is None else f", did you mean {similar!r}?"
    listed = ", ".join(map(repr, choices))
    raise InputError(Option(name), f" must be one of {listed}, got {value!r}{question}", parameter=name, value=value)


def nearest(word: Any, choices: Iterable[Any], cutoff: float = 0.4) -> Any:
    """The choice that is spelt most like a word, None if none is; capital letters do not matter.

    >>> nearest("itq", ["LSH", "ITQ"]), nearest("xyz", ["LSH", "ITQ"])
    ('ITQ', None)
    """
    lowered = {str(item).lower(): item for item in choices}
    similar = difflib.get_close_matches(str(word).lower(), list(lowered), 1, cutoff)
    return lowered[similar[0]] if similar else None


def distinct(what: str, ids: np.ndarray) -> None:
    """Raise if an id occurs twice.

    >>> distinct("gallery_ids", np.array(["a", "b", "a"]))
    Traceback (most recent call last):
    lookalike.core.errors.InputError: gallery_ids must differ, 'a' occurs 2 times
    """
    values, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        raise InputError(f"{what} must differ, {values[counts > 1][0].item()!r} occurs {counts.max()} times")


def equal_lengths(lengths: Mapping[str, int]) -> None:
    """Raise if arrays that belong together are not equally long.

    >>> equal_lengths({"queries": 3, "query labels": 2})
    Traceback (most recent call last):
    lookalike.core.errors.InputError: there are 3 queries but 2 query labels
    """
    (first, n_first), *others = lengths.items()
    for name, length in others:
        if length != n_first:
            raise InputError(f"there are {n_first:,} {first} but {length:,} {name}")


def same_bits(queries: int, gallery: int, what: str = "gallery codes") -> None:
    """Raise if codes are of different lengths.

    >>> same_bits(64, 48)
    Traceback (most recent call last):
    lookalike.core.errors.InputError: gallery codes have 48 bits, queries have 64: encode both with the same hasher
    """
    if queries != gallery:
        raise InputError(f"{what} have {gallery} bits, queries have {queries}: encode both with the same hasher")


def same_hasher(queries: str | None, gallery: str | None, what: str = "gallery codes") -> None:
    """Raise if codes were made by two different hashers; codes of a hasher that is not known pass.

    >>> same_hasher("129d7c8430eea69d", None)
    >>> same_hasher("129d7c8430eea69d", "0a6fe1c2b7d94e35")
    Traceback (most recent call last):
    lookalike.core.errors.InputError: gallery codes were made by another hasher (0a6fe1c2) than queries (129d7c84), ...
    """
    if queries is not None and gallery is not None and queries != gallery:
        raise InputError(
            f"{what} were made by another hasher ({gallery[:8]}) than queries ({queries[:8]}), so their distances mean "
            "nothing: learn one hasher, save it (lookalike hash GALLERY … --save hasher.npz) and hash both with it "
            "(lookalike hash QUERIES … --hasher hasher.npz; in Python hasher.transform of both)"
        )
