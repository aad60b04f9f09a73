"""Members of archives: tar and zip files, Debian packages and folders are read, and never unpacked to disk."""

import io
import os
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import IO

from lookalike.core.file_errors import reading

__all__ = ["members"]


def members(source: Path, wanted: Collection[str]) -> dict[str, bytes]:
    """The contents of the wanted files, by name without folders; of a tar, zip or .deb file, or a folder."""
    if source.is_dir():
        paths = [path for pattern in ("*/", "") for name in wanted for path in sorted(source.glob(pattern + name))]
        return {path.name: path.read_bytes() for path in paths if path.is_file()}
    if not source.is_file():
        raise FileNotFoundError(f"there is no file or folder {source}")
    with reading(source, "archive"), source.open("rb") as file:
        start = file.read(8)
        if start.startswith(b"PK"):
            return _zip_members(file, wanted)
        return _tar_members(_data_of_deb(file) if start == b"!<arch>\n" else file, wanted)


def _tar_members(file: IO[bytes], wanted: Collection[str]) -> dict[str, bytes]:
    import tarfile

    file.seek(0)
    contents: dict[str, bytes] = {}
    with tarfile.open(fileobj=file) as tar:
        for member in tar:
            name = member.name.rpartition("/")[2]
            content = tar.extractfile(member) if name in wanted and member.isfile() else None
            if content is not None:
                whole = io.BytesIO()
                shutil.copyfileobj(content, whole)  # by pieces: a header may claim any size
                contents[name] = whole.getvalue()
    return contents


def _zip_members(file: IO[bytes], wanted: Collection[str]) -> dict[str, bytes]:
    import zipfile

    with zipfile.ZipFile(file) as archive:
        names = {name.rpartition("/")[2]: name for name in archive.namelist()}
        return {name: archive.read(names[name]) for name in wanted if name in names}


def _data_of_deb(file: IO[bytes]) -> IO[bytes]:
    """The tar file of data in a Debian package, an `ar` archive: headers of 60 bytes, contents at even offsets."""
    while header := file.read(60):
        size = int(header[48:58])
        if not 0 <= size <= os.fstat(file.fileno()).st_size:
            raise EOFError("no length")
        if header.startswith(b"data.tar"):
            return io.BytesIO(file.read(size))
        file.seek(size + size % 2, io.SEEK_CUR)
    raise EOFError("no data in the package")
