"""`lookalike rank`: the nearest items of each query in a gallery in shards."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from lookalike.cli.galleries import open_shards
from lookalike.cli.items import open_items
from lookalike.cli.options import DASK, FLAT, JSON, SIMILARITY, THREADS, ZERO, VectorOptions
from lookalike.cli.outputs import Output
from lookalike.cli.terminal import print_json, progress, tables
from lookalike.core.endings import ITEMS
from lookalike.core.errors import InputError

__all__ = ["rank"]


def rank(
    queries: Annotated[str, Parameter(help=f"codes or embeddings of the queries: {ITEMS}")],
    shards: Annotated[str, Parameter(help="the folder or address of a gallery in shards, with ids")],
    output: Annotated[Path, Parameter(help="the TREC run to write, plain or .gz"), Output()],
    /,
    *,
    k: Annotated[int, Parameter(help="how many items of each query; all that tie with the last are there too")] = 100,
    columns: Annotated[VectorOptions, FLAT] = VectorOptions(),  # noqa: B008  # it never changes
    similarity: SIMILARITY = None,
    zero: ZERO = None,
    threads: THREADS = None,
    dask: DASK = None,
    as_json: JSON = False,
) -> None:
    """Find the nearest items of each query in a gallery in shards, exactly, and write them as a run.

    `study add` takes the run as a model, so that `pool` can propose from catalogues that do not fit into memory.

    Example: lookalike rank queries.npz s3://bucket/gallery nearest.run.gz --k 100 --dask tcp://scheduler:8786
    """
    from lookalike.core.codes import Codes
    from lookalike.discovery.sharded_rankers import nearest, run_of
    from lookalike.evaluation.trec import write_run

    if k < 1:
        raise InputError(f"--k must be a whole number from 1, got {k}")
    asked = open_items(queries, columns.columns, zero=zero)
    if similarity is not None and isinstance(asked.vectors, Codes):
        raise InputError("codes are compared by Hamming distance: --similarity is for embeddings")
    with open_shards(shards, dask) as gallery, progress():
        neighbours = nearest(asked.vectors, gallery, k, similarity=similarity or "cosine", threads=threads)
        rows = run_of(neighbours, asked.ids, gallery, threads=threads)
    write_run(output, rows)
    counts: dict[str, Any] = {"queries": len(asked.vectors), "items": len(gallery), "pairs": len(rows)}
    if as_json:
        print_json({**counts, "output": str(output)})
        return
    tables().print(f"{len(rows):,} pairs of {counts['queries']:,} queries and {len(gallery):,} items are in {output}")
