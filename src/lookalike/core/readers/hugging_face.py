"""Data sets of the Hugging Face hub that are on this machine already; nothing is fetched."""

import os
import re
from pathlib import Path

from lookalike.core.errors import FileError

SCHEME = "hf://"
ADDRESS = re.compile(r"hf://datasets/([\w.-]+)/([\w.-]+)(?:@([\w./-]+?))?(?:/(.+))?")

__all__ = ["SCHEME", "files_of_snapshot"]


def files_of_snapshot(address: str) -> list[Path]:
    """The files in the cache of hf://datasets/ORG/NAME[@REVISION][/PATH]; PATH is a file, a folder or a pattern."""
    match = ADDRESS.fullmatch(address.rstrip("/"))
    if match is None:
        raise FileError(
            f"{address} is no data set: write hf://datasets/ORG/NAME, or with /PATH behind it", path=address
        )
    organisation, name, revision, inside = match.groups()
    folder = _cache() / f"datasets--{organisation}--{name}"
    snapshot = _snapshot(folder, revision, address)
    pattern = inside or "**/*.parquet"
    if ".." in Path(pattern).parts:
        raise FileError(f"{address} leads out of the data set", path=address)
    if (snapshot / pattern).is_dir():
        pattern = f"{pattern}/**/*.parquet"
    files = sorted(path for path in snapshot.glob(pattern) if path.is_file())
    if not files:
        inside_ = sorted(path.relative_to(snapshot).as_posix() for path in snapshot.rglob("*.parquet"))
        there = f"there are {', '.join(inside_[:5])}" if inside_ else "it holds no Parquet files"
        raise FileError(f"the snapshot of {address} in {snapshot} has no such files: {there}", path=address)
    return files


def _cache() -> Path:
    """The folder in which the hub's own library keeps what it fetched."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home, "hub")).expanduser()


def _snapshot(folder: Path, revision: str | None, address: str) -> Path:
    """The folder of a revision, by default of the one that is called main."""
    snapshots = sorted(path.name for path in (folder / "snapshots").glob("*") if path.is_dir())
    if not snapshots:
        repository = address.removeprefix("hf://datasets/").partition("@")[0]
        fetch = "/".join(repository.split("/")[:2])
        raise FileError(
            f"{address} is not on this machine, in {folder}: fetch it first, by "
            f"huggingface-cli download {fetch} --repo-type dataset",
            path=address,
        )
    named = folder / "refs" / (revision or "main")
    wanted = named.read_text().strip() if named.is_file() else revision
    if wanted is None and len(snapshots) == 1:
        wanted = snapshots[0]
    matching = [name for name in snapshots if wanted is not None and name.startswith(wanted)]
    if len(matching) != 1:
        raise FileError(
            f"{address}: the cache has the revisions {', '.join(snapshots)}; name one, as hf://datasets/ORG/NAME@REVISION",
            path=address,
        )
    return folder / "snapshots" / matching[0]
