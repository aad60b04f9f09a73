"""Files of others: the JSON of the released benchmark (Barkan et al. 2023), and judgements in any format."""

import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.csv_files import check_header, read_csv, write_csv
from lookalike.core.endings import JUDGEMENT_FILES, TABLES, TREC, either
from lookalike.core.errors import FileError, InputError
from lookalike.core.file_errors import within
from lookalike.core.files import provenance, read_arrays, read_json, write_arrays, write_text
from lookalike.core.ids import text_array
from lookalike.discovery.catalogue import Catalogue
from lookalike.evaluation.relevance import MAX_GRADE
from lookalike.evaluation.trec import bad_grade, rows_of_qrels, write_qrels

logger = logging.getLogger("lookalike")

Row = tuple[str, str, int]  # query, item, grade
JudgementRows = Iterator[tuple[str, str, str, int]]  # line, entry or row of the file; query, item, grade
Reader = Callable[[Any], JudgementRows]
Writer = Callable[..., None]  # of a path, rows, and for CSV and Parquet the sources of pairs

__all__ = [
    "read_annotations",
    "read_judgements",
    "read_manifest",
    "read_metadata",
    "read_seeds",
    "write_annotations",
    "write_judgements",
    "write_manifest",
    "write_metadata",
    "write_seeds",
]


# The released benchmark


def read_metadata(path: str | Path) -> Catalogue:
    """Read a metadata file, {"images": [{"id", "path", "phase", "bbox"?, "category"?, "color"?}, …]}.

    Its "id" is the product, the identity here; an image is known by its path, which is its id here. All other keys are
    attributes: text as it is, anything else, such as a box, as JSON. What an image lacks is empty.
    """
    entries = _listed(path, "images")
    seen: dict[str, tuple[int, Any]] = {}
    for number, entry in enumerate(entries):
        where = f"{path}, entry {number} of images"
        if not isinstance(entry, dict):
            raise FileError(f"{where}: expected an object with id, path and phase, got {_short(entry)}", path=path)
        entry = {key: value for key, value in entry.items() if value is not None}
        for key in ("id", "path", "phase"):
            _text(entry.get(key), f"{where}: {key!r}")
        for key in ("category", "color"):
            _text(entry.get(key, "-"), f"{where}: {key!r}", empty=True)
        if not _is_box(entry.get("bbox", {})):
            box = _short(entry["bbox"])
            raise FileError(f"{where}: 'bbox' must be four numbers or an object of them, got {box}", path=path)
        before, same = seen.setdefault(entry["path"], (number, entry))
        if same != entry:
            raise FileError(f"{where}: {entry['path']!r} is described in entry {before} otherwise", path=path)
    images = [entry for _, entry in seen.values()]
    keys = dict.fromkeys(key for entry in images for key in entry if key not in ("id", "path"))
    columns = {key: [_as_attribute(entry.get(key, "")) for entry in images] for key in ("phase", *keys)}
    paths = [entry["path"] for entry in images]
    with within(path):
        return Catalogue(
            paths,  # type: ignore[arg-type]
            [entry["id"] for entry in images],  # type: ignore[arg-type]
            columns.pop("category", None),  # type: ignore[arg-type]
            paths,  # type: ignore[arg-type]
            columns,  # type: ignore[arg-type]
        )


def write_metadata(path: str | Path, catalogue: Catalogue, phase: str | None = None) -> None:
    """Write a catalogue as a metadata file. phase: of images that have none in the attribute "phase".

    The benchmark knows an image by its path alone: where a catalogue has paths, they must be its ids, or its ids below
    some folder, as in a study.
    """
    paths = catalogue.ids if catalogue.paths is None else catalogue.paths
    for name, image in zip(catalogue.ids.tolist(), paths.tolist(), strict=True):
        if image != name and not image.endswith(f"/{name}"):
            raise InputError(
                f"the benchmark's files know an image by its path, but {name!r} has the path {image!r}: "
                "make the paths the ids, here and in the judgements"
            )
    attributes = {
        name: [None if value != value else value for value in column.tolist()]  # JSON has no nan
        for name, column in catalogue.attributes.items()
    }
    phases = [own or phase for own in attributes.pop("phase", [""] * len(catalogue))]
    if not all(phases):
        raise InputError("the benchmark has a phase for every image: add an attribute 'phase', or give one for all")
    attributes = {"phase": phases} | attributes
    if catalogue.categories is not None:
        attributes["category"] = catalogue.categories.tolist()
    if "bbox" in attributes:
        attributes["bbox"] = [_box(text) for text in attributes["bbox"]]
    entries = []
    for row, (name, identity) in enumerate(
        zip(catalogue.ids.tolist(), catalogue.column("identity").tolist(), strict=True)
    ):
        further = {key: column[row] for key, column in attributes.items() if column[row] not in ("", None)}
        entries.append({"id": identity, "path": name, **further})
    _write_listed(path, "images", entries)


