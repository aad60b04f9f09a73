"""Items as files hold them: codes or embeddings, with labels, tags, attributes and ids."""

import logging
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.errors import FileError, InputError, Option
from lookalike.core.file_errors import within
from lookalike.core.files import write_arrays
from lookalike.core.readers.choosing import ROLES
from lookalike.core.readers.opening import open_source
from lookalike.core.readers.source import Columns, ItemSource
from lookalike.core.readers.table_source import TableSource
from lookalike.core.tags import tags_or_labels
from lookalike.evaluation.label_files import read_labels
from lookalike.evaluation.relevance import Relevance, matching_attributes, same_label, shared_tags
from lookalike.shards.gallery import Shards

EACH = ("labels", "attributes", "ids", "coarse_labels", "groups", "by")  # what a file may say of each item

logger = logging.getLogger("lookalike")

__all__ = [
    "Items",
    "check_own_ids",
    "items_of",
    "read_items",
    "relevance_between",
    "relevance_to_shards",
    "write_codes",
]


@dataclass(frozen=True)
class Items:
    """What one file says of its items."""

    path: Path | str  # of a database, its address
    vectors: Codes | np.ndarray
    labels: np.ndarray | None = None  # (n,), or a 0/1 matrix of tags
    attributes: np.ndarray | None = None
    ids: np.ndarray | None = None
    coarse_labels: np.ndarray | None = None  # (n,), the superclass of each item's label
    groups: np.ndarray | None = None  # (n,), such as the product of each item
    by: np.ndarray | None = None  # (n,), what results are split by
    notes: tuple[str, ...] = ()  # what was assumed, in sentences
    undecided: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # columns that could all be meant, by name
    tag_words: tuple[str, ...] | None = None  # what the columns of tags mean, where the source says it

    def at_level(self, level: str | None) -> "Items":
        """The items with their coarse labels for labels, where `level` is "coarse"; else as they are."""
        if level != "coarse":
            return self
        if self.coarse_labels is None:
            raise FileError(f"{self.path} has no coarse labels: add an array 'coarse_labels'", path=self.path)
        return replace(self, labels=self.coarse_labels, coarse_labels=None)

    @property
    def levels(self) -> np.ndarray | None:
        """Class and superclass of each item, (n, 2) of numbers, as hierarchy losses take them; None without both."""
        if self.labels is None or self.labels.ndim != 1 or self.coarse_labels is None:
            return None
        both = (self.labels, self.coarse_labels)
        return np.stack([np.unique(values, return_inverse=True)[1] for values in both], axis=1)


def read_items(
    source: Any,
    labels: str | Path | None = None,
    *,
    vector: str | None = None,
    id: str | None = None,  # noqa: A002  # what users call it
    label: str | None = None,
    tags: str | None = None,
    group: str | None = None,
    by: str | None = None,
    zero: str | None = None,
) -> Items:
    """Read items from a file of any kind (docs/reference/files.md), or from a table of pandas, polars or pyarrow.

    vector, id, label, tags, group, by: which column is what, where the names are not ours. labels: a file of labels of
    its own, whose columns label, tags and id then name. zero: what a 0 among bits of -1 and +1 counts, "one" or
    "minus". What had to be assumed is logged, and is in the `notes` of what is returned: its `vectors` (Codes, or a
    matrix of embeddings), `labels`, `ids`, `groups`, `by`, `attributes` and `coarse_labels`.

    >>> import pyarrow as pa
    >>> table = pa.table({"emb": [[0.5, 2.0], [1.5, 0.0]], "class": ["cat", "dog"]})
    >>> items = read_items(table, vector="emb", label="class")
    >>> items.vectors.shape, items.labels.tolist()
    ((2, 2), ['cat', 'dog'])
    """
    columns = Columns(vector, id, label, tags, group, by)
    if not hasattr(source, "pages"):
        source = open_source(source, columns, labelled_elsewhere=labels is not None)
    return items_of(source, columns, labels, zero=zero)


