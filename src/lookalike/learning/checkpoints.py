"""Checkpoints: everything that a training run needs to go on, in a file that is written whole or not at all."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from lookalike.files import check_format, provenance, writing

__all__ = ["read_checkpoint", "write_checkpoint"]


def write_checkpoint(path: str | Path, state: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Write tensors and plain values, with what they were made from."""
    with writing(path) as file:
        torch.save({**provenance("checkpoint"), "about": dict(about), "state": dict(state)}, file)


def read_checkpoint(path: str | Path, about: Mapping[str, Any]) -> dict[str, Any]:
    """Read what `write_checkpoint` wrote; raises where it was made from something else than this."""
    try:
        found = torch.load(path, weights_only=True)
        check_format(found, path)
        before, state = found["about"], found["state"]
    except Exception as error:  # a foreign file raises whatever its bytes lead to
        raise ValueError(f"{path} is not a checkpoint of lookalike, or is damaged: remove it to start anew") from error
    other = [
        f"{name} was {before.get(name)!r}, is {about.get(name)!r}"
        for name in sorted({*before, *about})
        if before.get(name) != about.get(name)
    ]
    if other:
        raise ValueError(f"{path} is of another run: {'; '.join(other)}. Remove it, or name another, to start anew")
    return dict(state)
