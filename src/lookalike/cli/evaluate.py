"""`lookalike evaluate`."""

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from lookalike.cli.galleries import open_shards
from lookalike.cli.options import DASK, JSON, PARTIALS, THREADS
from lookalike.cli.outputs import Output
from lookalike.cli.terminal import print_json, progress, table, tables
from lookalike.evaluation.evaluate import DEFAULT_METRICS

LABEL_FILES = ", or pass a file of labels with --query-labels and --gallery-labels"

__all__ = ["evaluate"]


def evaluate(
    queries: Annotated[
        Path | None, Parameter(help="codes or embeddings of the queries: .npz, .npy or .parquet")
    ] = None,
    gallery: Annotated[
        str | None,
        Parameter(
            help="codes or embeddings of the gallery; or the folder or address of shards, as lookalike shard writes"
        ),
    ] = None,
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
        Literal["irrelevant", "condensed", "relevant", "error"] | None,
        Parameter(help="what an item that nobody judged counts"),
    ] = None,
    interval: Annotated[float | None, Parameter(help="show bootstrap intervals of this level, such as 0.95")] = None,
    threads: THREADS = None,
    dask: DASK = None,
    partials: PARTIALS = None,
    output: Annotated[
        Path | None, Parameter(help="also write everything, per query too, to this .json file"), Output()
    ] = None,
    as_json: JSON = False,
) -> None:
    """Evaluate codes or embeddings with labels, or a TREC run with its judgements.

    Files hold `codes` (n, bits), or `packed` with `n_bits`, or `embeddings`; with `labels`, `attributes`, `ids`.

    Example: lookalike evaluate queries.npz gallery.npz --metrics "AP@1000 nDCG@100"

    Example: lookalike evaluate queries.npz s3://bucket/gallery --dask tcp://scheduler:8786 --partials s3://bucket/partials

    Example: lookalike evaluate --run search.run.gz --qrels judged.qrels --unjudged irrelevant
    """
    import lookalike as la
    from lookalike.evaluation.item_files import read_items, relevance_between, relevance_to_shards
    from lookalike.metrics.metric import parse_all
    from lookalike.shards.gallery import is_sharded

    names = parse_all(metrics)  # a misspelt name is told before any file is read
    if interval is not None and not 0 < interval < 1:
        raise ValueError(f"--interval must be between 0 and 1, got {interval}")
    options: dict[str, Any] = {"undefined": undefined, "unjudged": unjudged}
    sharded = gallery is not None and is_sharded(gallery)
    if not sharded and (dask or partials):
        raise ValueError("--dask and --partials are for a gallery in shards, which lookalike shard writes")
    if run is not None or qrels is not None:
        if run is None or qrels is None:
            raise ValueError("--run and --qrels belong together: pass both files")
        if any((queries, query_labels, gallery_labels, relevance, similarity, exclude_self)):
            raise ValueError(
                "pass either QUERIES and GALLERY, or --run and --qrels, which have their own ids and grades"
            )
        with progress():
            result = la.evaluate_run(la.read_run(run), la.read_qrels(qrels), names, **options)
    elif queries is None or gallery is None:
        raise ValueError("pass the files of the QUERIES and the GALLERY, or --run and --qrels")
    elif sharded:
        if gallery_labels is not None:
            raise ValueError("shards have their own labels: give them to lookalike shard, in the file or by --table")
        q = read_items(queries, query_labels)
        with open_shards(gallery, dask) as shards, progress():
            result = la.evaluate(
                q.vectors,
                shards,
                relevance_to_shards(q, shards, relevance),
                names,
                similarity=similarity,
                query_ids=q.ids,
                gallery_ids=shards["ids"] if "ids" in shards.columns else None,
                exclude="self" if exclude_self else None,
                threads=threads,
                partials=partials,
                **options,
            )
    else:
        q, g = read_items(queries, query_labels), read_items(gallery, gallery_labels)
        with progress():
            result = la.evaluate(
                q.vectors,
                g.vectors,
                relevance_between(q, g, relevance, LABEL_FILES),
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


def _show(result: Any, interval: float | None, as_json: bool) -> None:
    from lookalike.evaluation.results import shown

    intervals = {m: s.interval(interval) for m, s in result.scores.items()} if interval is not None else {}
    if as_json:
        saved = result.to_dict()
        for row, bounds in zip(saved["scores"], intervals.values(), strict=False):
            row["interval"] = {"level": interval, "low": bounds[0], "high": bounds[1]}
        print_json(saved)
        return
    shown_table = table(("expected", "bold"), ("best", ""), ("worst", ""), ("undefined", ""), first="metric")
    if intervals:
        shown_table.add_column(f"{interval:.0%} interval", justify="right", no_wrap=True)
    for metric, score in result.scores.items():
        cells = [metric.label, *map(shown, (score.mean, score.best, score.worst)), str(score.undefined)]
        if intervals:
            cells.append("{:.4f} – {:.4f}".format(*intervals[metric]))
        shown_table.add_row(*cells)
    console = tables()
    console.print(shown_table)
    bits = f", {result.about['bits']} bits" if "bits" in result.about else ""
    console.print(f"{len(result.query_ids):,} queries, {result.about['items']:,} items{bits}")
