"""Where a data set comes from: the cache, a file of the user, the system's packages, or the net."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lookalike.core.file_errors import FULL
from lookalike.datasets.cache import cache_folder, keep, recall
from lookalike.datasets.dataset import Dataset
from lookalike.datasets.download import Archive, fetch

__all__ = ["Origin", "obtain"]


@dataclass(frozen=True)
class Origin:
    """A data set that is read from an archive, and where the archive may be."""

    name: str
    n_images: int  # of the complete set, the only one that is kept in the cache
    read: Callable[[Path], Dataset]  # from an archive, or a folder with what it holds
    files: tuple[str, ...]  # names of archives or folders that users may have put into the cache
    elsewhere: str  # what to get if nothing can be fetched
    fetched: Archive | None = None
    installed: Path | None = None  # where the system's package manager puts it
    cached: str | None = None  # what the decoded set is called in the cache, if not by its name


def obtain(origin: Origin, source: str | Path | None = None) -> Dataset:
    """Load a data set: from `source` if the user names one, else from the nearest source that has it."""
    folder = cache_folder()
    decoded = folder / f"{origin.cached or origin.name}.npz"
    if source is None:
        kept = recall(decoded)
        if kept is not None:
            return kept
        path = _nearest(origin, folder)
    else:
        names = (*origin.files, origin.fetched.name) if origin.fetched is not None else origin.files
        path = _first_in(Path(source), names) or Path(source)
    dataset = origin.read(path)
    if len(dataset) == origin.n_images:
        keep(dataset, decoded)
    return dataset


def _nearest(origin: Origin, folder: Path) -> Path:
    cached = _first_in(folder, origin.files)
    if cached is not None:
        return cached
    if origin.installed is not None and origin.installed.is_dir():
        return origin.installed
    if origin.fetched is None:
        raise FileNotFoundError(
            f"{origin.name} is not in the cache and cannot be fetched: "
            f"get {origin.elsewhere} and put it into {folder}, or pass it as source= (--source on the command line)"
        )
    try:
        return fetch(origin.fetched, folder)
    except OSError as error:
        if error.errno in FULL:  # then another source is no help
            raise
        raise OSError(
            f"{origin.name} is not in the cache {folder} and cannot be fetched: {error}; "
            f"get {origin.elsewhere} elsewhere and pass it as source= (--source on the command line)"
        ) from error


def _first_in(folder: Path, names: tuple[str, ...]) -> Path | None:
    return next((folder / name for name in names if (folder / name).exists()), None)
