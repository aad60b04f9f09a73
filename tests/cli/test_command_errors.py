"""How a command ends that does not end well: in one sentence, with options as the command line spells them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lookalike as la
from helpers.commands import run
from lookalike.cli.errors import spelling
from lookalike.cli.evaluate import evaluate
from lookalike.cli.judge.votes import import_votes
from lookalike.cli.pool import pool
from lookalike.cli.search import search
from lookalike.core.errors import InputError, MissingPackageError, Option, StoreError
from lookalike.evaluation import item_files


@pytest.mark.parametrize(
    ("command", "option", "text"),
    [
        (evaluate, Option("unjudged", "condensed"), "--unjudged condensed"),
        (evaluate, Option("similarity"), "--similarity"),
        (evaluate, Option("exclude", "self"), "--exclude-self"),
        (evaluate, Option("gallery"), "GALLERY"),
        (evaluate, Option("level", "product"), "level='product'"),
        (evaluate, Option("random_state", 3), "random_state=3"),  # a command without --seed
        (pool, Option("random_state", 3), "--seed 3"),
        (pool, Option("next_pairs", 5), "--next 5"),
        (pool, Option("one_per_identity", True), "--one-per-identity"),
        (search, Option("k", 5), "--k 5"),
        (import_votes, Option("add_experts", True), "--add-experts"),
        (None, Option("k", 5), "k=5"),  # before a command is known
    ],
)
def test_an_option_is_spelled_as_its_command_has_it(command: object, option: Option, text: str) -> None:
    assert spelling(command)(option) == text  # type: ignore[arg-type]


@pytest.fixture
def codes(tmp_path: Path) -> Path:
    np.savez(tmp_path / "codes.npz", codes=np.eye(4, dtype=int))
    return tmp_path / "codes.npz"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (InputError("grades are missing: give ", Option("unjudged", "condensed")), "give --unjudged condensed"),
        (InputError("too\nmany lines"), "too many lines"),
        (MissingPackageError("this needs faiss", package="faiss"), "this needs faiss"),
        (StoreError("the database is away"), "the database is away"),
        (FileNotFoundError("there is no file x.npz"), "there is no file x.npz"),
        (PermissionError(13, "Permission denied", "x.npz"), "Permission denied: x.npz"),
        (MemoryError(), "there is not enough memory for lookalike evaluate"),
    ],
)
def test_what_a_user_can_put_right_is_one_sentence(
    error: Exception, text: str, codes: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(item_files, "read_items", fail)
    code, out, err = run(capsys, "evaluate", codes, codes)
    assert (code, out) == (2, "")
    assert err.startswith("lookalike: ")
    assert err.endswith(f"{text}\n")
    assert err.count("\n") == 1


def test_ctrl_c_ends_a_command_without_a_word(
    codes: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(item_files, "read_items", interrupt)
    assert run(capsys, "usage", codes) == (130, "", "")


def test_ctrl_c_while_modules_load_ends_without_a_traceback() -> None:
    """The interrupt comes when the command line is imported, as it does for who presses Ctrl-C at once."""
    code = """
import sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == "lookalike.cli":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from lookalike.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    "kind", [ValueError, TypeError, ZeroDivisionError, ModuleNotFoundError, AssertionError, KeyError]
)
def test_every_other_error_is_a_bug_and_says_so(
    kind: type[Exception], codes: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise kind("operands could not be broadcast")

    monkeypatch.setattr(item_files, "read_items", fail)
    code, out, err = run(capsys, "usage", codes)
    first, *_, error, last = err.splitlines()
    assert (code, out) == (1, "")
    assert first == "Traceback (most recent call last):"
    assert error.startswith(f"{kind.__name__}: ")
    assert last == f"lookalike: this is a bug of lookalike {la.__version__}: please report it with the lines above"


def test_a_letter_that_a_terminal_lacks_is_no_bug(codes: Path, tmp_path: Path) -> None:
    """An arrow is printed to a terminal that has ASCII alone."""
    np.savez(tmp_path / "vectors.npz", embeddings=np.eye(4))
    command = [sys.executable, "-m", "lookalike", "hash", "vectors.npz", "new.npz", "--hasher", "LSH", "--bits", "4"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert r"4 items of 4 numbers \u2192 4 bits by LSH" in done.stdout
