"""Items as files hold them: codes or embeddings, with labels, tags, attributes and ids."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.endings import ITEMS, either
from lookalike.core.errors import FileError
from lookalike.core.file_errors import fitting, within
from lookalike.core.files import provenance, read_arrays, write_arrays
from lookalike.core.npy import read_npy
from lookalike.evaluation.relevance import Relevance, matching_attributes, same_label, shared_tags
from lookalike.shards.gallery import Shards

__all__ = ["Items", "read_items", "relevance_between", "relevance_to_shards", "write_codes"]


@dataclass(frozen=True)
class Items:
    """What one file says of its items."""

    path: Path
    vectors: Codes | np.ndarray
    labels: np.ndarray | None = None  # (n,), or a 0/1 matrix of tags
    attributes: np.ndarray | None = None
    ids: np.ndarray | None = None


def read_items(path: str | Path, labels: str | Path | None = None) -> Items:
    """Read items from a .npz, .parquet or .npy file; labels may stand in a file of their own, .npy or a line each."""
    path = Path(path)
    if path.suffix == ".npy":
        vectors: Codes | np.ndarray = _codes_or_embeddings(read_npy(path), path)
        arrays: dict[str, np.ndarray] = {}
    else:
        if path.is_file() and path.suffix not in ITEMS:
            raise FileError(f"cannot read {path}: the name must end in {either(ITEMS)}", path=path)
        arrays, about = read_arrays(path, ("codes", "packed", "n_bits", "embeddings", "labels", "attributes", "ids"))
        if "embeddings" in arrays and not {"codes", "packed"} & set(arrays):
            vectors = arrays["embeddings"]
            if vectors.ndim != 2 or vectors.dtype.kind not in "biuf":
                raise FileError(
                    f"{path}: embeddings must be a matrix of numbers (n, dim), got {vectors.shape} of {vectors.dtype}",
                    path=path,
                )
        else:
            with within(path):
                vectors = Codes.from_arrays(arrays, about, path)
    if labels is not None:
        arrays["labels"] = _read_labels(Path(labels))
    for name in ("labels", "attributes", "ids"):
        if name in arrays and arrays[name].dtype.kind in "SM":  # bytes and dates, as other files and JSON have them
            arrays[name] = (
                np.char.decode(arrays[name], "utf-8", "replace")
                if arrays[name].dtype.kind == "S"
                else arrays[name].astype(str)
            )
        if name in arrays and arrays[name].shape[:1] != (len(vectors),):
            count = len(arrays[name]) if arrays[name].ndim else "single"
            raise FileError(f"{path} has {len(vectors)} items, but {count} {name}", path=path)
    return Items(path, vectors, arrays.get("labels"), arrays.get("attributes"), arrays.get("ids"))


def write_codes(path: str | Path, codes: Codes, items: Items) -> None:
    """Write codes with the labels, attributes and ids of the items that they are of, to .npz or .parquet."""
    named = "codes" if Path(path).suffix == ".parquet" else "packed"
    arrays = {named: codes.to_bytes()}
    if named == "packed":
        arrays["n_bits"] = np.array(codes.n_bits)
    for name in ("labels", "attributes", "ids"):
        if (values := getattr(items, name)) is not None:
            arrays[name] = values
    write_arrays(path, arrays, provenance("codes", n_bits=codes.n_bits, digest=codes.digest))


def relevance_between(queries: Items, gallery: Items, kind: str | None = None, advice: str = "") -> Relevance:
    """Relevance by what both files have: "labels" (one an item), "tags" (a 0/1 matrix), or "attributes"."""
    make, name = _made_of(queries, kind, advice)
    values = getattr(gallery, name)
    if values is None:
        raise _without(gallery.path, name, advice)
    return make(getattr(queries, name), values)


def relevance_to_shards(queries: Items, gallery: Shards, kind: str | None = None) -> Relevance:
    """The same for a gallery in shards."""
    make, name = _made_of(queries, kind, "")
    if name not in gallery.columns:
        raise _without(gallery.location, name, ": lookalike shard takes them from the file, or from a --table")
    return make(getattr(queries, name), gallery[name])


def _made_of(queries: Items, kind: str | None, advice: str) -> tuple[Callable[[Any, Any], Relevance], str]:
    """What makes relevance, and of which values."""
    if kind is None:
        kind = "attributes" if queries.labels is None and queries.attributes is not None else "labels"
        if queries.labels is not None and queries.labels.ndim == 2:
            kind = "tags"
    name = "attributes" if kind == "attributes" else "labels"
    if getattr(queries, name) is None:
        raise _without(queries.path, name, advice)
    return {"labels": same_label, "tags": shared_tags, "attributes": matching_attributes}[kind], name


def _without(path: object, name: str, advice: str) -> FileError:
    text = f"{path} has no {name}: add an array {name!r}" + (advice if name == "labels" else "")
    return FileError(text, path=path)


def _read_labels(path: Path) -> np.ndarray:
    if path.suffix == ".npy":
        return read_npy(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with fitting(path):
            return np.array(path.read_text(encoding="utf-8-sig").splitlines())
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is not a text file with a label on each line", path=path) from error


def _codes_or_embeddings(array: np.ndarray, path: Path) -> Codes | np.ndarray:
    if array.ndim != 2:
        raise FileError(
            f"{path} must hold a matrix, bits (n, n_bits) or embeddings (n, dim), got shape {array.shape}", path=path
        )
    low, high = (array.min(initial=0), array.max(initial=0)) if array.dtype.kind in "iuf" else (0, 1)
    if array.dtype.kind != "f" or (low >= -1 and high <= 1 and np.isin(array, (-1, 0, 1)).all()):
        with within(path):
            return Codes.pack(array)
    return array
