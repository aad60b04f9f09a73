"""The command line: `lookalike evaluate`, `lookalike demo`."""

import contextlib
import json
import logging
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from lookalike._version import __version__
from lookalike.evaluation import DEFAULT_METRICS
from lookalike.files import check_target
from lookalike.progress import reporting

app = App(
    name="lookalike",
    help="How good a visual search really is: exact, tie-aware evaluation of hash codes and embeddings.",
    help_format="plaintext",
    version=__version__,
    default_parameter=Parameter(negative=()),
)

JSON = Annotated[bool, Parameter(name="--json", help="print the result as JSON")]


@app.command
def evaluate(
    queries: Annotated[
        Path | None, Parameter(help="codes or embeddings of the queries: .npz, .npy or .parquet")
    ] = None,
    gallery: Annotated[Path | None, Parameter(help="codes or embeddings of the gallery")] = None,
    /,
    *,
    metrics: Annotated[
        str, Parameter(help="names, such as \"AP@1000 nDCG(gain='linear')@100 P(radius=2)\"")
    ] = " ".join(DEFAULT_METRICS),
    query_labels: Annotated[Path | None, Parameter(help="labels of the queries, .npy or a text line each")] = None,
    gallery_labels: Annotated[Path | None, Parameter(help="labels of the gallery, likewise")] = None,
    relevance: Annotated[
        Literal["labels", "tags", "attributes"] | None,
        Parameter(help="what makes an item relevant; by default what the files have"),
    ] = None,
    run: Annotated[
        Path | None, Parameter(help="a TREC run file, in place of QUERIES and GALLERY; plain or .gz")
    ] = None,
    qrels: Annotated[Path | None, Parameter(help="the TREC judgements of the run")] = None,
    similarity: Annotated[
        Literal["cosine", "dot", "euclidean"] | None,
        Parameter(help="how embeddings are compared (cosine)"),
    ] = None,
    exclude_self: Annotated[bool, Parameter(help="a query's own id does not rank among its results")] = False,
    undefined: Annotated[
        Literal["zero", "skip", "error"] | None, Parameter(help="what a query without a value counts")
    ] = None,
    unjudged: Annotated[
        Literal["irrelevant", "condensed", "error"] | None, Parameter(help="what an item that nobody judged counts")
    ] = None,
    interval: Annotated[float | None, Parameter(help="show bootstrap intervals of this level, such as 0.95")] = None,
    threads: Annotated[int | None, Parameter(help="how many threads to use; all cores by default")] = None,
    output: Annotated[Path | None, Parameter(help="also write everything, per query too, to this .json file")] = None,
    as_json: JSON = False,
) -> None:
    """Evaluate codes or embeddings with labels, or a TREC run with its judgements.

    Files hold `codes` (n, bits), or `packed` with `n_bits`, or `embeddings`; with `labels`, `attributes`, `ids`.

    Example: lookalike evaluate queries.npz gallery.npz --metrics "AP@1000 nDCG@100"

    Example: lookalike evaluate --run search.run.gz --qrels judged.qrels --unjudged irrelevant
    """
    import lookalike as la
    from lookalike.items import read_items, relevance_between
    from lookalike.metrics.names import parse_all

    names = parse_all(metrics)  # a misspelt name is told before any file is read
    if interval is not None and not 0 < interval < 1:
        raise ValueError(f"--interval must be between 0 and 1, got {interval}")
    if output is not None:
        check_target(output)
    options: dict[str, Any] = {"undefined": undefined, "unjudged": unjudged}
    if run is not None or qrels is not None:
        if run is None or qrels is None:
            raise ValueError("--run and --qrels belong together: pass both files")
        if any((queries, query_labels, gallery_labels, relevance, similarity, exclude_self)):
            raise ValueError(
                "pass either QUERIES and GALLERY, or --run and --qrels, which have their own ids and grades"
            )
        with _progress():
            result = la.evaluate_run(la.read_run(run), la.read_qrels(qrels), names, **options)
    else:
        if queries is None or gallery is None:
            raise ValueError("pass the files of the QUERIES and the GALLERY, or --run and --qrels")
        q, g = read_items(queries, query_labels), read_items(gallery, gallery_labels)
        with _progress():
            result = la.evaluate(
                q.vectors,
                g.vectors,
                relevance_between(q, g, relevance),
                names,
                similarity=similarity,
                query_ids=q.ids,
                gallery_ids=g.ids,
                exclude="self" if exclude_self else None,
                threads=threads,
                **options,
            )
    if output is not None:
        result.to_json(output)
    _show(result, interval, as_json)


