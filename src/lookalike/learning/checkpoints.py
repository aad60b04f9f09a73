"""Checkpoints: everything that a training run needs to go on, in a file that is written whole or not at all."""

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import torch

from lookalike.core.errors import FileError
from lookalike.core.files import check_format, provenance, writing

__all__ = ["read_checkpoint", "write_checkpoint"]


def write_checkpoint(path: str | Path, state: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Write tensors and plain values, with what they were made from."""
    content = io.BytesIO()  # torch has no words for a disk that is full
    torch.save({**provenance("checkpoint"), "about": _plain(about), "state": dict(state)}, content)
    with writing(path) as file:
        file.write(content.getbuffer())


def read_checkpoint(path: str | Path, about: Mapping[str, Any]) -> dict[str, Any]:
    """Read what `write_checkpoint` wrote; raises if it was made from something else than this."""
    if Path(path).is_dir():
        raise FileError(f"{path} is a folder: a checkpoint is a file", path=path)
    with Path(path).open("rb") as file:  # what cannot be opened says so itself
        content = _read_content(file, path)
    check_format(content, path)
    before, now = content["about"], _plain(about)
    differences = [
        f"{name} was {_shortened(before.get(name), now.get(name))}, is {_shortened(now.get(name), before.get(name))}"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]
    if differences:
        raise FileError(
            f"{path} is of another run: {'; '.join(differences)}. Remove it, or name another, to start anew", path=path
        )
    return dict(content["state"])


def _read_content(file: IO[bytes], path: str | Path) -> dict[str, Any]:
    strange = FileError(
        f"{path} is not a checkpoint of lookalike, or is damaged: remove it, or name another, to start anew", path=path
    )
    try:
        is_whole = zipfile.ZipFile(file).testzip() is None
        file.seek(0)
        content = torch.load(file, weights_only=True) if is_whole else {}
        is_ours = is_whole and content["lookalike"] == "checkpoint" and "format" in content
        is_ours = is_ours and isinstance(content["about"], dict) and isinstance(content["state"], dict)
    except Exception as error:  # bytes of another program raise whatever they lead to
        raise strange from error
    if not is_ours:
        raise strange
    return dict(content)


def _plain(about: Mapping[str, Any]) -> dict[str, Any]:
    """Facts as JSON has them, whatever kinds of numbers they were."""
    return dict(
        json.loads(json.dumps(about, default=lambda value: value.item() if hasattr(value, "item") else repr(value)))
    )


def _shortened(value: Any, other: Any) -> str:
    """A value in words; of a long one, where it differs from another.

    >>> _shortened(0.5, 0.7), _shortened("a" * 50 + "b" + "c" * 50, "a" * 101)
    ('0.5', '…aaaaaaaaaabccccccccccccccccccc…')
    """
    text, beside = repr(value), repr(other)
    if len(text) < 60:
        return text
    same = next((i for i, (a, b) in enumerate(zip(text, beside, strict=False)) if a != b), len(beside))
    return f"…{text[max(0, same - 10) : same + 20]}…"
