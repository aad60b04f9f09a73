"""`lookalike audit`."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, validators

from lookalike.cli.evaluate import EXCLUDE_SELF, GALLERY_LABELS, QUERY_LABELS
from lookalike.cli.items import is_gallery, open_items
from lookalike.cli.options import FLAT, FORMAT, JSON, SEED, THREADS, ZERO, LabelOptions, chosen_format
from lookalike.cli.outputs import Output
from lookalike.cli.terminal import each_note_once, progress, prose, rich_table, tables, tell
from lookalike.core.endings import ITEMS
from lookalike.core.errors import FileError, InputError
from lookalike.core.figures import shown
from lookalike.core.tables.table import ResultTable, TableCell, TableHead, ValueRange

if TYPE_CHECKING:
    from lookalike.core.readers.source import Columns
    from lookalike.evaluation.audit import Audit
    from lookalike.evaluation.item_files import Items

ADVICE = ", or pass a file of labels with --labels, or with --query-labels and --gallery-labels"
COLUMNS = {"stored": "stored", "numpy": "numpy", "names": "by id", "relevant first": "first", "relevant last": "last"}

QUERIES = Annotated[str, Parameter(help=f"codes of the queries: {ITEMS}")]
GALLERY = Annotated[
    str | None, Parameter(help="codes of the gallery; without it, each query is searched among all others")
]
LABELS = Annotated[
    str | None, Parameter(help="labels of the one file: .npy, a text line each, or a table with columns id and label")
]
REPORTED = Annotated[
    str | None, Parameter(help="a number that somebody reported, such as 0.82: which of the scripts gives it?")
]
CUTOFFS = Annotated[
    tuple[int, ...], Parameter(help="a cutoff that scripts have, beside none; may be given more than once")
]
SHUFFLES = Annotated[int, Parameter(help="how many shuffled galleries to count", validator=validators.Number(gte=1))]
PICTURE = Annotated[Path | None, Parameter(help="also draw everything into this .svg file"), Output(".svg")]

logger = logging.getLogger("lookalike")

__all__ = ["audit"]


def audit(
    queries: QUERIES,
    gallery: GALLERY = None,
    /,
    *,
    labels: LABELS = None,
    query_labels: QUERY_LABELS = None,
    gallery_labels: GALLERY_LABELS = None,
    reported: REPORTED = None,
    k: CUTOFFS = (1000,),
    exclude_self: EXCLUDE_SELF = False,
    columns: Annotated[LabelOptions, FLAT] = LabelOptions(),  # noqa: B008  # it never changes
    zero: ZERO = None,
    shuffles: SHUFFLES = 100,
    seed: SEED = 0,
    threads: THREADS = None,
    picture: PICTURE = None,
    as_json: JSON = False,
    form: FORMAT = None,
) -> None:
    """Show what each common script would print as the mAP of the same codes, and which of them a number comes from.

    Example: lookalike audit queries.npz gallery.npz --reported 0.82 --picture audit.svg

    Example: lookalike audit codes.npy --labels labels.txt --k 1000 --k 5000
    """
    from lookalike.evaluation.audit import audit as audit_codes
    from lookalike.evaluation.audit.verdict import check_reported
    from lookalike.evaluation.item_files import relevance_between

    printed = chosen_format(form, as_json)
    if reported is not None:
        check_reported(reported)
    files, alone = (labels, query_labels, gallery_labels), gallery is None
    with each_note_once(), progress():
        query_items, gallery_items = _items(queries, gallery, columns.columns, files, zero, exclude_self)
        found = audit_codes(
            _codes(query_items),
            _codes(gallery_items),
            relevance_between(query_items, gallery_items, None, ADVICE),
            k=k,
            query_ids=query_items.ids,
            gallery_ids=gallery_items.ids,
            exclude="self" if alone or exclude_self else None,
            shuffles=shuffles,
            random_state=seed,
            threads=threads,
        )
        for note in _notes(found, queries, alone):
            logger.warning("%s", note)
    if picture is not None:
        from lookalike.report.audit import write_picture

        write_picture(found, picture, reported)
    tell(
        printed,
        lambda: found.to_dict(reported),
        lambda: [_ways(found), _scripts(found)],
        lambda: _show(found, reported),
    )


def _items(
    queries: str,
    gallery: str | None,
    columns: "Columns",
    labels: tuple[str | None, ...],
    zero: str | None,
    exclude_self: bool,
) -> "tuple[Items, Items]":
    """What the files say of queries and items; one file is both."""
    from lookalike.evaluation.item_files import check_own_ids

    own, of_queries, of_gallery = labels
    for path in (queries, gallery):
        if path is not None and is_gallery(path):
            raise InputError(f"{path} is a gallery in shards, or a folder: an audit needs the codes in one file")
    if gallery is None:
        if of_queries is not None or of_gallery is not None:
            raise InputError("--query-labels and --gallery-labels are for two files: pass --labels")
        items = open_items(queries, columns, own, zero=zero)
        return items, items
    if own is not None:
        raise InputError("--labels is for one file: pass --query-labels and --gallery-labels")
    of_both = ((queries, of_queries), (gallery, of_gallery))
    first, second = (open_items(path, columns, labels, zero=zero) for path, labels in of_both)
    if exclude_self:
        check_own_ids(first, second)
    return first, second


def _codes(items: "Items") -> Any:
    """The codes of a file; raises where it holds embeddings."""
    from lookalike.core.codes import Codes

    if not isinstance(items.vectors, Codes):
        text = f"{items.path} holds embeddings: an audit is of codes, which tie; lookalike hash makes them"
        raise FileError(text, path=items.path)
    return items.vectors


def _notes(found: "Audit", queries: str, alone: bool) -> list[str]:
    note = f"{queries} is given alone: each item is searched for among all others (leave-one-out)"
    return [*found.notes, *([note] if alone else [])]


def _ways(found: "Audit") -> ResultTable:
    """A row for each way to count."""
    names = ["exact", "worst", "best", *COLUMNS.values(), "shuffled"]
    heads = ["counted as", *(TableHead(name, main=name == "exact") for name in names)]
    rows = []
    for row in found.distinct:
        numbers = [row.expected, row.worst, row.best, *(row.orders[order] for order in COLUMNS)]
        shuffled = TableCell(None)
        if len(row.shuffled):
            low, high = float(row.shuffled.min()), float(row.shuffled.max())
            shuffled = TableCell(ValueRange(low, high), f"{shown(low)} – {shown(high)}")
        rows.append([row.name, *(TableCell(float(n), "–" if n != n else None) for n in numbers), shuffled])
    return ResultTable.of(heads, rows)


def _scripts(found: "Audit") -> ResultTable:
    """A row for each script."""
    rows = [[one.name, one.value] for one in found.numbers if one.script is not None]
    return ResultTable.of(["script", TableHead("prints", main=True)], rows)


def _tables(found: "Audit") -> list[ResultTable]:
    return [_ways(found), _scripts(found)]


def _show(found: "Audit", reported: str | None) -> None:
    """Print a row for each way to count, a row for each script, and the verdict."""
    console = tables()
    ways, scripts = _tables(found)
    console.print(rich_table(ways))
    console.print(rich_table(scripts, title="\nscript"))
    n_items, shuffles = found.about["items"], found.about["shuffles"]
    facts = f"{found.n_queries:,} queries, {n_items:,} items of {found.about['bits']} bits"
    console.print(f"\n{facts}; ties in {len(COLUMNS)} orders and in {shuffles} shuffled galleries")
    for sentence in [found.rows[0].range] if reported is None else found.verdict(reported).sentences():
        prose().print(sentence)