def items_of(source: ItemSource, columns: Columns, labels: str | Path | None, *, zero: str | None = None) -> Items:
    """The items of a source, with labels of their own or of a file; arguments as for `read_items`."""
    arrays = _joined(source)
    path, vectors = source.name, _vectors_in(arrays, source, zero)
    _drop_guessed_ids(source, arrays)
    notes = list(source.notes)
    if labels is not None:
        _add_labels(source, arrays, columns, labels, len(vectors), notes)
    elif "labels" in arrays:
        with within(path):
            arrays["labels"] = tags_or_labels(arrays["labels"])
    for name in EACH:
        if name in arrays and arrays[name].dtype.kind in "SM":  # bytes and dates, as other files and JSON have them
            arrays[name] = (
                np.char.decode(arrays[name], "utf-8", "replace")
                if arrays[name].dtype.kind == "S"
                else arrays[name].astype(str)
            )
        if name in arrays and name in ("ids", "groups", "by") and arrays[name].ndim == 2 and arrays[name].shape[1] == 1:
            arrays[name] = arrays[name][:, 0]
        if name in arrays and arrays[name].shape[:1] != (len(vectors),):
            count = len(arrays[name]) if arrays[name].ndim else "single"
            hint = ": are its rows and columns exchanged?" if vectors.shape[1] == count else ""
            other = f" in {labels}" if name == "labels" and labels is not None else ""
            raise FileError(f"{path} has {len(vectors)} items, but {count} {name}{other}{hint}", path=path)
    if "coarse_labels" in arrays and arrays["coarse_labels"].ndim != 1:
        shape = arrays["coarse_labels"].shape
        raise FileError(f"{path}: coarse_labels must be one for each item, got {shape}", path=path)
    for note in notes:
        logger.warning("%s", note)
    undecided = source.chosen.undecided if isinstance(source, TableSource) else {}
    values = {name: arrays[name] for name in EACH if name in arrays}
    words = source.about.get("tags") if labels is None else None
    named = path if "://" in path else Path(path)  # as a path, an address would lose a slash
    return Items(named, vectors, notes=tuple(notes), undecided=undecided, tag_words=words, **values)


def _joined(source: ItemSource) -> dict[str, np.ndarray]:
    """Everything that a source holds, as one page."""
    pages = list(source.pages(sys.maxsize))
    if not pages:
        raise FileError(f"{source.name} holds no items", path=source.name)
    if len(pages) == 1:
        return dict(pages[0])
    for page in pages:
        for name, values in page.items():
            kinds = {values.dtype.kind, pages[0][name].dtype.kind}
            if "U" in kinds and len(kinds) > 1:
                raise FileError(f"{source.name}: {name} are text in some parts and numbers in others", path=source.name)
    return {name: np.concatenate([page[name] for page in pages]) for name in pages[0]}


def _vectors_in(arrays: dict[str, np.ndarray], source: ItemSource, zero: str | None) -> Codes | np.ndarray:
    """The codes or embeddings among the arrays of a source."""
    if "embeddings" not in arrays or {"codes", "packed"} & set(arrays):
        with within(source.name):
            return Codes.from_arrays(arrays, source.about, source.name, zero=zero)
    vectors = arrays["embeddings"]
    if vectors.ndim != 2 or vectors.dtype.kind not in "biuf":
        shape = f"{vectors.shape} of {vectors.dtype}"
        message = f"{source.name}: embeddings must be a matrix of numbers (n, dim), got {shape}"
        raise FileError(message, path=source.name)
    return vectors


def _drop_guessed_ids(source: ItemSource, arrays: dict[str, np.ndarray]) -> None:
    """Leave out ids that nobody named, if they do not tell items apart."""
    if not isinstance(source, TableSource) or "ids" not in source.chosen.guessed:
        return
    if len(np.unique(arrays["ids"])) < len(arrays["ids"]):
        del arrays["ids"]
        source.without_ids()


