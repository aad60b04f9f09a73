"""TREC files: runs (what a search ranked) and qrels (what was judged), plain or gzipped."""

import contextlib
import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from lookalike.core.errors import FileError, InputError
from lookalike.core.files import writing
from lookalike.evaluation.relevance import MAX_GRADE, Judged, Relevance

__all__ = [
    "bad_grade",
    "in_order_of_trec_eval",
    "read_qrels",
    "read_run",
    "rows_of_qrels",
    "rows_of_run",
    "write_qrels",
    "write_run",
]


def read_run(path: str | Path) -> dict[str, dict[str, float]]:
    """Read a run, lines "query Q0 item rank score name", as {query: {item: score}}; the rank is not used."""
    run: dict[str, dict[str, float]] = {}
    for _, query, item, score in rows_of_run(path):
        run.setdefault(query, {})[item] = score
    return run


def read_qrels(path: str | Path) -> Relevance:
    """Read judgements, lines "query iteration item grade", as judged relevance."""
    judgements: dict[str, dict[str, int]] = {}
    for number, query, item, grade in rows_of_qrels(path):
        before = judgements.setdefault(query, {}).setdefault(item, grade)
        if before != grade:
            raise FileError(
                f"{path}, line {number}: query {query!r} and item {item!r} were judged {before} before",
                path=path,
                line=number,
            )
    return Judged(judgements)


def in_order_of_trec_eval(run: Mapping[Any, Mapping[Any, float]]) -> dict[Any, dict[Any, float]]:
    """The same run in the one order that trec_eval takes it in, without ties: scores are ranks below zero.

    It reads scores in single precision, and puts the last name of those that are equal first.

    >>> in_order_of_trec_eval({"q": {"a": 1.0, "b": 1.0 + 1e-10, "c": 2.0}})
    {'q': {'c': -1.0, 'b': -2.0, 'a': -3.0}}
    """
    out: dict[Any, dict[Any, float]] = {}
    for query, ranked in run.items():
        items = sorted(ranked, key=str, reverse=True)
        with np.errstate(over="ignore"):  # a score that is too large for single precision is infinite
            scores = np.array([ranked[item] for item in items], float).astype(np.float32)
        if np.isnan(scores).any():
            raise InputError(f"the run gives query {query!r} a score that is not a number")
        order = np.argsort(-scores, kind="stable").tolist()
        out[query] = {items[place]: -float(rank) for rank, place in enumerate(order, 1)}
    return out


def rows_of_run(path: str | Path) -> Iterator[tuple[int, str, str, float]]:
    """Line, query, item and score of everything that a run ranks; no pair stands twice."""
    pairs: set[tuple[str, str]] = set()
    for number, (query, _, item, _, text, _) in _lines(path, 6, "query Q0 item rank score name"):
        try:
            score = float(text)
        except ValueError:
            raise FileError(
                f"{path}, line {number}: the score must be a number, got {text!r}", path=path, line=number
            ) from None
        if score != score:
            raise FileError(f"{path}, line {number}: the score is nan", path=path, line=number)
        if (query, item) in pairs:
            raise FileError(f"{path}, line {number}: query {query!r} ranks item {item!r} twice", path=path, line=number)
        pairs.add((query, item))
        yield number, query, item, score
    if not pairs:
        raise FileError(f"{path} is empty: no run", path=path)


def rows_of_qrels(path: str | Path) -> Iterator[tuple[int, str, str, int]]:
    """Line, query, item and grade of every judgement; a pair may stand more than once."""
    empty = True
    for number, (query, _, item, text) in _lines(path, 4, "query iteration item grade"):
        if not (text.isascii() and text.isdecimal()) or len(text) > 99 or int(text) > MAX_GRADE:
            raise FileError(bad_grade(f"{path}, line {number}", text[:80]), path=path, line=number)
        empty = False
        yield number, query, item, int(text)
    if empty:
        raise FileError(f"{path} is empty: no judgement", path=path)


