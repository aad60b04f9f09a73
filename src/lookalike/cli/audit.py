"""`lookalike audit`."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, validators

from lookalike.cli.evaluate import EXCLUDE_SELF, GALLERY_LABELS, QUERY_LABELS
from lookalike.cli.options import JSON, SEED, THREADS, ZERO
from lookalike.cli.outputs import Output
from lookalike.cli.terminal import each_note_once, print_json, progress, prose, table, tables
from lookalike.core.endings import ITEMS, either
from lookalike.core.errors import FileError, InputError
from lookalike.core.figures import shown

if TYPE_CHECKING:
    from lookalike.evaluation.audit import Audit
    from lookalike.evaluation.item_files import Items

ADVICE = ", or pass a file of labels with --labels, or with --query-labels and --gallery-labels"
COLUMNS = {"stored": "stored", "numpy": "numpy", "names": "by id", "relevant first": "first", "relevant last": "last"}

QUERIES = Annotated[Path, Parameter(help=f"codes of the queries: {either(ITEMS)}")]
GALLERY = Annotated[
    Path | None, Parameter(help="codes of the gallery; without it, each query is searched among all others")
]
LABELS = Annotated[
    Path | None, Parameter(help="labels of the one file: .npy, a text line each, or a .csv with columns id and label")
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
    zero: ZERO = None,
    shuffles: SHUFFLES = 100,
    seed: SEED = 0,
    threads: THREADS = None,
    picture: PICTURE = None,
    as_json: JSON = False,
) -> None:
    """Show what each common script would print as the mAP of the same codes, and which of them a number comes from.

    Example: lookalike audit queries.npz gallery.npz --reported 0.82 --picture audit.svg

    Example: lookalike audit codes.npy --labels labels.txt --k 1000 --k 5000
    """
    from lookalike.evaluation.audit import audit as audit_codes
    from lookalike.evaluation.audit.verdict import check_reported
    from lookalike.evaluation.item_files import relevance_between

    if reported is not None:
        check_reported(reported)
    with each_note_once(), progress():
        query_items, gallery_items = _items(queries, gallery, (labels, query_labels, gallery_labels), zero)
        alone = gallery is None
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
    if as_json:
        print_json(found.to_dict(reported))
    else:
        _show(found, reported)


def _items(
    queries: Path, gallery: Path | None, labels: tuple[Path | None, ...], zero: str | None
) -> "tuple[Items, Items]":
    """What the files say of queries and items; one file is both."""
    from lookalike.evaluation.item_files import read_items
    from lookalike.shards.gallery import is_sharded

    own, of_queries, of_gallery = labels
    for path in (queries, gallery):
        if path is not None and is_sharded(path):
            raise InputError(f"{path} is a gallery in shards, or a folder: an audit needs the codes in one file")
    if gallery is None:
        if of_queries is not None or of_gallery is not None:
            raise InputError("--query-labels and --gallery-labels are for two files: pass --labels")
        items = read_items(queries, own, zero=zero)
        return items, items
    if own is not None:
        raise InputError("--labels is for one file: pass --query-labels and --gallery-labels")
    return read_items(queries, of_queries, zero=zero), read_items(gallery, of_gallery, zero=zero)


def _codes(items: "Items") -> Any:
    """The codes of a file; raises where it holds embeddings."""
    from lookalike.core.codes import Codes

    if not isinstance(items.vectors, Codes):
        text = f"{items.path} holds embeddings: an audit is of codes, which tie; lookalike hash makes them"
        raise FileError(text, path=items.path)
    return items.vectors


def _notes(found: "Audit", queries: Path, alone: bool) -> list[str]:
    note = f"{queries} is given alone: each item is searched for among all others (leave-one-out)"
    return [*found.notes, *([note] if alone else [])]


def _show(found: "Audit", reported: str | None) -> None:
    """Print a row for each way to count, a row for each script, and the verdict."""
    exact = [("exact", "bold"), ("worst", ""), ("best", "")]
    rows = table(*exact, *((name, "") for name in COLUMNS.values()), ("shuffled", ""), first="counted as")
    for row in found.distinct:
        numbers = [row.expected, row.worst, row.best, *(row.orders[order] for order in COLUMNS)]
        shuffled = "" if not len(row.shuffled) else f"{shown(row.shuffled.min())} – {shown(row.shuffled.max())}"
        rows.add_row(row.name, *("–" if value != value else shown(value) for value in numbers), shuffled)
    scripts = table(("prints", "bold"), first="\nscript")
    for one in found.numbers:
        if one.script is not None:
            scripts.add_row(one.name, shown(one.value))
    console = tables()
    console.print(rows)
    console.print(scripts)
    n_items, shuffles = found.about["items"], found.about["shuffles"]
    facts = f"{found.n_queries:,} queries, {n_items:,} items of {found.about['bits']} bits"
    console.print(f"\n{facts}; ties in {len(COLUMNS)} orders and in {shuffles} shuffled galleries")
    for sentence in [found.rows[0].range] if reported is None else found.verdict(reported).sentences():
        prose().print(sentence)