def _add_labels(
    source: ItemSource,
    arrays: dict[str, np.ndarray],
    columns: Columns,
    labels: str | Path,
    n_items: int,
    notes: list[str],
) -> None:
    """Put the labels of a file in place of those that a source has, and the columns that it lacks beside them."""
    ids, own = _ids_of(arrays, n_items), arrays.get("labels")
    missing = source.chosen.missing if isinstance(source, TableSource) and source.chosen.vector.title else ()
    if columns.id is not None and ids is None and "id" in missing:
        message = f"{source.name} has no column {columns.id!r} to find labels in {labels} by"
        raise FileError(message, path=source.name)
    wanted = {role: name for role, name in columns.named.items() if role not in ("vector", "group", "by")}
    wanted |= {
        role: name for role, name in columns.named.items() if role in ("group", "by") and ROLES[role] not in arrays
    }
    found, said = read_labels(labels, n_items, ids, wanted)
    arrays.update(found)
    notes.extend(said)
    if own is not None:
        notes.append(f"labels are those of {labels}, not those that {source.name} has")


def write_codes(path: str | Path, codes: Codes, items: Items) -> None:
    """Write codes with what the file says of the items that they are of, to .npz or .parquet."""
    named = "codes" if Path(path).suffix == ".parquet" else "packed"
    arrays = {named: codes.to_bytes()}
    if named == "packed":
        arrays["n_bits"] = np.array(codes.n_bits)
    for name in EACH:
        if (values := getattr(items, name)) is not None:
            arrays[name] = values
    write_arrays(path, arrays, codes.about())


def check_own_ids(queries: Items, gallery: Items | Shards) -> None:
    """Raise where a query's own item is to be known by its id, and only the queries or only the gallery have ids."""
    of_gallery = "ids" in gallery.columns if isinstance(gallery, Shards) else gallery.ids is not None
    if (queries.ids is not None) == of_gallery:
        return
    lacking = queries.path if of_gallery else gallery.location if isinstance(gallery, Shards) else gallery.path
    raise FileError(
        f"{lacking} has no ids, by which a query's own item is known: add an array 'ids', or name a column with ",
        Option("id"),
        path=lacking,
    )


def relevance_between(queries: Items, gallery: Items, kind: str | None = None, advice: str = "") -> Relevance:
    """Relevance by what both files have: "labels" (one an item), "tags" (a 0/1 matrix), or "attributes"."""
    make, name = _made_of(queries, kind, advice)
    if getattr(gallery, name) is None:
        raise _without(gallery, name, advice)
    if name == "labels":
        queries, gallery = share_words(queries, gallery)
    return make(*alike(getattr(queries, name), getattr(gallery, name)))


def share_words(queries: Items, gallery: Items) -> tuple[Items, Items]:
    """Queries and gallery with the same tag in the same column, where tags are words; else as they are."""
    if queries.tag_words is None and gallery.tag_words is None:
        return queries, gallery
    for items, other in ((queries, gallery), (gallery, queries)):
        if items.tag_words is None:
            raise InputError(
                f"the tags of {other.path} are words, and {items.path} has labels or a 0/1 matrix: give both as "
                "words, or both as 0/1 in the same order"
            )
    every = tuple(sorted({*(queries.tag_words or ()), *(gallery.tag_words or ())}))
    return _with_words(queries, every), _with_words(gallery, every)


def _with_words(items: Items, every: tuple[str, ...]) -> Items:
    """Items whose tags have a column for each of `every` word."""
    assert items.labels is not None
    spread = np.zeros((len(items.labels), len(every)), np.uint8)
    place = {word: column for column, word in enumerate(every)}
    spread[:, [place[word] for word in items.tag_words or ()]] = items.labels
    return replace(items, labels=spread, tag_words=every)


