"""`lookalike shard` and `lookalike rank`: galleries in shards, and what of them is nearest to queries."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from lookalike.cli.outputs import Output
from lookalike.cli.terminal import JSON, print_json, progress, tables

if TYPE_CHECKING:
    from lookalike.shards.gallery import Shards

DASK = Annotated[
    str | None,
    Parameter(
        help="work on a Dask cluster: the address of its scheduler, such as tcp://scheduler:8786, or its .json file"
    ),
]
PARTIALS = Annotated[
    str | None,
    Parameter(help="a folder or address to keep what each shard gives, so that a job that died goes on"),
    Output(folder=True),
]
THREADS = Annotated[int | None, Parameter(help="how many threads to use; all cores by default")]

__all__ = ["DASK", "PARTIALS", "THREADS", "opened", "rank", "shard"]


@contextlib.contextmanager
def opened(where: str | Path, dask: str | None = None) -> Iterator["Shards"]:
    """A gallery in shards, counted here or by the workers of a cluster."""
    from lookalike.shards.gallery import Shards

    shards = Shards.open(where)
    if dask is None:
        yield shards
        return
    from lookalike.shards.dask import connected

    with connected(dask) as client:
        yield shards.on(client)


def shard(
    items: Annotated[
        Path, Parameter(help="codes or embeddings: .npz, .npy, .parquet, or a flat index of faiss (.faiss, .index)")
    ],
    output: Annotated[
        str, Parameter(help="a folder, or an address such as s3://bucket/gallery"), Output(folder=True, owns="gallery")
    ],
    /,
    *,
    table: Annotated[
        Path | None, Parameter(help="a .csv with a row for each item: id, label and whatever else become columns")
    ] = None,
    bits: Annotated[int | None, Parameter(help="length of the codes, where packed bytes do not say it")] = None,
    rows: Annotated[int | None, Parameter(help="items of a shard (a million, or 64 MB of them)")] = None,
    replace: Annotated[bool, Parameter(help="write over shards that are there")] = False,
    as_json: JSON = False,
) -> None:
    """Write a gallery in shards: Parquet files and a manifest, to evaluate what does not fit into memory.

    The file is read a little at a time. `evaluate`, `hash` and `rank` take the folder in place of a file.

    Example: lookalike shard gallery.npz shards/

    Example: lookalike shard codes.npy s3://bucket/gallery --table items.csv
    """
    from lookalike.shards.convert import shard_file

    with progress():
        written = shard_file(items, output, table=table, n_bits=bits, rows=rows, replace=replace)
    if as_json:
        print_json({"output": str(written.location), **written.manifest})
        return
    size = sum(part.bytes for part in written.shards)
    say = tables().print
    made = (
        f"{len(written):,} items in {len(written.shards)} shard{'s' * (len(written.shards) > 1)}, {size / 1e6:,.1f} MB"
    )
    say(f"{made}, with {', '.join(written.columns)}")
    say(f"they are in {written.location}: lookalike evaluate QUERIES {output}")


def rank(
    queries: Annotated[Path, Parameter(help="codes or embeddings of the queries: .npz, .npy or .parquet")],
    shards: Annotated[str, Parameter(help="the folder or address of a gallery in shards, with ids")],
    output: Annotated[Path, Parameter(help="the TREC run to write, plain or .gz"), Output()],
    /,
    *,
    k: Annotated[int, Parameter(help="how many items of each query; all that tie with the last are there too")] = 100,
    similarity: Annotated[
        Literal["cosine", "dot", "euclidean"] | None, Parameter(help="how embeddings are compared (cosine)")
    ] = None,
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
    from lookalike.evaluation.item_files import read_items
    from lookalike.evaluation.trec import write_run

    if k < 1:
        raise ValueError(f"--k must be a whole number from 1, got {k}")
    asked = read_items(queries)
    if similarity is not None and isinstance(asked.vectors, Codes):
        raise ValueError("codes are compared by Hamming distance: --similarity is for embeddings")
    with opened(shards, dask) as gallery, progress():
        found = nearest(asked.vectors, gallery, k, similarity=similarity or "cosine", threads=threads)
        rows = run_of(found, asked.ids, gallery, threads=threads)
    write_run(output, rows)
    told: dict[str, Any] = {"queries": len(asked.vectors), "items": len(gallery), "pairs": len(rows)}
    if as_json:
        print_json({**told, "output": str(output)})
        return
    tables().print(f"{len(rows):,} pairs of {told['queries']:,} queries and {len(gallery):,} items are in {output}")
