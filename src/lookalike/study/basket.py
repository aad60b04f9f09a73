"""What a selection of items becomes: a table, paths, a folder of links."""

import shutil
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lookalike.core.csv_files import csv_text
from lookalike.core.errors import InputError, StudyError
from lookalike.study.tags import read_tags

if TYPE_CHECKING:
    from lookalike.study.study import Study

__all__ = ["LinkFolder", "basket_csv", "basket_paths", "link_folder", "present"]


@dataclass(frozen=True)
class LinkFolder:
    """A folder of links that was made. missing: items whose file is not there, or that have none."""

    path: Path
    links: int
    missing: int


def present(study: "Study", ids: Iterable[str]) -> tuple[np.ndarray, int]:
    """Positions of those ids that the study has, each once and in this order, and how many it has not."""
    catalogue = study.catalogue
    places = {name: place for place, name in enumerate(catalogue.ids.tolist())}
    wanted = list(dict.fromkeys(ids))
    found = [places[name] for name in wanted if name in places]
    return np.array(found, np.int64), len(wanted) - len(found)


def basket_csv(study: "Study", positions: Sequence[int] | np.ndarray) -> str:
    """Items as CSV: id, file, the columns of the catalogue, and `study_tags`, joined by " | "."""
    catalogue = study.catalogue
    by_item = read_tags(study).by_item()
    labels = {"category": catalogue.categories, "identity": catalogue.identities, **catalogue.attributes}
    columns = {name: values for name, values in labels.items() if values is not None}
    has_files = catalogue.paths is not None
    rows: list[list[object]] = [["id", *(["file"] if has_files else []), *columns, "study_tags"]]
    for position in positions:
        name = str(catalogue.ids[position])
        file = [str(_file(study, int(position)))] if has_files else []
        values = [values[position].item() for values in columns.values()]
        rows.append([name, *file, *values, " | ".join(by_item.get(name, []))])
    return csv_text(rows)


def basket_paths(study: "Study", positions: Sequence[int] | np.ndarray) -> str:
    """The paths of items' image files, one on a line."""
    files = [str(_file(study, int(position))) for position in positions]
    broken = [file for file in files if "\n" in file or "\r" in file]
    if broken:
        raise InputError(f"the path {broken[0]!r} has a line break in it: export CSV instead")
    return "".join(f"{file}\n" for file in files)


def link_folder(study: "Study", positions: Sequence[int] | np.ndarray) -> LinkFolder:
    """Make a new folder below `exports` of the study, with a symbolic link to each item's image file.

    A link has the file's name; where that is taken, a number is added. Nothing is overwritten, and the folder has its
    name only when all links are in it.
    """
    files = [_file(study, int(position)) for position in positions]
    there = [file for file in files if file.is_file()]
    if not there:
        raise StudyError("none of these items has an image file that is there: there is nothing to link to")
    with study.changing():
        exports = study.path / "exports"
        exports.mkdir(exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=exports, prefix=".links-"))
        try:
            part.chmod(0o755)
            for file, name in zip(there, _names(there), strict=True):
                (part / name).symlink_to(file)
            made = _free(exports, time.strftime("basket-%Y%m%d-%H%M%S"))
            part.rename(made)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
    return LinkFolder(made, len(there), len(files) - len(there))


def _file(study: "Study", position: int) -> Path:
    path = study.image_path(position)
    if path is None:
        raise StudyError("the items of this study have no image files: export CSV instead")
    return path.parent.resolve() / path.name  # a link stays a link


def _names(files: Sequence[Path]) -> list[str]:
    """The names of files, with numbers where several have the same.

    >>> _names([Path("a/x.png"), Path("b/x.png"), Path("x-2.png")])
    ['x.png', 'x-3.png', 'x-2.png']
    """
    taken: set[str] = {file.name for file in files}
    names: list[str] = []
    used: set[str] = set()
    for file in files:
        name, number = file.name, 2
        while name in used or (name != file.name and name in taken):
            name, number = f"{file.stem}-{number}{file.suffix}", number + 1
        used.add(name)
        names.append(name)
    return names


def _free(folder: Path, name: str) -> Path:
    """A path in the folder that nothing has."""
    path, number = folder / name, 2
    while path.exists() or path.is_symlink():
        path, number = folder / f"{name}-{number}", number + 1
    return path
