"""DeepFashion (Liu et al. 2016): In-shop and Consumer-to-shop, from the official folders, cut to their boxes."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.errors import FileError, InputError, Option
from lookalike.core.files import read_json
from lookalike.datasets.dataset import PHASE, Dataset
from lookalike.datasets.folder import decode_squares

logger = logging.getLogger("lookalike")

__all__ = ["CONSUMER_TO_SHOP", "IN_SHOP", "read_deepfashion"]

IN_SHOP, CONSUMER_TO_SHOP = "deepfashion-inshop", "deepfashion-consumer2shop"
PARTITION = "list_eval_partition.txt"
DESCRIPTIONS = "list_description_inshop.json"
CLOTHES = {"1": "upper-body", "2": "lower-body", "3": "full-body"}
POSES = {"1": "front", "2": "side", "3": "back", "4": "zoom-out", "5": "zoom-in", "6": "stand-alone"}
SOURCES = {"1": "shop", "2": "consumer"}


@dataclass(frozen=True)
class _Photograph:
    """What the lists say of an image: the path that is its name, its item and its phase."""

    name: str
    item: str
    phase: str


def read_deepfashion(name: str, source: str | Path | None, size: int) -> Dataset:
    """Read an official folder with Anno, Eval and the unpacked images: the middle square of each box, size × size.

    Identities are items. In setting 2 of a split, queries, gallery and training images are the official ones.
    Consumer-to-shop searches photographs of consumers of the test part among all shop photographs of the parts test
    and val, and has categories within coarse ones.
    """
    size = whole_number("size", size)
    if source is None:
        raise InputError(
            f"{name} cannot be fetched, since its authors give it to researchers on request: pass the folder that has "
            "Anno, Eval and the unpacked images as ",
            Option("source", "FOLDER"),
        )
    root = Path(source)
    if not root.is_dir():
        raise FileNotFoundError(f"there is no folder {root}")
    photographs = _in_shop(root) if name == IN_SHOP else _pairs(root)
    _check_items(root, name, photographs)
    boxes, columns = _boxes(root, name, photographs)
    if name == IN_SHOP:
        columns |= _descriptions(root, photographs)
    files = _files(root, photographs)
    images, reasons = decode_squares(files, size, boxes)
    readable = np.array([row for row in range(len(files)) if row not in reasons], np.int64)
    if reasons:
        row, reason = next(iter(reasons.items()))
        counts = f"{len(reasons):,} of {len(files):,} images of {root}"
        logger.warning("%s cannot be read and are left out, %s: %s", counts, photographs[row].name, reason)
    kept = [photographs[row] for row in readable]
    phase = np.array([photograph.phase for photograph in kept])
    return Dataset(
        name,
        images,
        **_labels(name, kept),
        test=phase == "query",
        paths=tuple(files[row] for row in readable),
        unreadable=tuple((files[row], reason) for row, reason in reasons.items()),
        ids=np.array([photograph.name for photograph in kept]),
        identities=np.array([photograph.item for photograph in kept]),
        columns={PHASE: phase} | {key: np.array(values)[readable] for key, values in columns.items()},
        boxes=boxes[readable],
    )


# The lists: a line with the number of rows, in most a line with the names of columns, and a row for each image


def _in_shop(root: Path) -> list[_Photograph]:
    path = _list(root, PARTITION)
    photographs: dict[str, _Photograph] = {}
    for line, (name, item, phase) in _table(path, 3):
        if phase not in ("train", "query", "gallery"):
            raise _wrong(path, line, f"the status must be train, query or gallery, got {phase!r}")
        if photographs.setdefault(name, one := _Photograph(name, item, phase)) != one:
            raise _wrong(path, line, f"{name} was listed before with another item or status")
    return [*photographs.values()]


def _pairs(root: Path) -> list[_Photograph]:
    """The images of pairs of a consumer's photograph and a shop's, each image once."""
    path = _list(root, PARTITION)
    phases = {"train": ("train", "train"), "val": ("val", "gallery"), "test": ("query", "gallery")}
    photographs: dict[str, _Photograph] = {}
    for line, (consumer, shop, item, status) in _table(path, 4):
        if status not in phases:
            raise _wrong(path, line, f"the status must be train, val or test, got {status!r}")
        for name, phase in zip((consumer, shop), phases[status], strict=True):
            if photographs.setdefault(name, one := _Photograph(name, item, phase)) != one:
                raise _wrong(path, line, f"{name} was listed before with another item, status or side of the pair")
    return [*photographs.values()]


def _check_items(root: Path, name: str, photographs: list[_Photograph]) -> None:
    """Raise where an image shows an item that the list of items does not have."""
    path = _list(root, f"list_item_{_suffix(name)}.txt")
    items = {fields[0] for _, fields in _table(path, 1, header=False)}
    unknown = next((each for each in photographs if each.item not in items), None)
    if unknown is not None:
        raise FileError(f"{path} does not list {unknown.item}, the item of {unknown.name}", path=path)


def _boxes(root: Path, name: str, photographs: list[_Photograph]) -> tuple[np.ndarray, dict[str, list[str]]]:
    """The box of each image, (n, 4) of int64, and columns: its clothes, and its pose or source."""
    path = _list(root, f"list_bbox_{_suffix(name)}.txt")
    kind, kinds = ("pose", POSES) if name == IN_SHOP else ("source", SOURCES)
    rows: dict[str, tuple[list[int], str, str]] = {}
    for line, (image, clothes, number, *corners) in _table(path, 7):
        if clothes not in CLOTHES or number not in kinds:
            raise _wrong(path, line, f"there is no clothes type {clothes} with the {kind} {number}")
        try:
            rows[image] = [int(corner) for corner in corners], CLOTHES[clothes], kinds[number]
        except ValueError:
            raise _wrong(path, line, f"a box is four whole numbers, got {' '.join(corners)}") from None
    missing = [each.name for each in photographs if each.name not in rows]
    if missing:
        text = f"{path} has no box of {len(missing):,} images of {PARTITION}, the first is {missing[0]}"
        raise FileError(text, path=path)
    chosen = [rows[each.name] for each in photographs]
    boxes = np.array([box for box, _, _ in chosen], np.int64).reshape(-1, 4)
    return boxes, {"clothes": [clothes for _, clothes, _ in chosen], kind: [which for _, _, which in chosen]}


def _descriptions(root: Path, photographs: list[_Photograph]) -> dict[str, list[str]]:
    """The colour and the description of each image's item; nothing if the file is not there, which came later."""
    path = next((path for path in _places(root, DESCRIPTIONS) if path.is_file()), None)
    if path is None:
        return {}
    entries = read_json(path.read_bytes(), path)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) and "item" in entry for entry in entries):
        raise FileError(f"{path} must be a list of items with item, color and description", path=path)
    of_item = {entry["item"]: (_text(entry, "color"), _text(entry, "description")) for entry in entries}
    chosen = [of_item.get(each.item, ("", "")) for each in photographs]
    return {"color": [colour for colour, _ in chosen], "description": [text for _, text in chosen]}


