"""`lookalike compare`."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from lookalike.cli.options import FORMAT, JSON, SEED, chosen_format
from lookalike.cli.outputs import Output
from lookalike.cli.terminal import rich_table, tables, tell
from lookalike.core.errors import InputError

if TYPE_CHECKING:
    from lookalike.evaluation.compare import Comparison
    from lookalike.evaluation.results import Evaluation

RESULTS = Annotated[
    tuple[str, ...],
    Parameter(help="saved results, FILE or NAME=FILE, as lookalike evaluate --output writes them; two or more"),
]
METRIC = Annotated[
    str | None, Parameter(name="--metric", help="which to compare; by default all that every result has")
]
LEVEL = Annotated[float, Parameter(help="of the intervals; a p-value below 1 - level counts as a difference")]
BASELINE = Annotated[str | None, Parameter(help="compare each other result with this one, not every pair")]
RESAMPLES = Annotated[int, Parameter(help="of the randomisation test; the smallest p-value is about 1 over it")]
OUTPUT = Annotated[Path | None, Parameter(help="also write everything to this .json file"), Output(".json")]

__all__ = ["compare"]


def compare(
    results: RESULTS = (),
    /,
    *,
    metric: METRIC = None,
    level: LEVEL = 0.95,
    baseline: BASELINE = None,
    resamples: RESAMPLES = 9999,
    output: OUTPUT = None,
    seed: SEED = 0,
    as_json: JSON = False,
    form: FORMAT = None,
) -> None:
    """Compare saved results of the same queries: paired differences, intervals, and p-values with Holm's correction.

    Results of other queries, galleries of another size, and other rules of counting are refused. Where labels or
    judgements differ, a warning says so.

    Example: lookalike compare itq.json lsh.json

    Example: lookalike compare ITQ=runs/1.json LSH=runs/2.json --metric AP@1000 --format latex > table.tex
    """
    from lookalike.core.checks import whole_number
    from lookalike.core.figures import without_nan
    from lookalike.core.files import write_text
    from lookalike.evaluation.compare import compare as compare_evaluations

    printed = chosen_format(form, as_json)
    whole_number("resamples", resamples)
    compared = compare_evaluations(
        _read(results), metrics=metric, baseline=baseline, level=level, random_state=seed, resamples=resamples
    )
    if output is not None:
        write_text(output, json.dumps(without_nan(_facts(compared)), indent=1, allow_nan=False) + "\n")
    both = [compared.to_table(pairs=True), compared.to_table(significance=True)]

    def show() -> None:
        for table in both:
            tables().print(rich_table(table))
            tables().print()
        for sentence in both[1].legend:
            tables().print(sentence)

    tell(printed, lambda: _facts(compared), lambda: both, show)


def _facts(compared: "Comparison") -> dict[str, Any]:
    """Everything, for other programs."""
    from lookalike.core.files import provenance

    systems = {
        name: [row for row, metric in zip(e.rows(), e, strict=True) if metric in compared.metrics]
        for name, e in compared.evaluations.items()
    }
    facts = {"level": compared.level, "baseline": compared.baseline, "notes": list(compared.notes)}
    return provenance("comparison", **facts, systems=systems, differences=compared.rows())


def _read(texts: tuple[str, ...]) -> "dict[str, Evaluation]":
    """Saved results by name: FILE is named by its own name, NAME=FILE by the name before the sign."""
    from lookalike.evaluation.results import Evaluation

    if len(texts) < 2:
        raise InputError(f"comparing takes two saved results or more, got {len(texts)}")
    named = [_named(text) for text in texts]
    twice = next((name for name, times in Counter(name for name, _ in named).items() if times > 1), None)
    if twice is not None:
        raise InputError(f"two results are named {twice!r}: write NAME=FILE for one of them")
    for _, path in named:
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
    return {name: Evaluation.from_json(path) for name, path in named}


def _named(text: str) -> tuple[str, Path]:
    """A name and a file."""
    name, equals, path = text.partition("=")
    if not equals or Path(text).is_file():
        return Path(text).stem, Path(text)
    if not name or not path:
        raise InputError(f"a saved result is given as FILE or NAME=FILE, got {text!r}")
    return name, Path(path)
