"""Where commands may write: one guard for every output of every command."""

import glob
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lookalike.cli.parameters import flag_of
from lookalike.core.errors import InputError

STUDY_MARKS = ("study.toml", "study.lock", ".study.ready")  # what a study's folder has, also one that is being made
GALLERY_MARK = "manifest.json"

__all__ = ["Output", "check_outputs", "outputs_of"]


@dataclass(frozen=True)
class Output:
    """Marks a parameter of a command as something that is written: `Annotated[Path, Parameter(...), Output()]`.

    ending: what its name must end in. folder: it is a folder, or an address in a store, and not one file. owns: what
    it may be already, "study" or "gallery", since the command makes it or adds to it. only_with: it is written only
    with this flag.
    """

    ending: str | None = None
    folder: bool = False
    owns: str | None = None
    only_with: str | None = None


def outputs_of(command: Callable[..., Any]) -> dict[str, Output]:
    """The parameters of a command that say where it writes."""
    return {
        name: mark
        for name, parameter in inspect.signature(command).parameters.items()
        for mark in getattr(parameter.annotation, "__metadata__", ())
        if isinstance(mark, Output)
    }


def check_outputs(command: Callable[..., Any], bound: inspect.BoundArguments) -> None:
    """Raise where a command would write over a file that it reads, or into a study or a gallery that is not its own."""
    outputs = outputs_of(command)
    if not outputs:
        return
    from lookalike.shards.storage import Location

    bound.apply_defaults()
    values = bound.arguments
    reads = [path for name, value in values.items() if name not in outputs for path in _paths(value)]
    written: dict[str, str] = {}  # by its address: the parameter
    for name, output in outputs.items():
        if values[name] is None or (output.only_with is not None and not values[output.only_with]):
            continue
        where = str(values[name])
        location = Location.of(where)
        if location.local:
            _check_path(Path(where), location.local, output, reads)
        else:
            _check_address(where, reads)
        address = location.where
        if address in written:
            both = " and ".join(flag_of(bound.signature.parameters[other]) for other in (written[address], name))
            raise InputError(f"cannot write {where} twice: both {both} name it")
        written[address] = name


def _check_path(path: Path, full: Path, output: Output, reads: list[str]) -> None:
    """Raise for a path, which is `full` without links, that must not be written."""
    from lookalike.core.files import check_target
    from lookalike.shards.storage import Location

    for folder in (full, *full.parents):
        kind = _kind(folder)
        if kind is not None and not (folder == full and kind == output.owns):
            raise InputError(
                f"cannot write {path}: it is inside the {kind} {folder}, which keeps its own files; write it elsewhere"
            )
    for read in (location.local for location in map(Location.of, reads) if location.local is not None):
        if full == read and output.owns != "study":
            raise InputError(f"cannot write {path}: it is read by the same command; name another file")
        if full.exists() and not full.is_dir() and read in full.parents:
            raise InputError(f"cannot write {path}: it is a file of {read}, which is read; name a new file")
    if not output.folder:
        check_target(path)
    if output.ending is not None and path.suffix != output.ending:
        raise InputError(f"cannot write {path}: the name of this output must end in {output.ending}")


def _check_address(where: str, reads: list[str]) -> None:
    """Raise for an address in a store that is read, or inside of what is read."""
    for read in reads:
        if "://" in read and f"{where.rstrip('/')}/".startswith(f"{read.rstrip('/')}/"):
            raise InputError(f"cannot write to {where}: {read} is read by the same command; name another address")


def _kind(folder: Path) -> str | None:
    """What a folder is that other programs must not write into."""
    if any((folder / mark).exists() for mark in STUDY_MARKS):
        return "study"
    manifest = folder / GALLERY_MARK
    if manifest.is_file() and b'"lookalike"' in manifest.read_bytes()[:1000]:
        return "gallery"
    return None


def _paths(value: Any) -> Iterator[str]:
    """Files, folders and addresses that an argument may name: itself, parts of it as in NAME=FILE,FILE, a pattern."""
    if isinstance(value, Path):
        yield str(value)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _paths(part)
    elif isinstance(value, str):
        named = value.partition("=")[2]
        for part in {value, named, *named.split(","), value.partition(":")[2], *re.split(r"[=,\s]+", value)} - {""}:
            if "://" in part or _exists(part):
                yield part
            elif glob.has_magic(part):
                yield from glob.glob(part, recursive=True)  # noqa: PTH207  # patterns from / too


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # too long for a path, or with a zero byte: a text of another kind
        return False
