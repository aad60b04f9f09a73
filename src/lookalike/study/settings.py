"""The file study.toml: what a study says about itself."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lookalike.core.embeddings import SIMILARITIES
from lookalike.core.errors import FileError
from lookalike.core.files import check_format, read_toml, write_text

CHOICES = {"lookalike": ("study",), "queries": ("closed", "wild"), "similarity": SIMILARITIES}

__all__ = ["read_settings", "write_settings"]


def read_settings(path: Path) -> dict[str, Any]:
    """Read study.toml and check that it says all that a study needs."""
    settings = read_toml(path.read_bytes(), path)
    check_format(settings, path)
    for key, kind in {"lookalike": str, "format": int, "name": str}.items():
        if not isinstance(settings.get(key), kind):
            raise FileError(f"{path} is damaged: it does not say {key!r}", path=path)
    for key, choices in CHOICES.items():
        if settings.get(key) not in choices:
            expected = " or ".join(map(repr, choices))
            raise FileError(f"{path}: {key!r} must be {expected}, got {settings.get(key)!r}", path=path)
    folder = settings.get("folder", {"images": "", "folders": "", "queries": ""})
    if not isinstance(folder, dict) or not all(
        isinstance(folder.get(key), str) for key in ("images", "folders", "queries")
    ):
        raise FileError(f"{path} is damaged: [folder] must say images, folders and queries", path=path)
    return settings


def write_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Write texts and whole numbers, and tables of them, as TOML."""
    lines = ["# A study of lookalike; docs/reference/formats.md says what is in this folder."]
    tables = {key: value for key, value in settings.items() if isinstance(value, Mapping)}
    lines += [_line(key, value) for key, value in settings.items() if key not in tables]
    for name, rows in tables.items():
        lines += ["", f"[{name}]", *(_line(key, value) for key, value in rows.items() if value is not None)]
    write_text(path, "\n".join(lines) + "\n")


def _line(key: str, value: str | int) -> str:
    """A line of TOML, in which a text is written as in JSON."""
    return f"{key} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")