def read_seeds(path: str | Path, catalogue: Catalogue | None = None) -> np.ndarray:
    """Read a seeds file, {"seeds": [path, …]}: the ids of the queries, all in the catalogue if one is given.

    For a task without seeds, read its annotations: the queries are the first images of their keys.
    """
    if isinstance(_json(path), list):
        names = [query for _, query, _, _ in _annotations(path)]
    else:
        entries = _listed(path, "seeds")
        names = [_text(entry, f"{path}, entry {number} of seeds") for number, entry in enumerate(entries)]
    return _checked_ids(names, path, catalogue)


def write_seeds(path: str | Path, ids: Any) -> None:
    """Write the ids of queries as a seeds file."""
    _write_listed(path, "seeds", text_array(ids, "seeds").tolist())


def read_manifest(path: str | Path, catalogue: Catalogue | None = None) -> np.ndarray:
    """Read a manifest, {"images": [{"path"}, …]}, the ids of the images of a task; an empty one stands for all."""
    names = []
    for number, entry in enumerate(_listed(path, "images")):
        where = f"{path}, entry {number} of images"
        if not isinstance(entry, dict):
            raise FileError(f"{where}: expected an object with a path, got {_short(entry)}", path=path)
        names.append(_text(entry.get("path"), f"{where}: 'path'"))
    return _checked_ids(names, path, catalogue)


def write_manifest(path: str | Path, ids: Any) -> None:
    """Write ids of images as a manifest."""
    _write_listed(path, "images", [{"path": name} for name in text_array(ids, "ids of a manifest").tolist()])


def read_annotations(
    path: str | Path, *, queries: Collection[str] | None = None, items: Collection[str] | None = None
) -> list[Row]:
    """Read annotations, [{"key": [query, item], "value": 0 or 1}, …], as rows (query, item, grade), repeats left out.

    queries, items: the ids that there are; others are refused. [a, b] and [b, a] are two pairs. If a pair has both
    values, it is similar, as in the hit rate of the released code, and a warning says so.
    """
    return _distinct(path, _annotations(path), queries, items, both_are_similar=True)


def write_annotations(path: str | Path, rows: Iterable[tuple[Any, Any, int]]) -> None:
    """Write judgements, rows (query, item, grade), as annotations; grades must be 0 or 1.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tags.json"
    >>> write_annotations(path, [("q", "a", 1), ("q", "b", 0)])
    >>> print(path.read_text(), end="")
    [
    {"key": ["q", "a"], "value": 1},
    {"key": ["q", "b"], "value": 0}
    ]
    """
    entries = []
    for query, item, grade in rows:
        if grade not in (0, 1):
            raise InputError(
                f"annotations are 0 or 1, but query {query!r} and item {item!r} have the grade {grade}: "
                f"write {either((*TABLES, *TREC))}, or decide which grades are similar"
            )
        entries.append({"key": [str(query), str(item)], "value": int(grade)})
    write_text(path, f"[{_lines(entries)}]\n")


# Judgements


def read_judgements(
    path: str | Path, *, queries: Collection[str] | None = None, items: Collection[str] | None = None
) -> list[Row]:
    """Read judgements as rows (query, item, grade), by the file's name: annotations, CSV, Parquet or TREC qrels.

    queries, items: the ids that there are; others are refused. Equal rows are merged. Contradictions are errors, but
    for annotations: see `read_annotations`.
    """
    reader = _format(path)[0]
    return _distinct(path, reader(path), queries, items, both_are_similar=reader is _annotations)


