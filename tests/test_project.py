"""How the library is built: what imports what, what importing it costs, what is public and documented."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
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
    assert {"evaluation/sources.py", "experiments/trials.py"} <= importing("lookalike.core.codes")
    assert "pyarrow" in imports_of("core/arrow_arrays.py")  # inside a function
    assert "lookalike.evaluation.tally" not in imports_of("metrics/metric.py")  # for type checkers alone
    assert len(SOURCES) > 20


# Rooms

LEVELS = [
    {"core"},
    {"metrics", "shards", "datasets", "hashers"},
    {"evaluation", "encoders", "search"},
    {"learning", "discovery"},
    {"experiments", "study", "integrations"},
    {"web", "report"},
    {"judging"},
    {"cli"},
]


def forbidden(name: str, modules: set[str]) -> set[str]:
    """Of the modules that a file imports, those in rooms that are neither its own nor of a lower level."""
    room = name.split("/")[0]
    level = next(number for number, rooms in enumerate(LEVELS) if room in rooms)
    allowed = {room}.union(*LEVELS[:level])
    return {module for module in modules if module.startswith("lookalike.") and module.split(".")[1] not in allowed}


@pytest.mark.parametrize("name", [name for name in SOURCES if "/" in name])
def test_a_room_imports_rooms_of_lower_levels(name: str) -> None:
    assert forbidden(name, imports_of(name)) == set()


def test_every_module_of_ours_that_is_imported_is_there() -> None:
    """An old folder with compiled files would pass for a package, so that not even mypy would see it."""
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in SOURCES}
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lookalike."):
                assert (node.module or "").removeprefix("lookalike.") in modules, name


def test_what_is_not_allowed_is_forbidden() -> None:
    assert forbidden("core/codes.py", {"lookalike.metrics.metric"})
    assert forbidden("metrics/dcg.py", {"lookalike.shards.gallery"})  # of the same level
    assert forbidden("evaluation/tally.py", {"lookalike.cli"})
    assert forbidden("evaluation/tally.py", {"lookalike.Codes"})  # by the root, which would hide whose it is
    assert not forbidden("evaluation/tally.py", {"lookalike.evaluation.trec", "lookalike.core.codes", "numpy"})


def test_the_root_holds_rooms_alone() -> None:
    assert {path.name for path in ROOT.iterdir() if path.name != "__pycache__"} == {
        *("__init__.py", "__main__.py", "py.typed"), *set().union(*LEVELS)
    }  # fmt: skip


# Sizes


def test_files_are_one_idea_long() -> None:
    assert {name: source.count("\n") for name, source in SOURCES.items() if source.count("\n") > 450} == {}
    tests = Path(__file__).parent.rglob("*.py")
    assert {path.name: n for path in tests if (n := path.read_text(encoding="utf-8").count("\n")) > 600} == {}


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function of the package, with its file."""
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield name, node


def test_functions_fit_on_a_screen() -> None:
    lengths = {f"{name}:{node.name}": (node.end_lineno or 0) - node.lineno + 1 for name, node in functions()}
    assert {name: length for name, length in lengths.items() if length > 60} == {}


MANY_PARAMETERS = {  # public functions, where each is an option of the user's; and loops, which take arrays alone
    *("learning/hasher.py:__init__", "search/index.py:build"),
    *(f"hashers/{name}.py:__init__" for name in ("dgh", "mlh", "sdh")),
    *("learning/losses/pairs.py:dispersed_dsh_hierarchy", "learning/losses/ranking.py:tie_aware_dcg"),
    *(f"evaluation/evaluate.py:{name}" for name in ("evaluate", "evaluate_scores", "evaluate_run")),
    *("evaluation/count.py:count", "evaluation/count.py:count_scores", "evaluation/audit/audit.py:audit"),
    *("evaluation/item_files.py:read_items", "search/answers.py:recall_of"),
    *("discovery/leaderboard.py:leaderboard", "discovery/contest.py:__init__", "discovery/prevalence.py:prevalence"),
    *("study/study.py:add_model", "study/encode.py:encode_folder", "study/survey/__init__.py:survey"),
    *("report/leaderboard/__init__.py:write_leaderboard", "integrations/retrieval_metric.py:update"),
    *("core/kernels/metric_sums.py:precision_sums", "core/kernels/one_query.py:average_precision_at_cut"),
    *(
        f"core/kernels/bit_planes.py:{name}"
        for name in ("add", "slice_bits", "scan_planes", "_add_planes", "_histogram")
    ),
    *("core/kernels/product.py:step", "core/kernels/scores.py:merge_groups", "core/kernels/scores.py:around"),
    *("core/kernels/buckets.py:around_few", "core/kernels/buckets.py:standing_few"),
    *("core/kernels/hashing.py:_gaussians", "core/kernels/hashing.py:_nearest_gaussians"),
    "metrics/average_precision.py:at_cut",  # the plain twin of a loop
}


def test_below_public_functions_no_function_takes_more_than_seven_values() -> None:
    def n_parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        return len([argument for argument in arguments if argument.arg not in ("self", "cls")])

    long = {f"{name}:{node.name}" for name, node in functions() if n_parameters(node) > 7}
    commands = {name for name in long if name.startswith("cli/") and ":_" not in name}
    assert long - commands == MANY_PARAMETERS


def test_a_class_name_occurs_once() -> None:
    names = Counter(node.name for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert [name for name, n in names.items() if n > 1] == []


def test_compiled_loops_are_loaded_in_one_place() -> None:
    files = ("scan", "bit_planes", "tables", "scores", "buckets", "metric_sums", "product", "directions", "hashing")
    loops = {f"core/kernels/{name}.py" for name in (*files, "line_search", "losses", "pairs", "places", "tie_orders")}
    assert importing("numba") == loops | {"core/kernels/arrays.py", "core/kernels/loop.py"}
    assert importing("lookalike.core.kernels.arrays") <= loops
    for file in loops:
        module = f"lookalike.core.kernels.{Path(file).stem}"
        assert {name for name, source in SOURCES.items() if f'"{module}"' in source} == {"core/kernels/__init__.py"}
        assert not importing(module)


def test_torch_is_for_learning_encoders_and_integrations() -> None:
    assert importing("torch")
    assert {name.split("/")[0] for name in importing("torch")} == {"learning", "encoders", "integrations"}
    assert not any('import_module("torch' in source for source in SOURCES.values())


def test_dask_is_for_clusters() -> None:
    assert importing("distributed") == {"shards/dask.py"}


def test_faiss_is_loaded_in_one_place() -> None:
    assert not importing("faiss")
    assert {name for name, source in SOURCES.items() if 'import_module("faiss")' in source} == {"search/spaces.py"}


def test_terminals_are_the_business_of_the_command_line() -> None:
    assert {name.split("/")[0] for name in importing("rich") | importing("cyclopts")} == {"cli"}


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


def test_help_is_shown_without_numpy() -> None:
    code = "import sys; from lookalike.cli import main\ntry: main(['--help'])\nfinally: print('numpy' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "evaluate" in shown.stdout
    assert shown.stdout.splitlines()[-1] == "False"
