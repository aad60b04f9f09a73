"""The database that a study is judged in, if that is not the study's own file."""

import os
import secrets
from pathlib import Path

from lookalike.core.errors import FileError
from lookalike.study.study import Study

__all__ = ["forget_database", "remember_database", "remembered_database"]


def remembered_database(study: Study) -> str | None:
    """The URL of the database that the study is judged in; None if votes are in the study's own file."""
    file = _file(study)
    if not file.is_file():
        return None
    try:
        url = file.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise FileError(f"{file} is damaged: it is not text", path=file) from error
    if "://" not in url:
        raise FileError(f"{file} is damaged: it does not hold the URL of a database", path=file)
    return url


def remember_database(study: Study, url: str) -> None:
    """Store a URL in the study. Only the owner can read it, because it may hold a password."""
    file = _file(study)
    file.parent.mkdir(mode=0o700, exist_ok=True)
    temporary = file.with_name(f".database.{secrets.token_hex(8)}.part")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as opened:
        opened.write(url + "\n")
        opened.flush()
        os.fsync(opened.fileno())
    temporary.replace(file)


def forget_database(study: Study) -> None:
    """Keep votes in the study's own file from now on."""
    _file(study).unlink(missing_ok=True)


def _file(study: Study) -> Path:
    return study.path / "judging" / "database"