def write_judgements(
    path: str | Path, queries: Any, items: Any, grades: Any, *, raw: bool = False, sources: Any = None
) -> None:
    """Write judgements by the file's name: .json annotations, .csv, .parquet, .qrels, .txt or .trec (and .gz) for TREC.

    raw: in CSV, leave text as it is that a spreadsheet takes for a formula. sources: a further column of CSV and
    Parquet, as `Pool.sources` gives it; the other formats have no place for it, and reading ignores it.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "judgements.csv"
    >>> write_judgements(path, ["q", "q"], ["a", "b"], [1, 0])
    >>> print(path.read_text(), end="")
    query,item,grade
    q,a,1
    q,b,0
    >>> read_judgements(path)
    [('q', 'a', 1), ('q', 'b', 0)]
    """
    write = _format(path, raw)[1]
    sides = [text_array(queries, "queries of judgements").tolist(), text_array(items, "items of judgements").tolist()]
    values = list(grades)
    if not len(sides[0]) == len(sides[1]) == len(values):
        raise InputError(
            f"a judgement has a query, an item and a grade, got {len(sides[0])}, {len(sides[1])} and {len(values)}"
        )
    numbered_rows = (
        (f"row {row}", *_pair(query, item, f"row {row}"), _grade(value, f"row {row}"))
        for row, (query, item, value) in enumerate(zip(*sides, values, strict=True))
    )
    rows = _distinct("judgements", numbered_rows)
    if sources is None or Path(path).suffix not in TABLES:
        write(path, rows)
        return
    by_pair = dict(zip(zip(*sides, strict=True), list(sources), strict=True))
    write(path, rows, sources=[str(by_pair[query, item]) for query, item, _ in rows])


def _format(path: str | Path, raw: bool = False) -> tuple[Reader, Writer]:
    """The function that reads judgements from a file of this name, and the one that writes them to it."""
    name = Path(path).name
    ending = Path(name.removesuffix(".gz")).suffix
    if ending in TREC:
        return _qrels, _to_qrels
    formats: dict[str, tuple[Reader, Writer]] = {
        ".json": (_annotations, write_annotations),
        ".csv": (_csv, partial(_to_csv, raw=raw)),
        ".parquet": (_parquet, _to_parquet),
    }
    if Path(name).suffix not in formats:
        raise FileError(
            f"judgements are in {JUDGEMENT_FILES}, got {path}",
            path=path,
        )
    return formats[ending]


def _distinct(
    path: str | Path,
    rows: JudgementRows,
    queries: Collection[str] | None = None,
    items: Collection[str] | None = None,
    *,
    both_are_similar: bool = False,
) -> list[Row]:
    """Rows without repeats; raises for unknown ids, contradictions, and where there is no row.

    both_are_similar: take the higher of two grades that contradict each other, and say so.
    """
    allowed = {"query": None if queries is None else set(queries), "item": None if items is None else set(items)}
    before: dict[tuple[str, str], tuple[str, int]] = {}
    both: dict[tuple[str, str], str] = {}
    for where, query, item, grade in rows:
        for (what, ids), name in zip(allowed.items(), (query, item), strict=True):
            if ids is not None and name not in ids:
                raise InputError(f"{path}, {where}: there is no {what} {name!r}")
        first, same = before.setdefault((query, item), (where, grade))
        if same != grade:
            sentence = f"{path}, {where}: query {query!r} and item {item!r} have {grade}, but {same} in {first}"
            if not both_are_similar:
                raise InputError(sentence)
            both.setdefault((query, item), sentence)
            before[query, item] = first, max(same, grade)
    if not before:
        raise InputError(f"{path}: there is no judgement")
    if both:
        pairs = "this pair counts" if len(both) == 1 else f"this and {len(both) - 1:,} more such pairs count"
        logger.warning("%s: %s as similar", next(iter(both.values())), pairs)
    return [(*pair, grade) for pair, (_, grade) in before.items()]


def _annotations(path: str | Path) -> JudgementRows:
    entries = _json(path)
    form = '{"key": [query, item], "value": 0 or 1}'
    if not isinstance(entries, list):
        raise FileError(f"{path} must hold a list of {form}, got {_short(entries)}", path=path)
    for number, entry in enumerate(entries):
        where = f"entry {number}"
        key, value = (entry.get("key"), entry.get("value")) if isinstance(entry, dict) else (None, None)
        if not isinstance(key, list) or len(key) != 2 or isinstance(value, bool) or value not in (0, 1):
            raise FileError(f"{path}, {where}: expected {form}, got {_short(entry)}", path=path)
        for name, what in zip(key, ("query", "item"), strict=True):
            _text(name, f"{path}, {where}: the {what}")
        yield where, key[0], key[1], int(value)


def _csv(path: str | Path) -> JudgementRows:
    table = read_csv(path, ())
    _check_no_votes(path, table.columns)
    check_header(path, list(table.columns), ("query", "item", "grade"))
    columns = (table.columns[name] for name in ("query", "item", "grade"))
    for line, query, item, grade in zip(table.lines, *columns, strict=True):
        where = f"{path}, line {line}"
        yield f"line {line}", *_pair(query, item, where), _grade(grade, where)


