"""Items as files hold them: codes or embeddings, with labels, tags, attributes and ids."""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.endings import ITEMS, either
from lookalike.core.errors import FileError, InputError, Option
from lookalike.core.file_errors import within
from lookalike.core.files import read_arrays, write_arrays
from lookalike.core.npy import read_npy
from lookalike.core.tags import tags_or_labels
from lookalike.evaluation.label_files import read_labels
from lookalike.evaluation.relevance import Relevance, matching_attributes, same_label, shared_tags
from lookalike.shards.gallery import Shards

ABOUT = ("labels", "attributes", "ids", "coarse_labels")  # what a file may say of each item

logger = logging.getLogger("lookalike")

__all__ = ["Items", "read_items", "relevance_between", "relevance_to_shards", "write_codes"]


@dataclass(frozen=True)
class Items:
    """What one file says of its items."""

    path: Path
    vectors: Codes | np.ndarray
    labels: np.ndarray | None = None  # (n,), or a 0/1 matrix of tags
    attributes: np.ndarray | None = None
    ids: np.ndarray | None = None
    coarse_labels: np.ndarray | None = None  # (n,), the superclass of each item's label
    notes: tuple[str, ...] = ()  # what was assumed, in sentences

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


def read_items(path: str | Path, labels: str | Path | None = None, *, zero: str | None = None) -> Items:
    """Read items from a .npz, .parquet or .npy file. What had to be assumed is logged, and is in their `notes`.

    labels: a file of its own, as `label_files` has it. zero: what a 0 among bits of -1 and +1 counts, "one" or "minus".
    """
    path = Path(path)
    if path.suffix == ".npy":
        vectors: Codes | np.ndarray = _codes_or_embeddings(read_npy(path), path, zero)
        arrays: dict[str, np.ndarray] = {}
    else:
        if path.is_file() and path.suffix not in ITEMS:
            raise FileError(f"cannot read {path}: the name must end in {either(ITEMS)}", path=path)
        arrays, about = read_arrays(path, ("codes", "packed", "n_bits", "embeddings", *ABOUT))
        if "embeddings" in arrays and not {"codes", "packed"} & set(arrays):
            vectors = arrays["embeddings"]
            if vectors.ndim != 2 or vectors.dtype.kind not in "biuf":
                raise FileError(
                    f"{path}: embeddings must be a matrix of numbers (n, dim), got {vectors.shape} of {vectors.dtype}",
                    path=path,
                )
        else:
            with within(path):
                vectors = Codes.from_arrays(arrays, about, path, zero=zero)
    notes: list[str] = []
    if labels is not None:
        own = arrays.get("labels")
        arrays["labels"], notes = read_labels(labels, len(vectors), _ids_of(arrays, vectors))
        if own is not None:
            notes.append(f"labels are those of {labels}, not those that {path} has")
    elif "labels" in arrays:
        with within(path):
            arrays["labels"] = tags_or_labels(arrays["labels"])
    for name in ABOUT:
        if name in arrays and arrays[name].dtype.kind in "SM":  # bytes and dates, as other files and JSON have them
            arrays[name] = (
                np.char.decode(arrays[name], "utf-8", "replace")
                if arrays[name].dtype.kind == "S"
                else arrays[name].astype(str)
            )
        if name in arrays and arrays[name].shape[:1] != (len(vectors),):
            count = len(arrays[name]) if arrays[name].ndim else "single"
            hint = ": are its rows and columns exchanged?" if vectors.shape[1] == count else ""
            source = f" in {labels}" if name == "labels" and labels is not None else ""
            raise FileError(f"{path} has {len(vectors)} items, but {count} {name}{source}{hint}", path=path)
    if "coarse_labels" in arrays and arrays["coarse_labels"].ndim != 1:
        shape = arrays["coarse_labels"].shape
        raise FileError(f"{path}: coarse_labels must be one for each item, got {shape}", path=path)
    for note in notes:
        logger.warning("%s", note)
    return Items(path, vectors, notes=tuple(notes), **{name: arrays[name] for name in ABOUT if name in arrays})


