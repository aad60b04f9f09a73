"""Where the images of a catalogue are: paths as one folder sees them, and which images are missing."""

import functools
import posixpath
from dataclasses import replace
from pathlib import Path, PurePath

import numpy as np

from lookalike.core.errors import FileError, Option
from lookalike.discovery.catalogue import Catalogue

SHOWN = 3  # missing images that a sentence names

__all__ = ["check_images", "moved_paths", "relative_path"]


def relative_path(path: Path, start: Path) -> str:
    """A path as seen from a folder, with as many .. as it takes.

    >>> relative_path(Path("/data/photos"), Path("/data/studies/shop"))
    '../../photos'
    """
    n_common = next((n for n, (a, b) in enumerate(zip(path.parts, start.parts, strict=False)) if a != b), None)
    if n_common is None:
        n_common = min(len(path.parts), len(start.parts))
    return "/".join([*[".."] * (len(start.parts) - n_common), *path.parts[n_common:]]) or "."


def moved_paths(catalogue: Catalogue, root: str | Path, folder: str | Path) -> Catalogue:
    """The catalogue with image paths as seen from `folder`, where they were as seen from `root`.

    Absolute paths stay. A study holds paths as seen from its own folder, so that it can move together with its images.

    >>> shop = Catalogue(["a", "b"], paths=["img/a.jpg", "/data/b.jpg"])
    >>> moved_paths(shop, "/home/ann", "/home/ann/studies/shop").paths.tolist()
    ['../../img/a.jpg', '/data/b.jpg']
    """
    if catalogue.paths is None:
        return catalogue
    base, start = Path(root).resolve().as_posix(), Path(folder).resolve()

    @functools.cache  # many images are in one folder
    def seen(above: str) -> str:
        return relative_path(Path(above), start)

    def moved(path: str) -> str:
        above, name = posixpath.split(posixpath.normpath(f"{base}/{path}"))
        return posixpath.normpath(f"{seen(above)}/{name}")

    paths = [path if PurePath(path).is_absolute() else moved(path) for path in catalogue.paths.tolist()]
    return replace(catalogue, paths=np.array(paths, str))


def check_images(catalogue: Catalogue, root: Path, file: Path, *, needed: bool = True) -> str | None:
    """A sentence that lists the images that are missing; None if all are there, or the catalogue names none.

    root: where relative paths begin. file: what the catalogue was read from. If no image is there at all, this raises,
    unless images are not `needed`.
    """
    if catalogue.paths is None or not len(catalogue):
        return None
    missing = [path for path in catalogue.paths.tolist() if not (root / path).is_file()]
    if not missing:
        return None
    listed = ", ".join(missing[:SHOWN]) + (", …" if len(missing) > SHOWN else "")
    if len(missing) < len(catalogue):
        return f"{len(missing):,} of {len(catalogue):,} images of {file} are missing in {root}: {listed}"
    sentence = f"none of the {len(catalogue):,} images of {file} is in {root}, such as {missing[0]}"
    if needed:
        raise FileError(
            f"{sentence}: name their folder with ",
            Option("images", "FOLDER"),
            ", or leave the column path out of a catalogue without images",
            path=file,
        )
    return f"{sentence}: there is nothing to show, but models that have embeddings can be compared"
