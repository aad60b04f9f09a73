"""Fuzzing, a minute of it: no changed file or request breaks anything; and a harness that sees what breaks.

What a vacuous test would let pass: a harness that catches everything itself (readers that raise, hang, eat memory and
crash are given to it here), cases that are refused before anything is read (many must be accepted), and readers that it
does not know (every function and every option that takes a path must be among what valid files went through).
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import gzip
import inspect
import io
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from fuzzing import running, seeds
from fuzzing.changing import KINDS, changed
from fuzzing.running import Limits, Outcome, Target
from fuzzing.targets import COMMANDS, seal, tokens, use_hasher, use_index
from fuzzing.visits import routes_of
from lookalike.core.readers.opening import KINDS as KINDS_OF_ITEMS
from lookalike.shards.gallery import Shards

ROOT = Path(__file__).parents[1]
CASES, SECONDS = 400, 25  # whichever is reached first; before, valid files are made and read, which takes as long
READS = re.compile(r"read|load|open|recall|decode|from_json|members|faiss_vectors|rows_of")
NOT_READ = {  # options of commands
    "output": "written",
    "save": "written",
    "audit picture": "written",
    "data images": "written",
    "duplicates move": "written",
    "encode text": "read as by the target onnx",
    "encode tokenizer": "likewise",
    "evaluate curve": "written",
    "experts file": "written",
    "export file": "written",
    "finetune onnx": "written",
    "finetune checkpoint": "read as by train",
    "finetune source": "read as by data",
    "leaderboard report": "written",
    "replicate report": "written",
    "replicate results": "written; a result that is there is read as the target replications does",
    "study new folder": "made",
    "demo source": "read as by data and report, then made a report of",
    "demo labels": "likewise",
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What became of some cases of every target; reports take too long to be made often."""
    folder = tmp_path_factory.mktemp("fuzz")
    options = f"--cases {CASES} --seconds {SECONDS} --without report --without train --kept {folder}"
    command = [sys.executable, str(ROOT / "bench" / "fuzz.py"), *options.split(), "--json", str(folder / "found.json")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert (folder / "found.json").is_file(), run.stdout + run.stderr
    found = json.loads((folder / "found.json").read_text())
    return found | {"said": run.stdout, "code": run.returncode, "seeds": folder / "seeds"}


def test_whatever_a_file_or_a_request_holds_it_is_accepted_or_refused_in_words(found: dict[str, Any]) -> None:
    assert found["code"] == 0, found["said"]
    assert {outcome["verdict"] for outcome in found["outcomes"]} == {"accepted", "refused"}


def test_cases_go_deep(found: dict[str, Any]) -> None:
    verdicts = [outcome["verdict"] for outcome in found["outcomes"]]
    assert 50 < len(verdicts) <= CASES
    assert verdicts.count("accepted") > len(verdicts) / 5
    assert verdicts.count("refused") > len(verdicts) / 5


def read_part(part: Path) -> None:
    Shards.open(part.parent).read(0)


@pytest.mark.parametrize(
    ("file", "array", "read"),
    [
        ("hashers/ITQ.npz", "mean_", use_hasher),
        ("indexes/vectors-exact.npz", "embeddings", use_index),
        ("shards/packed/part-00000.parquet", "", read_part),
    ],
)
def test_what_is_sealed_is_reached(
    file: str, array: str, read: Callable[[Path], None], found: dict[str, Any], tmp_path: Path
) -> None:
    shutil.copytree((found["seeds"] / file).parent, tmp_path / "sealed")
    path = tmp_path / "sealed" / Path(file).name
    if array:
        with np.load(path) as saved:
            arrays = dict(saved)
        np.savez(path, **arrays | {array: arrays[array] + np.float32(0.01)})
    else:
        pq.write_table(pq.read_table(path), path, compression="gzip")
    with pytest.raises(ValueError, match=r"damaged|hash"):
        read(path)
    seal(path)
    read(path)


def readers() -> Iterator[str]:
    """Public functions of the package that are named as readers and take a path."""
    package = ROOT / "src" / "lookalike"
    for file in sorted(package.rglob("*.py")):
        module = ".".join(file.relative_to(package).with_suffix("").parts)
        tree = ast.parse(file.read_text())
        outer = [(module, tree)] + [
            (f"{module}.{node.name}", node) for node in tree.body if isinstance(node, ast.ClassDef)
        ]
        for name, holder in outer:
            for node in getattr(holder, "body", []):
                if isinstance(node, ast.FunctionDef) and READS.match(node.name):
                    kinds = [ast.unparse(each.annotation) for each in node.args.args if each.annotation is not None]
                    if any("Path" in kind for kind in kinds):
                        yield f"{name}.{node.name}"


def test_every_reader_of_files_is_fuzzed(found: dict[str, Any]) -> None:
    known = set(readers())
    assert len(known) > 25
    assert known - set(found["called"]) == set(), "give fuzzing.targets a target that calls these"


def test_every_kind_of_items_is_fuzzed(found: dict[str, Any]) -> None:
    """A kind that is added to the readers needs a valid file among the seeds, which the target of items changes."""
    assert set(KINDS_OF_ITEMS) - {path.suffix for path in (found["seeds"] / "items").glob("query-[!l]*")} == set()


def paths_of(app: Any, before: str = "") -> Iterator[str]:
    """Every parameter of a command that is a path, as `command parameter`."""
    for name in app:
        if name.startswith("-"):
            continue
        inner = app[name]
        yield from paths_of(inner, f"{before}{name} ")
        if inner.default_command is not None:
            for parameter in inspect.signature(inner.default_command).parameters.values():
                if "Path" in str(parameter.annotation):
                    yield f"{before}{name} {parameter.name}"


def test_every_path_that_a_command_takes_is_fuzzed() -> None:
    from lookalike.cli import app

    given = set()
    for _, lines in COMMANDS.values():
        for line in lines:
            words = tokens(line, Path("folder"))
            _, bound, _ = app.parse_args(words, print_error=False, exit_on_error=False)
            chain = " ".join(app.parse_commands(words)[0])
            given |= {f"{chain} {name}" for name, value in bound.arguments.items() if isinstance(value, Path)}
    known = {path for path in paths_of(app) if not any(f" {path}".endswith(f" {written}") for written in NOT_READ)}
    assert len(known) > 30
    assert known - given == set(), "name files for these in a line of fuzzing.targets"


def test_a_route_that_is_added_is_asked_for() -> None:
    from fastapi import FastAPI
    from starlette.routing import Mount, Route

    app = FastAPI(openapi_url=None)

    @app.get("/new/{token}")
    def new(token: str, k: int = 1) -> str:
        return token * k

    app.router.routes += [
        Route("/plain", lambda request: None, methods=["POST"]),
        Mount("/below", routes=[Route("/x", lambda request: None)]),
    ]
    assert {("GET", "/new/{token}"), ("POST", "/plain"), ("GET", "/below/x")} <= {
        (method, path) for method, path, _ in routes_of(app.routes)
    }
    assert {"k"} in [names for _, _, names in routes_of(app.routes)]


# The harness itself


def outcome_of(act: Callable[[Path], Any], folder: Path, **limits: float) -> Outcome:
    target = Target("tried", lambda rng, seeds, folder: act(folder))
    (outcome,) = running.run([(target, 7)], 0, folder, Limits(**limits))
    assert (outcome.target, outcome.case) == ("tried", 7)
    assert (folder / "tried-7").exists() == (outcome.verdict == "failed")  # what failed is kept
    return outcome


def raises(error: BaseException) -> Callable[[Path], Any]:
    def act(folder: Path) -> None:
        raise error

    return act


def hang(folder: Path) -> None:
    time.sleep(60)


def spin(folder: Path) -> None:
    while True:
        pass


def eat(folder: Path) -> None:
    taken = []
    while True:
        taken.append(bytes(range(256)) * 4096)


def eat_and_return(folder: Path) -> None:
    bytes(range(256)) * 4096 * 300


def crash(folder: Path) -> None:
    ctypes.string_at(0)


BROKEN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a wrong kind of exception": (raises(KeyError("codes")), "KeyError: 'codes'"),
    "an exit": (raises(SystemExit(0)), "SystemExit"),
    "no words": (raises(ValueError()), "ValueError"),
    "a library's words": (lambda folder: np.zeros(3).reshape(2, 2), "ValueError: cannot reshape"),
    "a hang": (hang, "more than 0.3 s"),
    "a loop": (spin, "more than 0.3 s"),
    "memory without end": (eat, "more than 200 MB"),
    "memory for a moment": (eat_and_return, "more than 200 MB"),
    "more memory than there can be": (lambda folder: np.zeros(2**40), "MemoryError"),
    "a crash": (crash, "ended by SIGSEGV"),
    "an end": (lambda folder: os._exit(3), "ended by exit code 3"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_broken_is_seen(case: str, tmp_path: Path) -> None:
    act, words = BROKEN[case]
    outcome = outcome_of(act, tmp_path, seconds=0.3, megabytes=200)
    assert outcome.verdict == "failed"
    assert outcome.words.startswith(words)


def test_a_crash_says_where_and_the_cases_after_it_are_run(tmp_path: Path) -> None:
    from lookalike.core import progress

    def case(rng: Random, seeds: Path, folder: Path) -> None:
        number = int(folder.name.rpartition("-")[2])
        if number == 1:
            list(progress.track(map(crash, [folder]), 1, "crashing"))

    outcomes = list(running.run([(Target("tried", case), number) for number in range(3)], 0, tmp_path))
    assert [outcome.verdict for outcome in outcomes] == ["accepted", "failed", "accepted"]
    assert "core/progress.py" in outcomes[1].where
    assert "Segmentation fault" in (tmp_path / "tried-1" / "last-words.txt").read_text()


def test_errors_of_ours_and_of_the_system_are_refusals_and_all_others_failures(tmp_path: Path) -> None:
    from lookalike.evaluation.item_files import read_items

    def unnamed(folder: Path) -> None:
        np.load(folder / "none.npy")

    def foreign(folder: Path) -> None:
        raise ValueError(f"{folder}/a.npz is odd")

    for act in (lambda folder: read_items(folder / "none.npz"), unnamed):
        assert outcome_of(act, tmp_path).verdict == "refused"
    assert outcome_of(foreign, tmp_path).verdict == "failed"
    assert outcome_of(lambda folder: None, tmp_path).verdict == "accepted"


def sample(ending: str, folder: Path) -> bytes:
    """A valid file of a kind."""
    text = b'{"a": [1, {"b": "c"}], "d": null}\n'
    if ending in (".npz", ".npy", ".parquet"):
        seeds.items(folder)
        return next((folder / "items").glob(f"*embeddings{ending}")).read_bytes()
    if ending in (".pt", ".partial"):
        return b"0" * 64 * (ending == ".partial") + sample(".npz", folder)
    if ending == ".png":
        file = io.BytesIO()
        seeds.picture(0).save(file, "PNG")
        return file.getvalue()
    if ending == ".sqlite":
        with contextlib.closing(sqlite3.connect(":memory:")) as file:
            file.executescript(
                "CREATE TABLE votes (query TEXT, answer INTEGER); INSERT INTO votes VALUES ('q', 1), ('r', 0);"
            )
            return file.serialize()
    return gzip.compress(text, mtime=0) if ending == ".gz" else text


@pytest.mark.parametrize("ending", KINDS)
def test_the_same_random_numbers_make_the_same_change(ending: str, tmp_path: Path) -> None:
    data = sample(ending, tmp_path)
    changes = [changed(data, f"a{ending}", Random(number)) for number in range(30)]
    assert changes == [changed(data, f"a{ending}", Random(number)) for number in range(30)]
    assert len({data, *changes}) > 15
