"""TREC files: runs (what a search ranked) and qrels (what was judged), plain or gzipped."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from lookalike.relevance import MAX_GRADE, Judged, Relevance

__all__ = ["read_qrels", "read_run"]


def read_run(path: str | Path) -> dict[str, dict[str, float]]:
    """Read a run, lines "query Q0 item rank score name", as {query: {item: score}}; the rank is not used."""
    run: dict[str, dict[str, float]] = {}
    for number, fields in _lines(path, 6, "query Q0 item rank score name"):
        query, _, item, _, text, _ = fields
        try:
            score = float(text)
        except ValueError:
            raise ValueError(f"{path}, line {number}: the score must be a number, got {text!r}") from None
        if score != score:
            raise ValueError(f"{path}, line {number}: the score is nan")
        ranked = run.setdefault(query, {})
        if item in ranked:
            raise ValueError(f"{path}, line {number}: query {query!r} ranks item {item!r} twice")
        ranked[item] = score
    if not run:
        raise ValueError(f"{path} is empty: no run")
    return run


def read_qrels(path: str | Path) -> Relevance:
    """Read judgements, lines "query iteration item grade", as judged relevance."""
    judgements: dict[str, dict[str, int]] = {}
    for number, (query, _, item, text) in _lines(path, 4, "query iteration item grade"):
        if not text.isdecimal() or int(text) > MAX_GRADE:
            raise ValueError(
                f"{path}, line {number}: a grade must be a whole number from 0 to {MAX_GRADE}, got {text!r}"
            )
        before = judgements.setdefault(query, {}).setdefault(item, int(text))
        if before != int(text):
            raise ValueError(f"{path}, line {number}: query {query!r} and item {item!r} were judged {before} before")
    if not judgements:
        raise ValueError(f"{path} is empty: no judgement")
    return Judged(judgements)


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
                    raise ValueError(f"{path}, line {number}: expected {form!r}, got {line.strip()[:80]!r}")
                yield number, fields
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is not a whole gzip file: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file") from error
