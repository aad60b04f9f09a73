"""`lookalike evaluate`."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from lookalike.cli.engine import EngineOptions, evaluate_engine
from lookalike.cli.errors import spelling
from lookalike.cli.galleries import open_shards
from lookalike.cli.items import is_gallery, open_items
from lookalike.cli.options import (
    DASK,
    FLAT,
    FORMAT,
    JSON,
    PARTIALS,
    SIMILARITY,
    THREADS,
    UNLISTED,
    ZERO,
    RankedOptions,
    chosen_format,
)
from lookalike.cli.outputs import Output
from lookalike.cli.terminal import each_note_once, progress, rich_table, tables, tell
from lookalike.core.endings import ITEMS, JUDGEMENT_FILES, JUDGEMENTS, TREC
from lookalike.core.errors import InputError
from lookalike.evaluation.default_metrics import DEFAULT_METRICS

if TYPE_CHECKING:
    from lookalike import Evaluation
    from lookalike.core.readers.source import Columns
    from lookalike.core.tables.table import ResultTable
    from lookalike.evaluation.item_files import Items
    from lookalike.evaluation.relevance import Relevance
    from lookalike.metrics.metric import Metric
    from lookalike.shards.gallery import Shards

LABEL_FILES = ", or pass a file of labels with --query-labels and --gallery-labels"
USUAL_METRICS = " ".join(DEFAULT_METRICS)
OF_RUNS = {"unlisted": "below", "ties": "expected"}  # options of runs alone, as they are unless they are given

QUERIES = Annotated[str | None, Parameter(help=f"codes or embeddings of the queries: {ITEMS}")]
GALLERY = Annotated[
    str | None,
    Parameter(
        help="codes or embeddings of the gallery; or the folder or address of shards, as lookalike shard writes; "
        "without it, each query is searched among all others"
    ),
]
METRICS = Annotated[str, Parameter(help="names, such as \"AP@1000 nDCG(gain='linear')@100 P(radius=2)\"")]
QUERY_LABELS = Annotated[
    str | None,
    Parameter(help="labels of the queries: .npy, a text line each, or a table of any kind with ids and labels"),
]
GALLERY_LABELS = Annotated[str | None, Parameter(help="labels of the gallery, likewise")]
COLUMNS = Annotated[RankedOptions, FLAT]
RELEVANCE = Annotated[
    str | None,
    Parameter(
        help="what makes an item relevant, labels, tags or attributes; by default what the files have; or one for each "
        'metric, such as "AP:labels nDCG:attributes"'
    ),
]
LABELS = Annotated[
    Literal["fine", "coarse"] | None,
    Parameter(help="which labels count, where files have both: labels (fine), or coarse_labels (coarse)"),
]
RUN = Annotated[Path | None, Parameter(help="a TREC run file, in place of QUERIES and GALLERY; plain or .gz")]
QRELS = Annotated[
    Path | None, Parameter(help=f"the judgements of the run: {JUDGEMENT_FILES}; files of other names are of TREC")
]
TIES = Annotated[
    Literal["expected", "trec_eval"],
    Parameter(help="for a run: all orders of ties, or the one that trec_eval takes, to check old numbers"),
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

logger = logging.getLogger("lookalike")

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
    labels: LABELS = None,
    run: RUN = None,
    qrels: QRELS = None,
    similarity: SIMILARITY = None,
    exclude_self: EXCLUDE_SELF = False,
    columns: COLUMNS = RankedOptions(),  # noqa: B008
    zero: ZERO = None,
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
    engine: EngineOptions | None = None,
    as_json: JSON = False,
    form: FORMAT = None,
) -> None:
    """Evaluate codes or embeddings with labels, or a TREC run with judgements.

    Files hold `codes` (n, bits), or `packed` with `n_bits`, or `embeddings`; with `labels`, `attributes`, `ids`.

    Example: lookalike evaluate queries.npz gallery.npz --metrics "AP@1000 nDCG@100"

    Example: lookalike evaluate items.npz --metrics "AP nDCG" --relevance "AP:labels nDCG:attributes"

    Example: lookalike evaluate queries.npz s3://bucket/gallery --dask tcp://scheduler:8786 --partials s3://bucket/partials

    Example: lookalike evaluate queries.parquet gallery.parquet --vector emb --label class --id image_id --group product

    Example: lookalike evaluate --run search.run.gz --qrels judged.qrels --unjudged irrelevant
    """
    from lookalike.evaluation.relevance_by_metric import metrics_by_kind
    from lookalike.metrics.metric import parse_all

    names = parse_all(metrics)  # a misspelt name is told before any file is read
    label_files, kinds, named = (query_labels, gallery_labels), metrics_by_kind(relevance, names), columns.columns
    _check_options(interval, curve, len(kinds), exclude_self and columns.group is not None)
    policies: dict[str, Any] = {"undefined": undefined, "unjudged": unjudged}
    asked = _Asked(queries, gallery, label_files, names, kinds, policies, similarity, exclude_self, zero, labels, named)
    of_runs, of_vectors = {"unlisted": unlisted, "ties": ties}, {"threads": threads, "partials": partials}
    if engine is not None:
        unfit = any((gallery, run, qrels, curve, interval, dask, partials, columns.group, of_runs != OF_RUNS))
        return evaluate_engine(engine, asked, output, unfit, threads, chosen_format(form, as_json))
    search = _search_of(asked, (run, qrels), of_runs, of_vectors, dask)
    result = search(asked)
    _write(result, asked, search, output, curve)
    return _tell_scores(result, interval, chosen_format(form, as_json))


def _write(
    result: "Evaluation",
    asked: "_Asked",
    search: "Callable[[_Asked], Evaluation]",
    output: Path | None,
    curve: Path | None,
) -> None:
    """Write the files that were asked for."""
    if output is not None:
        result.to_json(output)
    if curve is not None:
        _write_curve(curve, result, asked, search)


def _check_options(interval: float | None, curve: Path | None, n_kinds: int, excludes_twice: bool) -> None:
    """Raise for options that cannot be met, before anything is read or written. n_kinds: of relevance."""
    if excludes_twice:
        raise InputError("--exclude-self and --group both say what does not rank: pass one of them")
    if interval is not None and not 0 < interval < 1:
        raise InputError(f"--interval must be between 0 and 1, got {interval}")
    if curve is not None and n_kinds > 1:
        raise InputError("--curve is for one kind of relevance: pass one --relevance for all metrics")


@dataclass(frozen=True)
class _Asked:
    """What is searched for what, as the options say it."""

    queries: Any
    gallery: Any
    labels: tuple[str | None, str | None]
    metrics: "list[Metric]"
    by_kind: "dict[str | None, list[Metric]]"  # the metrics of each kind of relevance
    policies: dict[str, Any]  # what undefined queries and unjudged items count
    similarity: str | None
    exclude_self: bool
    zero: str | None
    level: str | None  # of the labels: "fine", "coarse", or as the files have them
    columns: "Columns"

    @property
    def in_shards(self) -> bool:
        """Whether the gallery is one that `lookalike shard` wrote."""
        return self.gallery is not None and is_gallery(self.gallery)

    def read(self, side: int) -> "Items":
        """The items of the queries (0) or of the gallery (1)."""
        location, labels = (self.queries, self.gallery)[side], self.labels[side]
        columns = self.columns if side == 0 else replace(self.columns, by=None)
        return open_items(location, columns, labels, zero=self.zero).at_level(self.level)


def _search_of(
    asked: _Asked,
    run: tuple[Path | None, Path | None],
    of_runs: Mapping[str, str],
    options: dict[str, Any],
    dask: str | None,
) -> "Callable[[_Asked], Evaluation]":
    """How a run or files of vectors are evaluated. of_runs: options that only runs have; raises where unfit."""
    if run != (None, None):
        return partial(_evaluate_run, *run, dict(of_runs))
    if asked.queries is None:
        raise InputError("pass the files of the QUERIES and the GALLERY, or --run and --qrels")
    if of_runs != OF_RUNS:
        raise InputError("--unlisted and --ties are for runs, which list some items by name: pass --run and --qrels")
    if asked.in_shards:
        return partial(_evaluate_shards, dask, options)
    if dask or options.pop("partials"):
        raise InputError("--dask and --partials are for a gallery in shards, which lookalike shard writes")
    return partial(_evaluate_alone if asked.gallery is None else _evaluate_files, options)


def _evaluate_run(run: Path | None, qrels: Path | None, options: Mapping[str, Any], asked: _Asked) -> "Evaluation":
    """Evaluate a TREC run by judgements."""
    import lookalike as la

    if run is None or qrels is None:
        raise InputError("--run and --qrels belong together: pass both files")
    own = (asked.queries, *asked.labels, *asked.by_kind, asked.similarity, asked.zero, asked.level, asked.columns.named)
    if any(own) or asked.exclude_self:
        raise InputError("pass either QUERIES and GALLERY, or --run and --qrels, which have their own ids and grades")
    with progress():
        return la.evaluate_run(la.read_run(run), _read_judged(qrels), asked.metrics, **asked.policies, **options)


def _read_judged(path: Path) -> "Relevance":
    """The judged pairs of a file; one whose name says nothing of its format is of TREC."""
    import lookalike as la
    from lookalike.discovery.formats import read_judgements

    ending = Path(path.name.removesuffix(".gz")).suffix
    if ending in JUDGEMENTS and ending not in TREC:
        return la.judged(read_judgements(path))
    return la.read_qrels(path)


def _write_curve(path: Path, result: "Evaluation", asked: _Asked, search: "Callable[[_Asked], Evaluation]") -> None:
    """Write recall and precision at cutoffs and radii, for which everything is searched once more."""
    from lookalike.core.csv_files import write_csv
    from lookalike.evaluation.curve_points import curve_metrics, curve_table

    metrics = curve_metrics(result)
    by_kind = dict.fromkeys(asked.by_kind, metrics)
    policies = asked.policies | {"undefined": "skip"}
    write_csv(path, curve_table(search(replace(asked, metrics=metrics, by_kind=by_kind, policies=policies))))


def _evaluate_shards(dask: str | None, options: dict[str, Any], asked: _Asked) -> "Evaluation":
    """Evaluate queries in a gallery in shards, here or on a cluster."""
    from lookalike.evaluation.item_files import relevance_to_shards

    if asked.labels[1] is not None:
        raise InputError("shards have their own labels: give them to lookalike shard, in the file or by --table")
    query_items = asked.read(0)
    with each_note_once(), open_shards(asked.gallery, dask) as shards, progress():
        result = _of_each_kind(
            asked,
            lambda kind: relevance_to_shards(query_items, shards, kind, asked.level),
            query_items.vectors,
            shards,
            similarity=asked.similarity,
            query_ids=query_items.ids,
            gallery_ids=shards["ids"] if "ids" in shards.columns else None,
            exclude=_exclude(asked, query_items, shards),
            by=query_items.by,
            **asked.policies,
            **options,
        )
    return _with_notes(result, asked, query_items)


def _evaluate_alone(options: dict[str, Any], asked: _Asked) -> "Evaluation":
    """Evaluate each item of a file as a query among all others, and say so."""
    if is_gallery(asked.queries):
        raise InputError(f"pass the file of the QUERIES too: {asked.queries} is a gallery in shards, or a folder")
    labels = asked.labels[0] or asked.labels[1]
    among_others = replace(asked, gallery=asked.queries, labels=(labels, labels), exclude_self=True)
    result = _evaluate_files(options, among_others)
    note = f"{asked.queries} is given alone: each item is searched for among all others (leave-one-out)"
    logger.warning("%s", note)
    return result.with_notes(note)


def _evaluate_files(options: dict[str, Any], asked: _Asked) -> "Evaluation":
    """Evaluate queries in a gallery that is one file."""
    from lookalike.evaluation.item_files import alike, relevance_between

    with each_note_once(), progress():
        query_items, gallery_items = asked.read(0), asked.read(1)
        query_ids, gallery_ids = query_items.ids, gallery_items.ids
        if query_ids is not None and gallery_ids is not None:
            query_ids, gallery_ids = alike(query_ids, gallery_ids)  # of a CSV file they are text
        result = _of_each_kind(
            asked,
            lambda kind: relevance_between(query_items, gallery_items, kind, LABEL_FILES),
            query_items.vectors,
            gallery_items.vectors,
            similarity=asked.similarity,
            query_ids=query_ids,
            gallery_ids=gallery_ids,
            exclude=_exclude(asked, query_items, gallery_items),
            by=query_items.by,
            **asked.policies,
            **options,
        )
    return _with_notes(result, asked, query_items, gallery_items)


def _exclude(asked: _Asked, queries: "Items", gallery: "Items | Shards") -> Any:
    """What does not rank, as `la.evaluate` takes it: an item of the query's own group, or with the query's own id."""
    from lookalike.evaluation.item_files import Items, alike, check_own_ids

    name = asked.columns.group
    if name is None and asked.exclude_self:
        check_own_ids(queries, gallery)
    if name is None:
        return "self" if asked.exclude_self else None
    if isinstance(gallery, Items) and queries.groups is not None and gallery.groups is not None:
        return alike(queries.groups, gallery.groups)
    if isinstance(gallery, Items):
        raise InputError(f"queries and gallery must both have the groups of column {name!r}")
    column = name if name in gallery.columns else "groups"
    if column not in gallery.columns:
        raise InputError(f"{gallery.location} has no column {name!r}: it has {', '.join(gallery.columns)}")
    return queries.groups, gallery[column]


def _with_notes(result: "Evaluation", asked: _Asked, *items: "Items") -> "Evaluation":
    """The result, which says what was assumed, and which items do not rank."""
    notes = [note for each in items for note in each.notes]
    if asked.columns.group is not None:
        note = f"items of the query's own group do not rank, by column {asked.columns.group!r}"
        logger.warning("%s", note)
        notes.append(note)
    return result.with_notes(*notes)


def _of_each_kind(
    asked: _Asked, relevance: "Callable[[str | None], Relevance]", queries: Any, gallery: Any, **options: Any
) -> "Evaluation":
    """Evaluate the metrics of each kind of relevance, and join them in the order in which they were asked for."""
    import lookalike as la

    results = []
    for kind, metrics in asked.by_kind.items():
        relevant = relevance(kind)
        if asked.level == "coarse" and relevant.kind == "labels":
            relevant.kind = "coarse labels"
        results.append(la.evaluate(queries, gallery, relevant, metrics, **options))
    joined = la.Evaluation.joined(*results)
    return replace(joined, scores={metric: joined.scores[metric] for metric in asked.metrics})


def _intervals(result: "Evaluation", level: float | None) -> "dict[Metric, tuple[float, float]]":
    """The bootstrap interval of each score; nothing where no level is asked for."""
    return {} if level is None else {metric: score.interval(level) for metric, score in result.scores.items()}


def _tell_scores(result: "Evaluation", level: float | None, printed: str) -> None:
    """Print the scores in the form that was asked for."""
    scores = _scores_table(result, level)
    every = [scores] if result.by_group is None else [scores, result.by_group.to_table()]
    tell(printed, lambda: _scores_facts(result, level), lambda: every, lambda: _show_scores(result, scores))


def _scores_facts(result: "Evaluation", level: float | None) -> dict[str, Any]:
    """Everything, for JSON."""
    saved = result.to_dict()
    for row, (low, high) in zip(saved["scores"], _intervals(result, level).values(), strict=False):
        row["interval"] = {"level": level, "low": low, "high": high}
    return saved


def _scores_table(result: "Evaluation", level: float | None) -> "ResultTable":
    """A row for each metric, with its bootstrap interval where one is asked for."""
    from lookalike.core.tables.table import TableCell, TableHead, ValueRange

    intervals = [
        TableCell(ValueRange(*ends), "{:.4f} – {:.4f}".format(*ends)) for ends in _intervals(result, level).values()
    ]
    rows = result.to_table()
    return rows.with_column(TableHead(f"{level:.0%} interval"), intervals) if intervals else rows


def _show_scores(result: "Evaluation", rows: "ResultTable") -> None:
    """Print a table with a row for each metric, and how they were counted."""
    console = tables()
    console.print(rich_table(rows))
    if result.by_group is not None:
        console.print(f"\n{result.by_group}\n")
    console.print(result.basis)
    for sentence in result.conventions(spelling(evaluate)):
        console.print(sentence)
