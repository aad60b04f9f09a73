"""Files of models that were exported to ONNX: checked, fingerprinted, opened, and their inputs and outputs by name."""

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from lookalike.core.errors import FileError, missing_package
from lookalike.core.file_errors import no_memory, short_of_memory

__all__ = ["check_onnx", "fingerprint_of", "named_entry", "names_of", "open_session"]


def check_onnx(path: Path) -> None:
    """Raise unless a file is a model that was exported to ONNX; nothing of it is run."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if not _is_onnx(path):
        text = f"{path} is not an encoder: it is damaged, or not a model exported to ONNX"
        raise FileError(text, path=path)


def fingerprint_of(paths: Sequence[Path]) -> str:
    """A text that changes whenever one of the files does, or one with weights beside the first."""
    total = hashlib.sha256()
    for path in (*paths, *weights_beside(paths[0])):
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:16]


def open_session(path: Path, threads: int | None, providers: Sequence[str], name: str) -> Any:
    """A model as ONNX Runtime runs it."""
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise missing_package(name, error.name, "images") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or os.cpu_count() or 1
    options.log_severity_level = 3  # errors, which are raised as well
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=list(providers))
    except Exception as error:  # ONNX Runtime's own kinds have no common one
        if short_of_memory(error):
            raise no_memory(path) from error
        reason = str(error).partition("\n")[0]
        text = f"{path} is not an encoder that ONNX Runtime can run: {reason}"
        raise FileError(text, path=path) from error


@contextlib.contextmanager
def names_of(path: Path) -> Iterator[None]:
    """Within this block, a name that is not text is an error about the model's file."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is damaged: a name in it is no text", path=path) from error


def named_entry(entries: list[Any], name: str | None, what: str, sidecar: Path) -> Any:
    """The input or output of this name, or the only one."""
    names = [entry.name for entry in entries]
    if name is None and len(entries) != 1:
        text = f"the model has the {what}s {', '.join(names)}: set {what} in {sidecar} to one of them"
        raise FileError(text, path=sidecar)
    if name is not None and name not in names:
        raise FileError(f"{sidecar}: the model has no {what} {name!r}, it has {', '.join(names)}", path=sidecar)
    return entries[0 if name is None else names.index(name)]


def weights_beside(path: Path) -> list[Path]:
    """The files of the same folder that a model names: they hold weights that are too large for one file."""
    model = path.read_bytes()
    if b"location" not in model:
        return []
    others = sorted(other for other in path.parent.iterdir() if other != path and other.is_file())
    return [other for other in others if os.fsencode(other.name) in model]


def _is_onnx(path: Path) -> bool:
    """Whether a file consists of the fields of a model, with a graph; their contents are passed over."""
    numbers = set()
    with path.open("rb") as file:
        end = path.stat().st_size
        while file.tell() < end:
            tag = _number(file)
            kind = tag & 7
            number = _number(file) if kind in (0, 2) else 0  # the field itself, or how many bytes it has
            length = {0: 0, 1: 8, 2: number, 5: 4}.get(kind, -1)
            if min(tag, number, length) < 0 or file.tell() + length > end:
                return False
            file.seek(length, os.SEEK_CUR)
            numbers.add(tag >> 3)
    return {1, 7} <= numbers  # the format's version, and the graph


def _number(file: IO[bytes]) -> int:
    """The next whole number of a file, seven bits in each byte, the lowest first; -1 if there is none."""
    total = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            return -1
        total |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return total
    return -1
