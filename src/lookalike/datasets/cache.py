"""The cache: a folder with fetched archives, and with decoded data sets, which load in an instant."""

import logging
import os
from pathlib import Path

import numpy as np

from lookalike.core.files import digest, provenance, read_arrays, write_arrays
from lookalike.datasets.dataset import Dataset

logger = logging.getLogger("lookalike")

COLUMN = "column "  # what the name of a column of facts begins with in a file

__all__ = ["cache_folder", "keep", "recall"]


def cache_folder() -> Path:
    """Where fetched and decoded data sets are: $LOOKALIKE_CACHE, else lookalike in $XDG_CACHE_HOME or ~/.cache."""
    if own := os.environ.get("LOOKALIKE_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "lookalike"


def keep(dataset: Dataset, path: Path) -> None:
    """Write a decoded data set; a failure is only a warning, since everything works without."""
    names = ("images", "labels", "test", "coarse", "ids", "identities")
    arrays = {name: getattr(dataset, name) for name in names}
    arrays |= {COLUMN + name: values for name, values in dataset.columns.items()}
    present = {name: array for name, array in arrays.items() if array is not None}
    about = provenance(
        "dataset",
        name=dataset.name,
        classes=dataset.classes,
        coarse_classes=dataset.coarse_classes,
        digest=_fingerprint(present),
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(path, present, about)
    except (OSError, ValueError) as error:
        logger.warning("%s is decoded anew each time: %s", dataset.name, error)


def recall(path: Path) -> Dataset | None:
    """The data set that was kept there; a file that was altered is removed."""
    if not path.is_file():
        return None
    try:
        arrays, about = read_arrays(path)
        if about.get("digest") == _fingerprint(arrays):
            return Dataset(
                name=about["name"],
                classes=tuple(about["classes"]),
                coarse_classes=tuple(about["coarse_classes"]),
                images=arrays["images"],
                labels=arrays["labels"],
                test=arrays.get("test"),
                coarse=arrays.get("coarse"),
                ids=arrays.get("ids"),
                identities=arrays.get("identities"),
                columns={
                    name.removeprefix(COLUMN): values for name, values in arrays.items() if name.startswith(COLUMN)
                },
            )
        problem = f"{path} was altered"
    except (ValueError, KeyError, TypeError) as error:
        problem = str(error)
    logger.warning("removed %s, which is decoded anew: %s", path, problem)
    path.unlink(missing_ok=True)
    return None


def _fingerprint(arrays: dict[str, np.ndarray]) -> str:
    return digest(*(arrays[name] for name in sorted(arrays)))
