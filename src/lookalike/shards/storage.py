"""Locations: folders on this machine or in an object store. Files are read and written whole, and tried again."""

import functools
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from lookalike.core.errors import InputError, MissingPackageError
from lookalike.core.file_errors import fitting
from lookalike.core.files import writing
from lookalike.core.retry import retry

TRIES = 5  # of a store that does not answer; a pause twice as long before each further one
PAUSE = 0.2  # seconds, before the second
FINAL = ("ACCESS_DENIED", "NO_SUCH_BUCKET", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH")  # it has answered

logger = logging.getLogger("lookalike")
T = TypeVar("T")

__all__ = ["Location"]


@dataclass(frozen=True, repr=False)
class Location:
    """A folder: a path, file://…, s3://bucket/…, gs://…, or any other address that fsspec knows.

    >>> import tempfile
    >>> location = Location.of(tempfile.mkdtemp())
    >>> location.write("a.txt", b"hello")
    >>> location.read("a.txt"), location.has("b.txt")
    (b'hello', False)
    """

    where: str

    @classmethod
    def of(cls, where: "str | Path | Location") -> "Location":
        """The location at an address or a path; local paths are made absolute, so that other processes find it."""
        if isinstance(where, Location):
            return where
        text = str(where)
        text = re.sub(r"^(file://localhost(?=/)|file://|local://)", "", text)
        return cls(text.rstrip("/") if "://" in text else str(Path(text).resolve()))

    def __str__(self) -> str:
        """The address without names and passwords."""
        return re.sub(r"\?.*", "", _without_secrets(self.where))

    def __repr__(self) -> str:
        return f"Location({str(self)!r})"

    @property
    def local(self) -> Path | None:
        """The path of a folder on this machine; None for a store."""
        return None if "://" in self.where else Path(self.where)

    @functools.cached_property
    def _store(self) -> tuple[Any, str]:
        """The file system of a store and the path in it."""
        import pyarrow as pa
        from pyarrow import fs

        try:
            return fs.FileSystem.from_uri(self.where)
        except pa.ArrowInvalid as error:
            if not any(word in str(error) for word in ("scheme", "Unrecognized")):
                raise InputError(f"{self} cannot be read as an address: {self._worded(error)}") from error
        try:
            import fsspec
        except ModuleNotFoundError as error:
            text = f"{self} needs fsspec: pip install fsspec, and what it needs for it"
            raise MissingPackageError(text, package="fsspec") from error
        try:
            store, path = fsspec.core.url_to_fs(self.where)
        except (ValueError, ImportError) as error:
            raise InputError(f"{self} is at no store that is known here: {self._worded(error)}") from error
        return fs.PyFileSystem(fs.FSSpecHandler(store)), path

    def __getstate__(self) -> dict[str, Any]:
        """The address alone: connections are not sent to other processes."""
        return {"where": self.where}

    def read(self, name: str) -> bytes:
        """Read a whole file; raises FileNotFoundError, or OSError when the store still fails after all tries."""
        if self.local is not None:
            with fitting(self.local / name):
                return (self.local / name).read_bytes()

        what = f"read {self}/{name}"
        opened = self._tried(lambda: self._store[0].open_input_file(f"{self._store[1]}/{name}"), what)
        with fitting(f"{self}/{name}"), opened as file:
            return self._tried(lambda: bytes(file.read_at(file.size(), 0)), what)

    def write(self, name: str, content: bytes) -> None:
        """Write a file; after an error, it is there whole or not at all."""
        if self.local is not None:
            self.local.mkdir(parents=True, exist_ok=True)
            with writing(self.local / name) as file:
                file.write(content)
            return

        def send() -> None:
            with self._store[0].open_output_stream(f"{self._store[1]}/{name}") as file:
                file.write(content)

        self._tried(send, f"write {self}/{name}")

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        if self.local is not None:
            (self.local / name).unlink(missing_ok=True)
        elif self.has(name):
            self._tried(lambda: self._store[0].delete_file(f"{self._store[1]}/{name}"), f"remove {self}/{name}")

    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return name in self.sizes([name])

    def names(self) -> list[str]:
        """The names of the files that are there."""
        if self.local is not None:
            return [path.name for path in self.local.iterdir() if path.is_file()] if self.local.is_dir() else []
        return list(self._stored_sizes(None))

    def sizes(self, names: list[str]) -> dict[str, int]:
        """The sizes in bytes of these files; those that are not there are left out."""
        if self.local is not None:
            paths = {name: self.local / name for name in names}
            return {name: path.stat().st_size for name, path in paths.items() if path.is_file()}
        stored = self._stored_sizes(names[0] if len(names) == 1 else None)
        return {name: stored[name] for name in names if name in stored}

    def _stored_sizes(self, name: str | None) -> dict[str, int]:
        """The sizes in bytes of all files of a store, or of the one of this name."""
        from pyarrow import fs

        def ask() -> dict[str, int]:
            store, path = self._store
            wanted = fs.FileSelector(path, allow_not_found=True) if name is None else [f"{path}/{name}"]
            return {info.base_name: int(info.size) for info in store.get_file_info(wanted) if info.is_file}

        return self._tried(ask, f"look into {self}")

    def _worded(self, error: Exception) -> str:
        """The text of a store's error, in one line and without secrets."""
        return " ".join(_without_secrets(str(error).replace(self.where, str(self))).split())

    def _tried(self, action: Callable[[], T], what: str) -> T:
        """What an action returns; if the store fails, it is tried again, up to TRIES times."""

        def check(error: OSError, tries: int, _: float) -> None:
            if isinstance(error, FileNotFoundError):
                raise error
            if tries == TRIES or any(word in str(error) for word in FINAL):
                times = "" if tries == 1 else f" after {tries} tries"
                raise OSError(f"cannot {what}{times}: {self._worded(error)}") from error
            logger.debug("cannot %s, try %d: %s", what, tries, self._worded(error))

        return retry(action, OSError, check, first=PAUSE)


def _without_secrets(text: str) -> str:
    """A text without the names and passwords in its addresses; passwords may have a slash in them."""
    return re.sub(r"://([^@\s]*:[^@]*|[^@/\s]*)@", "://…@", text)
