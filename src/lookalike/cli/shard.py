"""`lookalike shard`: a gallery in shards."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from lookalike.cli.items import open_source_of
from lookalike.cli.options import FLAT, JSON, ZERO, GroupOptions
from lookalike.cli.outputs import Output
from lookalike.cli.terminal import print_json, progress, tables
from lookalike.core.endings import ITEMS

__all__ = ["shard"]


def shard(
    items: Annotated[str, Parameter(help=f"codes or embeddings: {ITEMS}; a folder or a pattern of Parquet files")],
    output: Annotated[
        str, Parameter(help="a folder, or an address such as s3://bucket/gallery"), Output(folder=True, owns="gallery")
    ],
    /,
    *,
    table: Annotated[
        Path | None, Parameter(help="a .csv with a row for each item: id, label and whatever else become columns")
    ] = None,
    columns: Annotated[GroupOptions, FLAT] = GroupOptions(),  # noqa: B008  # it never changes
    bits: Annotated[int | None, Parameter(help="length of the codes, where packed bytes do not say it")] = None,
    zero: ZERO = None,
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
        source = open_source_of(items, columns.columns, extra=True)
        written = shard_file(source, output, table=table, n_bits=bits, zero=zero, rows=rows, replace=replace)
    if as_json:
        print_json({"output": str(written.location), **written.manifest})
        return
    size = sum(part.bytes for part in written.shards)
    say = tables().print
    bytes_of = f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"
    written_items = (
        f"{len(written):,} items in {len(written.shards)} shard{'s' * (len(written.shards) > 1)}, {bytes_of}"
    )
    say(f"{written_items}, with {', '.join(written.columns)}")
    say(f"they are in {written.location}: lookalike evaluate QUERIES {output}")
