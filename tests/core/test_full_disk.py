"""A disk that is full: one sentence says which file could not be written, and what was there before stays.

No file system has to be mounted for it: the limit of a process for the size of its files fails in the same places, with
an error of its own.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

WITH_LIMIT = """
import resource, sys
from lookalike.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
main(sys.argv[2:])
"""


def run(limit: int, *arguments: object, folder: Path, **environment: str) -> tuple[int, list[str]]:
    """The exit code of a command that can write no file larger than this, and the lines that it says of its failure."""
    done = subprocess.run(
        [sys.executable, "-c", WITH_LIMIT, str(limit), *map(str, arguments)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, [line for line in done.stderr.splitlines() if not line.startswith("compiling")]


TOO_LARGE = os.strerror(errno.EFBIG)


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "items.npz", embeddings=rng.normal(size=(60, 8)), labels=np.arange(60) % 3)
    return tmp_path


TRAIN = ("train", "--data", "items.npz", "--bits", "8", "--batch-size", "20", "--epochs", "1", "--output", "hasher.npz")


def test_a_checkpoint_that_cannot_be_written(trained: Path) -> None:
    path = trained / "run.pt"
    assert run(1 << 30, *TRAIN, folder=trained)[0] == 0  # all is compiled
    (trained / "hasher.npz").unlink()
    code, said = run(1000, *TRAIN, "--checkpoint", path, folder=trained)
    assert (code, said) == (2, [f"lookalike: cannot write {path}: {TOO_LARGE}"])
    assert [entry.name for entry in trained.iterdir()] == ["items.npz"]


KEEPING = """
import resource
import torch
from lookalike.learning.checkpoints import read_checkpoint, write_checkpoint
write_checkpoint("run.pt", {"weights": torch.ones(3)}, {"bits": 8})
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_checkpoint("run.pt", {"weights": torch.zeros(3)}, {"bits": 8})
except OSError as error:
    print(error.filename, error.strerror, read_checkpoint("run.pt", {"bits": 8})["weights"].tolist())
"""


def test_the_checkpoint_before_stays(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KEEPING], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == f"run.pt {TOO_LARGE} [1.0, 1.0, 1.0]\n"


def test_pictures_that_cannot_be_written(tmp_path: Path) -> None:
    code, (said,) = run(50, "data", "digits", "--images", tmp_path / "pictures", folder=tmp_path)
    assert code == 2
    assert said.startswith(f"lookalike: cannot write {tmp_path}/pictures/")
    assert said.endswith(f".png: {TOO_LARGE}")
    assert not (tmp_path / "pictures").exists()


def test_what_is_compiled_and_cannot_be_kept(trained: Path) -> None:
    cache = trained / "cache"
    rows = np.random.default_rng(0).standard_normal((6000, 64)).astype(np.float32)  # so many that loops are compiled
    np.savez(trained / "many.npz", embeddings=rows, labels=np.arange(6000) % 9)
    code, said = run(100, "evaluate", "many.npz", "many.npz", folder=trained, NUMBA_CACHE_DIR=str(cache))
    assert (code, said) == (2, [f"lookalike: cannot write {cache}: {TOO_LARGE}"])


VOTING = """
import resource
from pathlib import Path
from lookalike.discovery.vote_log import append_votes, create_record, read_votes
from lookalike.discovery.votes import Votes
path = Path("votes.sqlite")
create_record(path)
append_votes(path, Votes(["q"], ["i"], ["e"], [1]))
limit = max(file.stat().st_size for file in Path().iterdir()) + 8192
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, -1))
n = 2000
try:
    append_votes(path, Votes(["q"] * n, [f"i{k}" * 9 for k in range(n)], ["e"] * n, [1] * n))
except OSError as error:
    resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
    print(error.filename, error.strerror, len(read_votes(path)))
"""


def test_votes_that_cannot_be_written(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", VOTING], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == f"votes.sqlite {os.strerror(errno.ENOSPC)} 1\n"


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(bytes(100_000))

    def log_message(self, *arguments: object) -> None:
        pass


FETCHING = """
import resource, sys
from pathlib import Path
from lookalike.datasets import source
from lookalike.datasets.download import Archive
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
archive = Archive("a.tgz", ("echo", sys.argv[1]), lambda path: True)
try:
    source.obtain(source.Origin("clothes", 1, print, (), "it", fetched=archive))
except OSError as error:
    print(error.filename, error.strerror)
"""


def test_an_archive_that_cannot_be_written(tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        done = subprocess.run(
            [sys.executable, "-c", FETCHING, f"http://127.0.0.1:{server.server_port}/a.tgz"],
            env={**os.environ, "LOOKALIKE_CACHE": str(tmp_path), "no_proxy": "*"},
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        server.shutdown()
        server.server_close()
    assert done.stdout == f"{tmp_path / 'a.tgz.part'} {TOO_LARGE}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(("options", "unbuffered"), [([], "1"), (["--json"], "")])
def test_standard_output_that_is_full(options: list[str], unbuffered: str, tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lookalike", "data", "digits", *options],
            cwd=tmp_path,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    said = f"lookalike: cannot write standard output: {os.strerror(errno.ENOSPC)}\n"
    assert (done.returncode, done.stderr) == (2, said)