def bad_grade(where: str, value: Any) -> str:
    """That a grade cannot be used, and what to do with one that says that nobody judged the pair.

    >>> bad_grade("line 1", "-1")
    "line 1: a grade must be a whole number from 0 to 32767, got '-1': leave out pairs that nobody judged"
    """
    nobody = str(value).strip() in ("", "nan", "None") or str(value).startswith("-")
    advice = ": leave out pairs that nobody judged" if nobody else ""
    return f"{where}: a grade must be a whole number from 0 to {MAX_GRADE}, got {value!r}{advice}"


def write_run(
    path: str | Path,
    rows: Mapping[Any, Mapping[Any, float]] | Iterable[tuple[Any, Any, float]],
    name: str = "lookalike",
) -> None:
    """Write a run, {query: {item: score}} or rows (query, item, score), the best first; scores come back exactly.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.txt"
    >>> write_run(path, [("q", "a", 0.5), ("q", "b", 2)])
    >>> print(path.read_text(), end="")
    q Q0 b 1 2.0 lookalike
    q Q0 a 2 0.5 lookalike
    """
    if isinstance(rows, Mapping):
        rows = [(query, item, score) for query, items in rows.items() for item, score in items.items()]
    run: dict[str, dict[str, float]] = {}
    for query, item, score in rows:
        number = float(score)
        if number != number:
            raise InputError(f"the score of query {query!r} and item {item!r} is nan")
        ranked = run.setdefault(_word(query, "query"), {})
        if _word(item, "item") in ranked:
            raise InputError(f"query {query!r} ranks item {item!r} twice")
        ranked[str(item)] = number
    _word(name, "name of the run")
    with _packing(path) as file:
        for query, ranked in run.items():
            best_first = sorted(ranked.items(), key=lambda pair: -pair[1])
            lines = (f"{query} Q0 {item} {rank} {score!r} {name}\n" for rank, (item, score) in enumerate(best_first, 1))
            file.write("".join(lines).encode())


def write_qrels(path: str | Path, rows: Iterable[tuple[Any, Any, int]]) -> None:
    """Write judgements, rows (query, item, grade), in their order.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "qrels.txt"
    >>> write_qrels(path, [("q", "a", 1), ("q", "b", 0)])
    >>> print(path.read_text(), end="")
    q 0 a 1
    q 0 b 0
    """
    lines = []
    for query, item, grade in rows:
        if isinstance(grade, bool) or grade != int(grade) or not 0 <= grade <= MAX_GRADE:
            raise InputError(
                f"a grade must be a whole number from 0 to {MAX_GRADE}, "
                f"got {grade!r} for query {query!r} and item {item!r}"
            )
        lines.append(f"{_word(query, 'query')} 0 {_word(item, 'item')} {int(grade)}\n")
    with _packing(path) as file:
        file.write("".join(lines).encode())


def _word(value: Any, what: str) -> str:
    """An id as TREC files can hold it."""
    text = str(value)
    if text.split() != [text] or text.startswith("\ufeff"):  # which is no space, but goes when the file is read
        raise InputError(
            f"a TREC file separates by spaces: the {what} {text!r} is empty or has one, and cannot be in it"
        )
    return text


@contextlib.contextmanager
def _packing(path: str | Path) -> Iterator[IO[bytes]]:
    """A file to write, whole or not at all, gzipped if it is named so, and then the same for the same content."""
    with writing(path) as file:
        if Path(path).suffix == ".gz":
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                yield cast(IO[bytes], packed)
        else:
            yield file


def _lines(path: str | Path, n_fields: int, form: str) -> Iterator[tuple[int, list[str]]]:
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    open_file = gzip.open if path.suffix == ".gz" else open
    try:
        with open_file(path, "rt", encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                fields = line.split()
                if not fields:
                    continue
                if len(fields) != n_fields:
                    raise FileError(
                        f"{path}, line {number}: expected {form!r}, got {line.strip()[:80]!r}", path=path, line=number
                    )
                yield number, fields
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FileError(f"{path} is not a whole gzip file: {error}", path=path) from error
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is not a text file", path=path) from error
