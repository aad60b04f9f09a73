"""A study of four items, models of it, votes on it, and other processes that use it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

import lookalike as la
from lookalike.discovery.catalogue import Catalogue
from lookalike.discovery.votes import Votes
from lookalike.study.study import Study

catalogue_of: Any = Catalogue  # of lists, as users write
SHOP: Catalogue = catalogue_of(
    ["a", "b", "c", "d"], ["x", "x", "y", "z"], ["shoe", "shoe", "hat", "hat"], attributes={"price": [1, 2, 3, 4]}
)
WILD: Catalogue = catalogue_of(["photo 1", "photo 2"], ["x", "y"])
RNG = np.random.default_rng(0)
GALLERY = RNG.standard_normal((4, 3)).astype(np.float32)
QUERIES = RNG.standard_normal((2, 3)).astype(np.float32)
CODES = la.Codes.pack(RNG.integers(0, 2, (4, 13)))
RUN = {"a": {"b": 0.1 + 0.2, "c": -1.0}, "c": {"d": 2.0}}


def create(path: Path, **changes: Any) -> Study:
    options: dict[str, Any] = {"name": "s", "catalogue": SHOP, "queries": ["a"]} | changes
    return Study.create(path, **options)


def vote(n: int = 1, expert: str = "ann", **more: Any) -> Votes:
    return Votes(["a"] * n, ["b"] * n, [expert] * n, [1] * n, **more)


def process(code: str, *arguments: Any) -> subprocess.Popen[str]:
    """Another Python that runs the code with `study`, the folder's study, and `arguments`."""
    start = "import sys\nimport lookalike as la\nstudy, arguments = la.Study.open(sys.argv[1]), sys.argv[2:]\n"
    command = [sys.executable, "-c", start + textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def line_from(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()


def assert_same_votes(one: Votes, other: Votes) -> None:
    for name in ("queries", "items", "experts", "answers", "times", "seconds"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