def _check_no_votes(path: str | Path, columns: Collection[str]) -> None:
    """Raise for a file of votes, of which judgements are still to be made."""
    if "answer" in columns and "grade" not in columns:
        raise FileError(
            f"{path} holds votes, of which a rule has to make judgements: lookalike study votes adds them to a study, "
            "lookalike study export STUDY judgements FILE writes what they say",
            path=path,
        )


def _to_csv(path: str | Path, rows: list[Row], *, raw: bool, sources: list[str] | None = None) -> None:
    columns: dict[str, Any] = dict(zip(("query", "item", "grade"), zip(*rows, strict=True), strict=True))
    write_csv(path, columns | ({} if sources is None else {"source": sources}), raw=raw)


def _parquet(path: str | Path) -> JudgementRows:
    columns, _ = read_arrays(path, ("query", "item", "grade", "answer"))
    _check_no_votes(path, columns)
    columns.pop("answer", None)
    if len(columns) < 3:
        listed = ", ".join(columns) or "none of them"
        raise FileError(f"{path} must have the columns query, item and grade, got {listed}", path=path)
    sides = (text_array(columns[name], f"column {name!r} of {path}").tolist() for name in ("query", "item"))
    for row, (query, item, grade) in enumerate(zip(*sides, columns["grade"].tolist(), strict=True)):
        where = f"{path}, row {row}"
        yield f"row {row}", *_pair(query, item, where), _grade(grade, where)


def _to_parquet(path: str | Path, rows: list[Row], *, sources: list[str] | None = None) -> None:
    queries, items, grades = zip(*rows, strict=True)
    columns = {"query": np.array(queries, str), "item": np.array(items, str), "grade": np.array(grades, np.int64)}
    more = {} if sources is None else {"source": np.array(sources, str)}
    write_arrays(path, columns | more, provenance("judgements"))


def _to_qrels(path: str | Path, rows: list[Row]) -> None:
    try:
        write_qrels(path, rows)
    except ValueError as error:  # an id with a space
        raise InputError(f"{error}: write .json, or {either(TABLES)} by lookalike study export") from error


def _qrels(path: str | Path) -> JudgementRows:
    for number, query, item, grade in rows_of_qrels(path):
        yield f"line {number}", query, item, grade


def _pair(query: str, item: str, where: str) -> tuple[str, str]:
    for name, what in ((query, "query"), (item, "item")):
        if not name.strip():
            raise InputError(f"{where}: the {what} is empty")
    return query, item


def _grade(value: Any, where: str) -> int:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if not number.is_integer() or not 0 <= number <= MAX_GRADE:
        raise InputError(bad_grade(where, value))
    return int(number)


# JSON


def _json(path: str | Path) -> Any:
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return read_json(path.read_bytes(), path)


def _listed(path: str | Path, name: str) -> list[Any]:
    """The one list of a file of the benchmark."""
    content = _json(path)
    if not isinstance(content, dict) or not isinstance(content.get(name), list):
        raise FileError(f'{path} must hold {{"{name}": […]}}, got {_short(content)}', path=path)
    return content[name]


def _write_listed(path: str | Path, name: str, entries: list[Any]) -> None:
    write_text(path, f'{{"{name}": [{_lines(entries)}]}}\n')


def _lines(entries: list[Any]) -> str:
    """Entries as JSON, one a line, so that files can be compared line by line."""
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    return f"\n{lines}\n" if entries else ""


def _text(value: Any, what: str, empty: bool = False) -> str:
    if not isinstance(value, str) or not (value.strip() or empty):
        raise InputError(f"{what} must be text, got {'nothing' if value is None else _short(value)}")
    return value


def _checked_ids(names: list[str], path: str | Path, catalogue: Catalogue | None) -> np.ndarray:
    """Ids of a file without repeats; raises where one is not in the catalogue."""
    ids = text_array(list(dict.fromkeys(names)), f"ids in {path}")
    if catalogue is not None:
        with within(path):
            catalogue.positions(ids, "image")
    return ids


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _as_attribute(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_box(value: Any) -> bool:
    """Whether a box is four numbers, as the benchmark's notes say, or an object like {"x1": …}, as its code reads."""
    return isinstance(value, dict) or (
        isinstance(value, list) and len(value) == 4 and all(isinstance(n, int | float) for n in value)
    )


def _box(text: Any) -> Any:
    try:
        box = read_json(text, "the box") if text else ""
    except (TypeError, AttributeError, ValueError):
        box = None
    if box is None or (box != "" and not _is_box(box)):
        raise InputError(f"the attribute 'bbox' must be JSON, four numbers or an object of them, got {text!r}")
    return box
