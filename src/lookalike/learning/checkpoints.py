"""Checkpoints: everything that a training run needs to go on, in a file that is written whole or not at all."""

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from lookalike.core.files import check_format, provenance, writing

__all__ = ["read_checkpoint", "write_checkpoint"]


def write_checkpoint(path: str | Path, state: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Write tensors and plain values, with what they were made from."""
    content = io.BytesIO()  # torch has no words for a disk that is full
    torch.save({**provenance("checkpoint"), "about": _plain(about), "state": dict(state)}, content)
    with writing(path) as file:
        file.write(content.getbuffer())


def read_checkpoint(path: str | Path, about: Mapping[str, Any]) -> dict[str, Any]:
    """Read what `write_checkpoint` wrote; raises where it was made from something else than this."""
    if Path(path).is_dir():
        raise ValueError(f"{path} is a folder: a checkpoint is a file")
    strange = f"{path} is not a checkpoint of lookalike, or is damaged: remove it, or name another, to start anew"
    with Path(path).open("rb") as file:  # what cannot be opened says so itself
        try:
            if zipfile.ZipFile(file).testzip() is not None:
                raise ValueError(strange)
            file.seek(0)
            found = torch.load(file, weights_only=True)
            known = found["lookalike"] == "checkpoint" and "format" in found
            known = known and isinstance(found["about"], dict) and isinstance(found["state"], dict)
        except Exception as error:  # bytes that are none of ours raise whatever they lead to
            raise ValueError(strange) from error
    if not known:
        raise ValueError(strange)
    check_format(found, path)
    before, now = found["about"], _plain(about)
    other = [
        f"{name} was {_where(before.get(name), now.get(name))}, is {_where(now.get(name), before.get(name))}"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]
    if other:
        raise ValueError(f"{path} is of another run: {'; '.join(other)}. Remove it, or name another, to start anew")
    return dict(found["state"])


def _plain(about: Mapping[str, Any]) -> dict[str, Any]:
    """Facts as JSON has them, whatever kinds of numbers they were."""
    return dict(
        json.loads(json.dumps(about, default=lambda value: value.item() if hasattr(value, "item") else repr(value)))
    )


def _where(value: Any, other: Any) -> str:
    """A value in words; of a long one, where it differs from another.

    >>> _where(0.5, 0.7), _where("a" * 50 + "b" + "c" * 50, "a" * 101)
    ('0.5', '…aaaaaaaaaabccccccccccccccccccc…')
    """
    text, beside = repr(value), repr(other)
    if len(text) < 60:
        return text
    same = next((i for i, (a, b) in enumerate(zip(text, beside, strict=False)) if a != b), len(beside))
    return f"…{text[max(0, same - 10) : same + 20]}…"
