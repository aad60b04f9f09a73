"""The images of a study as arrays with their identities and categories, to fine-tune an encoder on."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lookalike.core.decode import default_limit, square
from lookalike.core.errors import StudyError
from lookalike.core.progress import track
from lookalike.study.study import Study

__all__ = ["StudyImages", "study_images"]


@dataclass(frozen=True, eq=False)
class StudyImages:
    """Middle squares of all images that can be read. skipped: the other files, each with the reason."""

    images: np.ndarray  # (n, size, size, 3) of uint8
    identities: np.ndarray | None  # (n,) of text
    categories: np.ndarray | None  # (n,) of text, "" where there is none
    skipped: tuple[tuple[Path, str], ...]


def study_images(study: Study, size: int) -> StudyImages:
    """Read the image of every item of the catalogue, made size × size."""
    items = study.catalogue
    if items.paths is None:
        raise StudyError(
            f"the study {study.name!r} has no images to learn from: its catalogue needs a column path, or make the "
            "study by lookalike encode FOLDER"
        )
    paths = [study.path / path for path in items.paths.tolist()]
    with default_limit(), ThreadPoolExecutor(os.cpu_count()) as pool:
        read = [*track(pool.map(lambda path: _square_or_reason(path, size), paths), len(paths), "reading images")]
    usable = np.array([not isinstance(result, str) for result in read], bool)
    skipped = tuple((path, result) for path, result in zip(paths, read, strict=True) if isinstance(result, str))
    if not usable.any():
        raise StudyError(f"no image of the study {study.name!r} can be read: {skipped[0][0]}: {skipped[0][1]}")
    images = np.stack([result for result in read if not isinstance(result, str)])
    identities, categories = (
        None if column is None else column[usable] for column in (items.identities, items.categories)
    )
    return StudyImages(images, identities, categories, skipped)


def _square_or_reason(path: Path, size: int) -> np.ndarray | str:
    try:
        return square(path, size)
    except FileNotFoundError:
        return "the file is gone"
    except MemoryError:
        return "it takes more memory than there is"
    except Exception as error:  # readers of images raise whatever a broken file provokes
        return "not an image" if type(error).__name__ == "UnidentifiedImageError" else str(error).partition("\n")[0]