def write_codes(path: str | Path, codes: Codes, items: Items) -> None:
    """Write codes with what the file says of the items that they are of, to .npz or .parquet."""
    named = "codes" if Path(path).suffix == ".parquet" else "packed"
    arrays = {named: codes.to_bytes()}
    if named == "packed":
        arrays["n_bits"] = np.array(codes.n_bits)
    for name in ABOUT:
        if (values := getattr(items, name)) is not None:
            arrays[name] = values
    write_arrays(path, arrays, codes.about())


def relevance_between(queries: Items, gallery: Items, kind: str | None = None, advice: str = "") -> Relevance:
    """Relevance by what both files have: "labels" (one an item), "tags" (a 0/1 matrix), or "attributes"."""
    make, name = _made_of(queries, kind, advice)
    values = getattr(gallery, name)
    if values is None:
        raise _without(gallery.path, name, advice)
    return make(*_alike(getattr(queries, name), values))


def relevance_to_shards(
    queries: Items, gallery: Shards, kind: str | None = None, level: str | None = None
) -> Relevance:
    """The same for a gallery in shards; of the level "coarse", its column coarse_labels is what `labels` are."""
    make, name = _made_of(queries, kind, "")
    column = "coarse_labels" if level == "coarse" and name == "labels" else name
    if column not in gallery.columns:
        raise _without(gallery.location, column, ": lookalike shard takes them from the file, or from a --table")
    of_queries = getattr(queries, name)
    if name == "labels" and gallery.columns[column].startswith(("int", "uint")):  # numbers of text are numbers, too
        of_queries, _ = _alike(of_queries, np.zeros(1, np.int64))
    return make(of_queries, gallery[column])


def _made_of(queries: Items, kind: str | None, advice: str) -> tuple[Callable[[Any, Any], Relevance], str]:
    """What makes relevance, and of which values."""
    if kind is None:
        kind = "attributes" if queries.labels is None and queries.attributes is not None else "labels"
        if queries.labels is not None and queries.labels.ndim == 2:
            kind = "tags"
    name = "attributes" if kind == "attributes" else "labels"
    if getattr(queries, name) is None:
        raise _without(queries.path, name, advice)
    if kind == "labels" and queries.labels is not None and queries.labels.ndim == 2:
        tags = f"the labels of {queries.path} are tags, {queries.labels.shape[1]} an item: use "
        raise InputError(tags, Option("relevance", "tags"), ", or give one label an item")
    return {"labels": same_label, "tags": shared_tags, "attributes": matching_attributes}[kind], name


def _alike(queries: np.ndarray, gallery: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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


def _without(path: object, name: str, advice: str) -> FileError:
    text = f"{path} has no {name}: add an array {name!r}" + (advice if name == "labels" else "")
    return FileError(text, path=path)


def _ids_of(arrays: dict[str, np.ndarray], vectors: Codes | np.ndarray) -> np.ndarray | None:
    """The ids of items, to find their labels by; None where they have none, or none that can be right."""
    ids = arrays.get("ids")
    if ids is None or ids.shape != (len(vectors),):
        return None
    return np.char.decode(ids, "utf-8", "replace") if ids.dtype.kind == "S" else ids


def _codes_or_embeddings(array: np.ndarray, path: Path, zero: str | None) -> Codes | np.ndarray:
    if array.ndim != 2:
        raise FileError(
            f"{path} must hold a matrix, bits (n, n_bits) or embeddings (n, dim), got shape {array.shape}", path=path
        )
    low, high = (array.min(initial=0), array.max(initial=0)) if array.dtype.kind in "iuf" else (0, 1)
    if array.dtype.kind != "f" or (low >= -1 and high <= 1 and np.isin(array, (-1, 0, 1)).all()):
        with within(path):
            return Codes.pack(array, zero=zero)
    return array
