"""`lookalike evaluate`."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from lookalike.cli.errors import spelling
from lookalike.cli.galleries import open_shards
from lookalike.cli.options import DASK, JSON, PARTIALS, SIMILARITY, THREADS, UNLISTED
from lookalike.cli.outputs import Output
from lookalike.cli.terminal import print_json, progress, table, tables
from lookalike.core.endings import ITEMS, JUDGEMENT_FILES, JUDGEMENTS, TREC, either
from lookalike.core.errors import InputError
from lookalike.evaluation.evaluate import DEFAULT_METRICS

if TYPE_CHECKING:
    from collections.abc import Callable

    from lookalike import Evaluation
    from lookalike.evaluation.relevance import Relevance
    from lookalike.metrics.metric import Metric

LABEL_FILES = ", or pass a file of labels with --query-labels and --gallery-labels"
USUAL_METRICS = " ".join(DEFAULT_METRICS)

QUERIES = Annotated[Path | None, Parameter(help=f"codes or embeddings of the queries: {either(ITEMS)}")]
GALLERY = Annotated[
    str | None,
    Parameter(help="codes or embeddings of the gallery; or the folder or address of shards, as lookalike shard writes"),
]
METRICS = Annotated[str, Parameter(help="names, such as \"AP@1000 nDCG(gain='linear')@100 P(radius=2)\"")]
QUERY_LABELS = Annotated[Path | None, Parameter(help="labels of the queries, .npy or a text line each")]
GALLERY_LABELS = Annotated[Path | None, Parameter(help="labels of the gallery, likewise")]
RELEVANCE = Annotated[
    Literal["labels", "tags", "attributes"] | None,
    Parameter(help="what makes an item relevant; by default what the files have"),
]
RUN = Annotated[Path | None, Parameter(help="a TREC run file, in place of QUERIES and GALLERY; plain or .gz")]
QRELS = Annotated[
    Path | None, Parameter(help=f"the judgements of the run: {JUDGEMENT_FILES}; files of other names are of TREC")
]
TIES = Annotated[
    Literal["expected", "trec_eval"],
    Parameter(help="of a run: all orders of ties, or the one that trec_eval takes, to check old numbers"),
]
CURVE = Annotated[
    Path | None,
    Parameter(help="also write expected recall and precision by cutoff, of codes by radius too, to this .csv file"),
    Output(".csv"),
]
EXCLUDE_SELF = Annotated[bool, Parameter(help="a query's own id does not rank among its results")]
UNDEFINED = Annotated[
    Literal["zero", "one", "skip", "error"] | None, Parameter(help="what a query without a value counts")
]
UNJUDGED = Annotated[
    Literal["irrelevant", "condensed", "relevant", "error"] | None,
    Parameter(help="what an item that nobody judged counts"),
]
INTERVAL = Annotated[float | None, Parameter(help="show bootstrap intervals of this level, such as 0.95")]
OUTPUT = Annotated[Path | None, Parameter(help="also write everything, per query too, to this .json file"), Output()]

__all__ = ["evaluate"]


def evaluate(
    queries: QUERIES = None,
    gallery: GALLERY = None,
    /,
    *,
    metrics: METRICS = USUAL_METRICS,
    query_labels: QUERY_LABELS = None,
    gallery_labels: GALLERY_LABELS = None,
    relevance: RELEVANCE = None,
    run: RUN = None,
    qrels: QRELS = None,
    similarity: SIMILARITY = None,
    exclude_self: EXCLUDE_SELF = False,
    undefined: UNDEFINED = None,
    unjudged: UNJUDGED = None,
    unlisted: UNLISTED = "below",
    ties: TIES = "expected",
    interval: INTERVAL = None,
    threads: THREADS = None,
    dask: DASK = None,
    partials: PARTIALS = None,
    output: OUTPUT = None,
    curve: CURVE = None,
    as_json: JSON = False,
) -> None:
    """Evaluate codes or embeddings with labels, or a TREC run with judgements.

    Files hold `codes` (n, bits), or `packed` with `n_bits`, or `embeddings`; with `labels`, `attributes`, `ids`.

    Example: lookalike evaluate queries.npz gallery.npz --metrics "AP@1000 nDCG@100"

    Example: lookalike evaluate queries.npz s3://bucket/gallery --dask tcp://scheduler:8786 --partials s3://bucket/partials

    Example: lookalike evaluate --run search.run.gz --qrels judged.qrels --unjudged irrelevant
    """
    from lookalike.metrics.metric import parse_all
    from lookalike.shards.gallery import is_sharded

    names = parse_all(metrics)  # a misspelt name is told before any file is read
    if interval is not None and not 0 < interval < 1:
        raise InputError(f"--interval must be between 0 and 1, got {interval}")
    sharded = gallery is not None and is_sharded(gallery)
    if not sharded and (dask or partials):
        raise InputError("--dask and --partials are for a gallery in shards, which lookalike shard writes")
    asked = _Asked(queries, gallery, query_labels, gallery_labels, relevance, similarity, exclude_self)
    options: dict[str, Any] = {"undefined": undefined, "unjudged": unjudged}
    if run is not None or qrels is not None:
        search = partial(_evaluate_run, run, qrels, asked)
        options |= {"unlisted": unlisted, "ties": ties}
    else:
        _check_no_run(asked, unlisted, ties)
        search = partial(_evaluate_shards, asked, dask) if sharded else partial(_evaluate_files, asked)
        options |= {"threads": threads} | ({"partials": partials} if sharded else {})
    result = search(names, options)
    if output is not None:
        result.to_json(output)
    if curve is not None:
        _write_curve(curve, result, partial(search, options=options | {"undefined": "skip"}))
    tell = _print_scores if as_json else _show_scores
    tell(result, interval)


@dataclass(frozen=True)
class _Asked:
    """What is searched for what, as the options say it."""

    queries: Any
    gallery: Any
    query_labels: Path | None
    gallery_labels: Path | None
    relevance: str | None
    similarity: str | None
    exclude_self: bool

    @property
    def exclude(self) -> Literal["self"] | None:
        """What does not rank, as `la.evaluate` calls it."""
        return "self" if self.exclude_self else None


def _check_no_run(asked: _Asked, unlisted: str, ties: str) -> None:
    """Raise where neither files of vectors nor a run are passed, or an option of runs."""
    if asked.queries is None or asked.gallery is None:
        raise InputError("pass the files of the QUERIES and the GALLERY, or --run and --qrels")
    if (unlisted, ties) != ("below", "expected"):
        raise InputError("--unlisted and --ties are for runs, which list some items by name: pass --run and --qrels")


def _evaluate_run(
    run: Path | None, qrels: Path | None, asked: _Asked, names: "list[Metric]", options: dict[str, Any]
) -> "Evaluation":
    """Evaluate a TREC run by judgements."""
    import lookalike as la

    if run is None or qrels is None:
        raise InputError("--run and --qrels belong together: pass both files")
    own = (asked.queries, asked.query_labels, asked.gallery_labels, asked.relevance, asked.similarity)
    if any(own) or asked.exclude_self:
        raise InputError("pass either QUERIES and GALLERY, or --run and --qrels, which have their own ids and grades")
    with progress():
        return la.evaluate_run(la.read_run(run), _read_judged(qrels), names, **options)


def _read_judged(path: Path) -> "Relevance":
    """The judged pairs of a file; one whose name says nothing of its format is of TREC."""
    import lookalike as la
    from lookalike.discovery.formats import read_judgements

    ending = Path(path.name.removesuffix(".gz")).suffix
    if ending in JUDGEMENTS and ending not in TREC:
        return la.judged(read_judgements(path))
    return la.read_qrels(path)


def _write_curve(path: Path, result: "Evaluation", search: "Callable[[list[Metric]], Evaluation]") -> None:
    """Write recall and precision at cutoffs and radii, for which everything is searched once more."""
    from lookalike.core.csv_files import write_csv
    from lookalike.evaluation.curve_points import curve_metrics, curve_table

    write_csv(path, curve_table(search(curve_metrics(result))))


def _evaluate_shards(asked: _Asked, dask: str | None, names: "list[Metric]", options: dict[str, Any]) -> "Evaluation":
    """Evaluate queries in a gallery in shards, here or on a cluster."""
    import lookalike as la
    from lookalike.evaluation.item_files import read_items, relevance_to_shards

    if asked.gallery_labels is not None:
        raise InputError("shards have their own labels: give them to lookalike shard, in the file or by --table")
    query_items = read_items(asked.queries, asked.query_labels)
    with open_shards(asked.gallery, dask) as shards, progress():
        return la.evaluate(
            query_items.vectors,
            shards,
            relevance_to_shards(query_items, shards, asked.relevance),
            names,
            similarity=asked.similarity,
            query_ids=query_items.ids,
            gallery_ids=shards["ids"] if "ids" in shards.columns else None,
            exclude=asked.exclude,
            **options,
        )


def _evaluate_files(asked: _Asked, names: "list[Metric]", options: dict[str, Any]) -> "Evaluation":
    """Evaluate queries in a gallery that is one file."""
    import lookalike as la
    from lookalike.evaluation.item_files import read_items, relevance_between

    query_items, gallery_items = (
        read_items(asked.queries, asked.query_labels),
        read_items(asked.gallery, asked.gallery_labels),
    )
    with progress():
        return la.evaluate(
            query_items.vectors,
            gallery_items.vectors,
            relevance_between(query_items, gallery_items, asked.relevance, LABEL_FILES),
            names,
            similarity=asked.similarity,
            query_ids=query_items.ids,
            gallery_ids=gallery_items.ids,
            exclude=asked.exclude,
            **options,
        )


def _intervals(result: "Evaluation", level: float | None) -> "dict[Metric, tuple[float, float]]":
    """The bootstrap interval of each score; nothing where no level is asked for."""
    return {} if level is None else {metric: score.interval(level) for metric, score in result.scores.items()}


def _print_scores(result: "Evaluation", level: float | None) -> None:
    """Print everything as JSON."""
    saved = result.to_dict()
    for row, (low, high) in zip(saved["scores"], _intervals(result, level).values(), strict=False):
        row["interval"] = {"level": level, "low": low, "high": high}
    print_json(saved)


def _show_scores(result: "Evaluation", level: float | None) -> None:
    """Print a table with a row for each metric."""
    from lookalike.evaluation.results import shown

    intervals = _intervals(result, level)
    rows = table(("expected", "bold"), ("best", ""), ("worst", ""), ("undefined", ""), first="metric")
    if intervals:
        rows.add_column(f"{level:.0%} interval", justify="right", no_wrap=True)
    for metric, score in result.scores.items():
        cells = [metric.label, *map(shown, (score.mean, score.best, score.worst)), str(score.undefined)]
        if intervals:
            cells.append("{:.4f} – {:.4f}".format(*intervals[metric]))
        rows.add_row(*cells)
    console = tables()
    console.print(rows)
    bits = f", {result.about['bits']} bits" if "bits" in result.about else ""
    console.print(f"{len(result.query_ids):,} queries, {result.about['items']:,} items{bits}")
    for note in result.notes(spelling(evaluate)):
        console.print(note)