@app.command
def demo(*, as_json: JSON = False) -> None:
    """See in ten seconds what ties and denominators do to a number, on data that comes with the install.

    Example: lookalike demo
    """
    from lookalike.demo import DENOMINATORS, run_demo

    found = run_demo()
    if as_json:
        _print_json({"rows": found.rows, "seconds": found.seconds})
        return
    say, console = _prose().print, _console()
    say(
        f"Handwritten digits, {found.n_queries} queries × {found.n_items:,} items; codes are signs of random "
        "projections. mAP of the very same codes:\n"
    )
    table = _table(("bits", ""), ("expected", "bold"), ("best", ""), ("worst", ""), ("argsort", "cyan"))
    table.add_column("argsort, gallery\nstored by class", justify="right", style="cyan")
    for row in found.rows:
        values = [row[name] for name in ("expected", "best", "worst", "argsort", "argsort_by_class")]
        table.add_row(str(row["bits"]), *(f"{value:.4f}" for value in values))
    console.print(table)
    say(
        "\nItems at one distance are tied, and an argsort puts them in whatever order the gallery has: its number is "
        "one of all between worst and best, and moves when the gallery is stored in another order. Expected is the "
        "exact mean over every order.\n\n"
        "Papers divide AP@100 by the relevant items retrieved, by at most 100, or by all there are:\n"
    )
    table = _table(("bits", ""), *((f"AP(norm={norm!r})@100", "") for norm in DENOMINATORS))
    for row in found.rows[2::3]:
        table.add_row(str(row["bits"]), *(f"{row[f'at_100_{norm}']:.4f}" for norm in DENOMINATORS))
    console.print(table)
    say(f"\nAll {len(found.rows)} evaluations took {found.seconds * 1000:.0f} ms. Now with your own codes:\n")
    console.print('  lookalike evaluate queries.npz gallery.npz --metrics "AP@1000 nDCG@100"')


def main(arguments: list[str] | None = None) -> None:
    """Run a command; bad input ends with one sentence and exit code 2."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    try:
        app(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        _fail(f"{str(error).strip()} (see lookalike --help)")
    except (ValueError, TypeError, ArithmeticError, OSError) as error:
        _fail(f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.filename else str(error))
    except MemoryError:
        _fail("there is not enough memory for this gallery")
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(sentence: str) -> None:
    sentence = re.sub(r"(unjudged|undefined|similarity)='(\w+)'", r"--\1 \2", " ".join(sentence.split()))
    sentence = sentence.replace("exclude='self' needs query_ids and gallery_ids", "--exclude-self needs ids in both")
    print(f"lookalike: {sentence}", file=sys.stderr)  # noqa: T201  # the one line a user reads
    sys.exit(2)


def _show(result: Any, interval: float | None, as_json: bool) -> None:
    from lookalike.results import shown

    intervals = {m: s.interval(interval) for m, s in result.scores.items()} if interval is not None else {}
    if as_json:
        saved = result.to_dict()
        for row, bounds in zip(saved["scores"], intervals.values(), strict=False):
            row["interval"] = {"level": interval, "low": bounds[0], "high": bounds[1]}
        _print_json(saved)
        return
    table = _table(("expected", "bold"), ("best", ""), ("worst", ""), ("undefined", ""), first="metric")
    if intervals:
        table.add_column(f"{interval:.0%} interval", justify="right", no_wrap=True)
    for metric, score in result.scores.items():
        cells = [metric.label, *map(shown, (score.mean, score.best, score.worst)), str(score.undefined)]
        if intervals:
            cells.append("{:.4f} – {:.4f}".format(*intervals[metric]))
        table.add_row(*cells)
    console = _console()
    console.print(table)
    bits = f", {result.about['bits']} bits" if "bits" in result.about else ""
    console.print(f"{len(result.query_ids):,} queries, {result.about['items']:,} items{bits}")


def _print_json(value: Any) -> None:
    from lookalike.results import without_nan

    print(json.dumps(without_nan(value), indent=1, allow_nan=False))  # noqa: T201  # for other programs to read


def _table(*columns: tuple[str, str], first: str | None = None) -> Table:
    """A plain table with columns of numbers, behind a first one of names."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    if first is not None:
        table.add_column(first, no_wrap=True)
    for name, style in columns:
        table.add_column(name, justify="right", style=style, no_wrap=True)
    return table


def _console() -> Console:
    """Standard output for tables, as wide as they need to be."""
    return Console(highlight=False, width=max(Console().width, 160), soft_wrap=True)


def _prose() -> Console:
    """Standard output for sentences, wrapped."""
    return Console(highlight=False, width=min(Console().width, 80))


@contextlib.contextmanager
def _progress() -> Iterator[None]:
    """A bar on a terminal, elsewhere a plain line every ten seconds."""
    console = Console(stderr=True)
    if not console.is_terminal:
        last = time.monotonic()

        def line(what: str, done: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last > 10:
                last = time.monotonic()
                print(f"{what}: {done} of {total}", file=sys.stderr)  # noqa: T201

        with reporting(line):
            yield
        return
    with Progress(console=console, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done)

        with reporting(show):
            yield
