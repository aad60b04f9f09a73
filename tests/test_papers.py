"""docs/reference/papers.md: each row names a function that exists and a test that exists, or says why it has none."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "papers.md"
NOTHING = "–"
# equations, tables and figures in print, by the heading of the paper's section
PRINTED = {
    "Hash codes with characteristics": [f"eq. {n}" for n in range(1, 10)],
    "Hash codes with three types of pairs": [f"eq. {n}" for n in range(1, 6)],
    "He, Cakir, Bargal and Sclaroff 2018": [f"eq. {n}" for n in range(1, 38)],
    "Ding, Li and Li 2018": [f"eq. {n}" for n in range(1, 32)] + [f"figure {n}" for n in range(1, 9)] + ["table 1"],
    "Barkan et al. 2023": [
        *(f"eq. {n}" for n in range(1, 6)),
        *(f"table {n}" for n in range(1, 9)),
        *(f"figure {n}" for n in range(1, 5)),
    ],
}


def sections() -> dict[str, list[list[str]]]:
    """The rows of each paper: place, what it is, where it is computed, how it differs from the print, test."""
    rows: dict[str, list[list[str]]] = {}
    heading = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line[3:]
        if heading in PRINTED and line.startswith("| ") and not line.startswith("| place"):
            rows.setdefault(heading, []).append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


ROWS = [(heading, row) for heading, rows in sections().items() for row in rows]


def places(cell: str) -> set[str]:
    """What a cell such as `eq. 4 to 6, table 1` names."""
    named: set[str] = set()
    for kind, listed in re.findall(r"(eq\.|table|figure) ([\d, ]+(?:(?:to|and) \d+)?)", cell):
        numbers = [int(number) for number in re.findall(r"\d+", listed)]
        if " to " in listed:
            numbers = [*numbers[:-2], *range(numbers[-2], numbers[-1] + 1)]
        named |= {f"{kind} {number}" for number in numbers}
    return named


@pytest.mark.parametrize(("heading", "row"), ROWS, ids=[f"{heading[:5]} {row[0]}" for heading, row in ROWS])
def test_what_a_row_names_exists(heading: str, row: list[str]) -> None:
    _, what, here, print_and_ours, tests = row  # five cells
    assert what
    assert print_and_ours
    if here.startswith(NOTHING):
        assert len(here) > len(NOTHING), "a row without a function says why"
    for name in re.findall(r"`(lookalike\.[\w.]+)`", here):
        assert _found(name) is not None, name
    assert here.startswith(NOTHING) or "`lookalike." in here
    if not here.startswith(NOTHING):
        assert "`tests/" in tests
    for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", tests):
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, (path, name)


def _found(name: str) -> object:
    """The module, class, function or method of a dotted name."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            thing: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):  # a package that ours needs is missing
                raise
            continue
        for part in parts[length:]:
            thing = getattr(thing, part)
        return thing
    raise AssertionError(name)


@pytest.mark.parametrize("heading", PRINTED)
def test_every_equation_table_and_figure_has_a_row(heading: str) -> None:
    named = set().union(*(places(row[0]) for row in sections()[heading]))
    assert set(PRINTED[heading]) <= named, sorted(set(PRINTED[heading]) - named)
