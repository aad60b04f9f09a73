"""What docs/architecture.md says of the code is so: each step of a walk is there, and the walks stay short."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "lookalike"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
STEPS = re.findall(r"(?m)^\| (\d+) \| `([\w/]+\.py)` \| `([\w.]+)` \|", PAGE)
MOST_STEPS = {"One query": 12, "One image": 14, "One vote": 18}


def defined(file: str) -> set[str]:
    """The names that a file defines, those in classes with the name of the class."""
    tree = ast.parse((PACKAGE / file).read_text())
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{part.name}" for part in node.body if hasattr(part, "name")}
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            names |= {target.id} if isinstance(target, ast.Name) else set()
    return names


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step[1]}:{step[2]}")
def test_each_step_of_a_walk_is_there(step: tuple[str, str, str]) -> None:
    _, file, name = step
    assert name in defined(file)


@pytest.mark.parametrize("walk", MOST_STEPS)
def test_walks_are_short(walk: str) -> None:
    part = PAGE.partition(f"### {walk}")[2].partition("\n#")[0]
    numbers = [int(number) for number in re.findall(r"(?m)^\| (\d+) \| `[\w/]+\.py` \| `[\w.]+` \|", part)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert 0 < len(numbers) <= MOST_STEPS[walk]


def test_every_file_that_the_page_names_is_there() -> None:
    files = set(re.findall(r"`([a-z_]+/[\w/]+\.py)`", PAGE))
    assert len(files) > 50
    assert {file for file in files if not any((base / file).exists() for base in (PACKAGE, ROOT))} == set()