def _text(entry: Mapping[str, Any], key: str) -> str:
    """A text, or lines of text as one; empty where there is none."""
    value = entry.get(key) or ""
    return " ".join(map(str, value)).strip() if isinstance(value, list) else str(value)


def _labels(name: str, photographs: list[_Photograph]) -> dict[str, Any]:
    """Labels by the folders of images: img/WOMEN/Dresses/… and img/DRESSES/Lace_Dress/…"""
    folders = [photograph.name.removeprefix("img/").split("/") for photograph in photographs]
    short = next((each.name for each, parts in zip(photographs, folders, strict=True) if len(parts) < 3), None)
    if short is not None:
        raise FileError(f"expected names of images as img/WOMEN/Dresses/id_00000002/02_1_front.jpg, got {short}")
    names = ["/".join(parts[:2]) for parts in folders]
    classes = sorted(set(names))
    labels: dict[str, Any] = {"labels": _indices(names, classes), "classes": tuple(classes)}
    if name == CONSUMER_TO_SHOP:
        coarse = [parts[0] for parts in folders]
        labels |= {"coarse": _indices(coarse, sorted(set(coarse))), "coarse_classes": tuple(sorted(set(coarse)))}
    return labels


def _indices(names: list[str], classes: list[str]) -> np.ndarray:
    index = {name: number for number, name in enumerate(classes)}
    return np.array([index[name] for name in names], np.int64)


# Files


def _suffix(name: str) -> str:
    return "inshop" if name == IN_SHOP else "consumer2shop"


def _places(root: Path, name: str) -> list[Path]:
    return [root / "Eval" / name, root / "Anno" / name, root / name]


def _list(root: Path, name: str) -> Path:
    path = next((path for path in _places(root, name) if path.is_file()), None)
    if path is None:
        text = f"{root} has no {name}, neither in Eval, Anno nor itself: get it from the authors of DeepFashion"
        raise FileError(text, path=root)
    return path


def _table(path: Path, n_fields: int, *, header: bool = True) -> Iterator[tuple[int, list[str]]]:
    """The rows of a list, each with the number of its line; raises where the list is cut short."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is not a list in UTF-8: {error}", path=path) from error
    start = 2 if header else 1
    rows = [(number, line.split()) for number, line in enumerate(lines[start:], start + 1) if line.strip()]
    number = lines[0].strip() if lines else ""
    if not number.isdecimal():
        raise _wrong(path, 1, f"the first line must say how many rows there are, got {number[:60]!r}")
    if int(number) != len(rows):
        raise FileError(f"{path} says that it has {int(number):,} rows, but has {len(rows):,}", path=path)
    for line, fields in rows:
        if len(fields) != n_fields:
            raise _wrong(path, line, f"expected {n_fields} values, got {len(fields)}")
        yield line, fields


def _wrong(path: Path, line: int, what: str) -> FileError:
    return FileError(f"{path}, line {line}: {what}", path=path, line=line)


def _files(root: Path, photographs: list[_Photograph]) -> list[Path]:
    """The file of each image: below img, as names have it, in the folder itself or in Img."""
    if not photographs:
        raise FileError(f"{root} lists no images", path=root)
    for base, prefix in ((root, ""), (root / "Img", ""), (root / "Img", "img/"), (root / "img", "")):
        files = [base / photograph.name.removeprefix(prefix) for photograph in photographs]
        if any(file.is_file() for file in (files[0], files[-1])):
            return files
    raise FileError(
        f"{root} does not have the images of its lists, such as {photographs[0].name}: unpack img.zip there, or in Img",
        path=root,
    )
