"""How the library is built: what imports what, what importing it costs, what is public and documented."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import lookalike as la

ROOT = Path(la.__file__).parent
SOURCES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}
TREES = {name: ast.parse(source) for name, source in SOURCES.items()}
HEAVY = ("numba", "torch", "scipy", "sklearn", "pyarrow", "pandas", "rich", "cyclopts", "faiss", "distributed")


def under_type_checking(tree: ast.Module) -> set[ast.AST]:
    """Nodes that only a type checker reads."""
    blocks = (node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    return {inner for block in blocks for part in block.body for inner in ast.walk(part)}


@functools.cache
def imports_of(name: str) -> set[str]:
    """Every module that a file imports, inside functions too; of `from a import b`, both a and a.b."""
    tree = TREES[name]
    skipped = under_type_checking(tree)
    found: set[str] = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports by dots"
            assert node.module is not None
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def importing(module: str) -> set[str]:
    """The files that import a module or something in it."""
    return {name for name in SOURCES if any(f"{found}.".startswith(f"{module}.") for found in imports_of(name))}


def test_the_reader_of_imports_sees_them() -> None:
    assert {"evaluation.py", "trials.py"} <= importing("lookalike.codes")
    assert "pyarrow" in imports_of("files.py")  # inside a function
    assert "lookalike.tally" not in imports_of("metrics/names.py")  # for type checkers alone
    assert len(SOURCES) > 20


# Layers

METRICS, HASHERS, DATASETS, REPORT, CLI, LEARNING, ENCODERS, DISCOVERY, WEB, JUDGING = (
    {name for name in SOURCES if name.startswith(f"{package}/")}
    for package in (
        *("metrics", "hashers", "datasets", "report", "cli", "learning", "encoders", "discovery", "web", "judging"),
    )
)
PAGES = {f"judging/{name}.py" for name in ("app", "organising", "sent", "serving", "sessions", "showing")}
SHARDS = {"places.py", "shards.py", "gathering.py", "tallying.py", "cluster.py", "sharding.py"}
STUDIES = {"study.py", "images.py", "rows.py", "encoding.py", "hashed.py", "finding.py", "survey.py"}
LOWEST = {
    *("codes.py", "relevance.py", "files.py", "file_errors.py", "npy.py", "folders.py", "trec.py", "progress.py"),
    *("_compiled.py", "_version.py"),
}


@pytest.mark.parametrize(
    ("files", "never"),
    [
        (METRICS, ["codes", "counting", "scoring", "evaluation", "relevance", "tally", "results", "items", "files"]),
        (LOWEST, ["tally", "metrics", "evaluation", "counting", "scoring", "results", "comparison", "items"]),
        ({"tally.py"}, ["metrics", "evaluation", "counting", "scoring", "results"]),
        ({"counting.py", "scoring.py"}, ["metrics", "evaluation", "results", "comparison"]),
        (SHARDS, ["metrics", "evaluation", "results", "comparison", "hashers", "discovery", "items"]),
        ({"places.py", "shards.py"}, ["tally", "counting", "scoring", "gathering", "tallying", "cluster"]),
        (set(SOURCES) - {"gathering.py"} - CLI, ["cluster"]),
        (set(SOURCES) - CLI, ["cli"]),
        (HASHERS, ["metrics", "tally", "evaluation", "relevance", "space", "trials", "report", "datasets"]),
        (METRICS, ["hashers", "space", "trials"]),
        ({"space.py"}, ["hashers", "trials", "report", "datasets"]),
        (DATASETS, ["codes", "hashers", "evaluation", "metrics", "trials", "report", "tasks"]),
        (set(SOURCES) - CLI - REPORT, ["report"]),
        (set(SOURCES) - CLI - LEARNING - {"__init__.py"}, ["learning"]),
        (LEARNING, ["datasets", "encoders", "tasks", "trials", "report"]),
        (ENCODERS, ["learning", "hashers", "evaluation", "metrics", "trials", "report", "tasks"]),
        (DISCOVERY, ["study", "report", "hashers", "learning", "encoders", "datasets", "trials", "tasks"]),
        (set(SOURCES) - DISCOVERY - CLI - REPORT - WEB - JUDGING - STUDIES - {"__init__.py"}, ["discovery", "study"]),
        (set(SOURCES) - CLI - WEB - PAGES, ["web"]),
        (set(SOURCES) - CLI - JUDGING, ["judging"]),
        (JUDGING, ["report", "learning", "hashers", "evaluation", "metrics"]),
        (WEB, ["report", "learning", "hashers", "evaluation", "metrics"]),
        (set(SOURCES), ["_kernels", "_product", "_bends", "_soft"]),
    ],
    ids=[
        "metrics see counts only",
        "the lowest",
        "tally",
        "counting",
        "shards know counts, not metrics",
        "where shards lie",
        "one place knows of clusters",
        "cli is the top",
        "hashers see vectors only",
        "metrics and hashers are strangers",
        "space",
        "datasets",
        "reports are next to the top",
        "only commands know of learning",
        "learning sees arrays only",
        "encoders see images only",
        "discovery sees rankings and votes",
        "nothing below knows of discovery",
        "votes are kept without the web",
        "only commands know of judging",
        "judging knows votes, not scores",
        "the web shows what is found",
        "compiled loops",
    ],
)
def test_dependencies_point_one_way(files: set[str], never: list[str]) -> None:
    for module in never:
        assert not files & (importing(f"lookalike.{module}") - {"__main__.py"}), module


def test_compiled_loops_are_loaded_in_one_place() -> None:
    for module in ("lookalike._kernels", "lookalike._product", "lookalike._bends", "lookalike._soft"):
        assert {name for name, source in SOURCES.items() if f'"{module}"' in source} == {"_compiled.py"}
    assert importing("numba") == {"_kernels.py", "_product.py", "_bends.py", "_soft.py"}


def test_torch_is_for_learning_and_encoders() -> None:
    assert importing("torch")
    assert importing("torch") <= LEARNING | ENCODERS
    assert not any('import_module("torch' in source for source in SOURCES.values())


def test_dask_is_for_clusters() -> None:
    assert importing("distributed") == {"cluster.py"}


def test_faiss_is_loaded_in_one_place() -> None:
    assert not importing("faiss")
    assert {name for name, source in SOURCES.items() if 'import_module("faiss")' in source} == {"neighbours.py"}


def test_terminals_are_the_business_of_the_command_line() -> None:
    assert importing("rich") | importing("cyclopts") <= CLI


def test_importing_loads_nothing_heavy() -> None:
    code = f"import lookalike, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


# Public names


@pytest.mark.parametrize("name", SOURCES)
def test_all_names_exist(name: str) -> None:
    module = importlib.import_module(
        ".".join(["lookalike", *Path(name).with_suffix("").parts]).removesuffix(".__init__")
    )
    names = getattr(module, "__all__", [])
    assert [public for public in names if not hasattr(module, public)] == []
    assert len(set(names)) == len(names)


def test_public_names_are_documented() -> None:
    documented = [getattr(la, name) for name in la.__all__ if name != "__version__"]
    assert [thing.__name__ for thing in documented if not (thing.__doc__ or "").strip()] == []
    for thing in filter(inspect.isclass, documented):
        for name, member in vars(thing).items():
            if name.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property | classmethod)):
                continue
            assert inspect.getdoc(getattr(thing, name)), f"{thing.__name__}.{name}"


def test_what_is_public_is_what_is_listed() -> None:
    """Names of the package that are not modules and not listed would be public by accident."""
    loose = {name for name, value in vars(la).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert loose <= set(la.__all__)


def test_every_file_says_what_it_is() -> None:
    assert [name for name, tree in TREES.items() if not ast.get_docstring(tree)] == []


# What the source does not do


def calls(name: str) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(TREES[name]) if isinstance(node, ast.Call)}


def test_only_the_command_line_prints() -> None:
    assert [name for name in SOURCES if "print" in calls(name)] == ["cli/terminal.py"]


def test_nothing_is_unpickled_and_paths_are_paths() -> None:
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert ast.unparse(node.value) == "False", name
            assert not (isinstance(node, ast.Attribute) and ast.unparse(node) == "os.path"), name
        assert not {"pickle", "os.path", "joblib", "shelve", "marshal"} & imports_of(name), name
        assert not {"eval", "exec"} & calls(name), name
        assert not {"np.load", "np.lib.format.read_array"} & calls(name), name  # npy.py refuses objects
