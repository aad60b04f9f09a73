"""Ids of queries and items as arrays: of whole numbers or text, or always of text."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lookalike.core.codes import as_numpy
from lookalike.core.errors import InputError, InputTypeError

__all__ = ["RowError", "id_array", "row_error", "text_array", "text_ids"]

RowError = Callable[[int, str], InputError]  # from a row's number and what is wrong with it


def row_error(row: int, problem: str) -> InputError:
    """The error of one row of an array."""
    return InputError(f"row {row}: {problem}")


def id_array(ids: Any, what: str) -> np.ndarray:
    """Ids as an array of whole numbers or of strings, never of Python objects.

    >>> id_array([7, 12], "query_ids"), id_array(["a", "b"], "query_ids")
    (array([ 7, 12]), array(['a', 'b'], dtype='<U1'))
    """
    values = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    for kind in (int, str):
        if all(isinstance(value, kind) and not isinstance(value, bool) for value in values):
            return np.array(values, np.int64 if kind is int else str)
    raise InputTypeError(f"{what} must be whole numbers or strings, all of one kind")


def text_ids(ids: Any, what: str, error: RowError = row_error) -> np.ndarray:
    """Ids as an array of strings of its own; whole numbers are written out, and no id is empty.

    The width of the array is the one that numpy chooses. Fingerprints depend on it.

    >>> text_ids([7, 12], "queries").tolist()
    ['7', '12']
    """
    try:
        array = as_numpy(ids if hasattr(ids, "dtype") or isinstance(ids, Sequence) else list(ids))
    except (TypeError, ValueError) as cause:  # no list, or lists of different lengths
        raise InputTypeError(f"{what} must be a list of ids, got {ids!r}") from cause
    if array.ndim != 1:
        raise InputError(f"{what} must be a list of ids, got shape {array.shape}")
    if array.dtype.kind not in "iuUS":
        for row, value in enumerate(array.tolist()):
            if not isinstance(value, str | int):
                raise error(row, f"{what} must be text or whole numbers, got {value!r}")
    try:
        texts = np.array(array.tolist(), object).astype(str) if array.dtype.kind == "O" else array.astype(str)
    except UnicodeDecodeError as cause:
        raise InputError(f"{what} must be text or whole numbers, got bytes that are not ASCII") from cause
    empty = np.flatnonzero(np.char.strip(texts) == "")
    if len(empty):
        raise error(int(empty[0]), f"{what} must not be empty")
    return texts


def text_array(values: Any, what: str) -> np.ndarray:
    """Text or whole numbers as an array of strings, (n,), that files of every kind hold unchanged.

    The array has the least width, so that equal text has an equal fingerprint.

    >>> text_array([7, "b"], "labels")
    array(['7', 'b'], dtype='<U1')
    """
    rows = list(values) if isinstance(values, list | tuple) else as_numpy(values)
    if isinstance(rows, np.ndarray):
        if rows.ndim != 1:
            raise InputError(f"{what} must be one for each item, got shape {rows.shape}")
        rows = rows.astype(str).tolist() if rows.dtype.kind in "iuM" else rows.tolist()
    for row, value in enumerate(rows):
        if isinstance(value, bytes):
            rows[row] = value.decode("utf-8", "replace")
        elif not isinstance(value, str):
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise InputTypeError(f"{what} must be text or whole numbers, got {value!r} in row {row}")
            rows[row] = str(value)
    everything = "".join(rows)
    if "\0" in everything:  # numpy drops it at the end of a text
        row = next(row for row, text in enumerate(rows) if "\0" in text)
        raise InputError(f"{what} must not hold a zero byte, got {rows[row]!r} in row {row}")
    try:
        everything.encode()
    except UnicodeEncodeError as error:
        row = next(row for row, text in enumerate(rows) if text.encode(errors="replace").decode() != text)
        raise InputError(f"{what} must be valid Unicode, got {rows[row]!r} in row {row}") from error
    return np.array(rows, str)