def relevance_to_shards(
    queries: Items, gallery: Shards, kind: str | None = None, level: str | None = None
) -> Relevance:
    """The same for a gallery in shards; of the level "coarse", its column coarse_labels is what `labels` are."""
    make, name = _made_of(queries, kind, "")
    if queries.tag_words is not None and name == "labels":
        raise InputError(
            f"the tags of {queries.path} are words, and shards do not say which column of theirs is which word: give "
            "tags as a 0/1 matrix, in the same order as in the shards"
        )
    column = "coarse_labels" if level == "coarse" and name == "labels" else name
    if column not in gallery.columns:
        advice = ": lookalike shard takes them from the file, or from a --table"
        raise FileError(f"{gallery.location} has no {column}: add an array {column!r}{advice}", path=gallery.location)
    of_queries = getattr(queries, name)
    if name == "labels" and gallery.columns[column].startswith(("int", "uint")):  # numbers of text are numbers, too
        of_queries, _ = alike(of_queries, np.zeros(1, np.int64))
    return make(of_queries, gallery[column])


def _made_of(queries: Items, kind: str | None, advice: str) -> tuple[Callable[[Any, Any], Relevance], str]:
    """What makes relevance, and of which values."""
    if kind is None:
        kind = "attributes" if queries.labels is None and queries.attributes is not None else "labels"
        if queries.labels is not None and queries.labels.ndim == 2:
            kind = "tags"
    name = "attributes" if kind == "attributes" else "labels"
    if getattr(queries, name) is None:
        raise _without(queries, name, advice)
    if kind == "labels" and queries.labels is not None and queries.labels.ndim == 2:
        tags = f"the labels of {queries.path} are tags, {queries.labels.shape[1]} an item: use "
        raise InputError(tags, Option("relevance", "tags"), ", or give one label an item")
    return {"labels": same_label, "tags": shared_tags, "attributes": matching_attributes}[kind], name


def alike(queries: np.ndarray, gallery: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels that can be equal: whole numbers that one file has as text, or as 3.0, are numbers as in the other."""
    sides = queries, gallery
    if not all(side.ndim == 1 and len(side) and side.dtype.kind in "iuU" for side in sides):
        return sides
    texts = [side for side in sides if side.dtype.kind == "U"]
    if len(texts) == 1 or any(re.search(r"\.0+$", str(text[0])) for text in texts):
        numbers = [_whole_numbers(side) for side in sides]
        if all(side is not None for side in numbers):
            return numbers[0], numbers[1]  # type: ignore[return-value]
    return sides


def _whole_numbers(labels: np.ndarray) -> np.ndarray | None:
    """Labels as whole numbers, where all are: 3, "3" or "3.0"."""
    if labels.dtype.kind in "iu":
        return labels
    matches = [re.fullmatch(r"(-?\d{1,18})(\.0+)?", text.strip()) for text in labels.tolist()]
    return np.array([int(match[1]) for match in matches if match], np.int64) if all(matches) else None


def _without(items: Items, name: str, advice: str) -> FileError:
    """The error that items lack what makes them relevant."""
    if possible := items.undecided.get(name):
        listed = ", ".join(map(repr, possible))
        several = f"{items.path} has several columns that could be {name}, {listed}: say which with "
        return FileError(several, Option("label", possible[0]), path=items.path)
    text = f"{items.path} has no {name}: add an array {name!r}" + (advice if name == "labels" else "")
    return FileError(text, path=items.path)


def _ids_of(arrays: dict[str, np.ndarray], n_items: int) -> np.ndarray | None:
    """The ids of items, to find their labels by; None where they have none, or none that can be right."""
    ids = arrays.get("ids")
    if ids is None or ids.shape not in ((n_items,), (n_items, 1)):
        return None
    return np.char.decode(ids.ravel(), "utf-8", "replace") if ids.dtype.kind == "S" else ids.ravel()
