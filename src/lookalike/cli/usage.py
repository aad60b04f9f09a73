"""`lookalike usage`."""

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from lookalike.cli.items import is_database, open_items
from lookalike.cli.options import FLAT, FORMAT, JSON, ZERO, LabelOptions, chosen_format
from lookalike.cli.terminal import progress, rich_table, tables, tell
from lookalike.core.endings import ITEMS
from lookalike.core.errors import FileError

if TYPE_CHECKING:
    from lookalike.core.readers.source import Columns
    from lookalike.core.tables.table import ResultTable
    from lookalike.evaluation.code_space import CodeHistogram, Separation, Usage
    from lookalike.evaluation.item_files import Items

COLUMNS = 6  # bits whose codes share a column of the histogram on a terminal, 64 in all
LEVELS = " ▁▂▃▄▅▆▇█"
MAX_PAIRS = 2e10  # of words of codes that meet, some seconds' worth

__all__ = ["usage"]


def usage(
    codes: Annotated[str, Parameter(help=f"codes: {ITEMS}")],
    /,
    *,
    labels: Annotated[str | None, Parameter(help="labels of the items: .npy, a text line each, or a table")] = None,
    features: Annotated[
        str | None, Parameter(help="what was hashed: does Hamming distance follow it within a class?")
    ] = None,
    columns: Annotated[LabelOptions, FLAT] = LabelOptions(),  # noqa: B008  # it never changes
    zero: ZERO = None,
    separation: Annotated[bool, Parameter(help="measure how classes lie, however long it takes")] = False,
    as_json: JSON = False,
    form: FORMAT = None,
) -> None:
    """Show how codes fill the space: how many are used, how evenly, and how classes share them.

    Example: lookalike usage gallery-codes.npz

    Example: lookalike usage gallery-codes.npz --features gallery.npz --json
    """
    from lookalike.core.codes import Codes
    from lookalike.evaluation import code_space

    printed = chosen_format(form, as_json)
    items = open_items(codes, columns.columns, labels, zero=zero)
    if not isinstance(items.vectors, Codes):
        raise FileError(f"{codes} holds embeddings: usage is of codes, which lookalike hash makes", path=codes)
    classes = items.labels if items.labels is not None and items.labels.ndim == 1 else None
    if classes is None and (features is not None or separation):
        raise FileError(f"{codes} has no labels with one value an item, which classes need: pass --labels", path=codes)
    used, ordered = code_space.usage(items.vectors, classes), code_space.items_by_code(items.vectors)
    apart = within = None
    too_many = used.distinct**2 * -(-used.n_bits // 64) > MAX_PAIRS
    with progress():
        if separation or (classes is not None and not too_many and (classes != classes[0]).any()):
            apart = code_space.separation(items.vectors, classes)
        if features is not None:
            hashed = _features(features, items, columns)
            within = code_space.within_class_correlation(items.vectors, classes, hashed)

    def show() -> None:
        _show_usage(used)
        for line in _histogram_lines(ordered):
            tables().print(line)
        if apart is None and classes is not None and too_many:
            many = f"{used.distinct:,} distinct codes are many to compare with each other"
            tables().print(f"\n{many}: pass --separation to do so")
        _show_classes(apart, within)

    tell(printed, lambda: _facts(used, ordered, apart, within), lambda: _tables(used), show)


def _facts(used: "Usage", ordered: "CodeHistogram", apart: "Separation | None", within: Any) -> dict[str, Any]:
    """Everything, for JSON."""
    facts: dict[str, Any] = {**used.row(), "balance": used.balance.tolist(), "items_per_code": _spread(used)}
    facts["items_by_code"] = {"prefix_bits": ordered.prefix_bits, "items": ordered.items.tolist()}
    if apart is not None:
        facts["separation"] = {
            "classes": apart.classes.tolist(),
            "diameters": apart.diameters.tolist(),
            "separations": apart.separations.tolist(),
            "premise_holds": apart.holds,
            "bound": apart.bound,
        }
    if within is not None:
        facts["within_class_correlation"] = within.tolist()
    return facts


def _show_classes(apart: "Separation | None", within: Any) -> None:
    """Print how classes lie, and whether Hamming distance follows that of features within a class."""
    import numpy as np

    from lookalike.evaluation.code_space import mean_of_known

    say = tables().print
    if apart is not None:
        for line in _separation_lines(apart):
            say(line)
    if within is not None:
        measured = int((~np.isnan(within)).sum())
        mean = f"{mean_of_known(within):.3f} (Spearman, mean of {measured} of {len(within)} classes)"
        say(f"within a class, Hamming and feature distance correlate by {mean}")


def _separation_lines(apart: "Separation") -> list[str]:
    """How classes lie, and what proposition 1 of Ding et al. (2018) says of it."""
    worst = int((apart.separations - apart.diameters).argmin())
    narrow = int((apart.diameters < apart.separations).sum())
    verdict = "its premise, mAP = 1 by classes that lie apart, does not hold: it bounds nothing here"
    if apart.holds:
        verdict = f"its premise holds, so utilisation is at most {apart.bound:.3f}; measured {apart.utilisation:.4g}"
    widest = (
        f"at worst, class {apart.classes[worst]} is {apart.diameters[worst]} bits wide, "
        f"and {apart.separations[worst]} from another"
    )
    return [
        f"\nclasses: {narrow} of {len(apart.classes)} are narrower than their distance to the next; {widest}",
        f"proposition 1 (Ding et al. 2018): {verdict}",
    ]


def _features(path: str, hashed: "Items", columns: LabelOptions) -> Any:
    """The embeddings of the items that were hashed."""
    import numpy as np

    from lookalike.core.codes import Codes

    features = open_items(path, _columns_of_features(path, columns))
    vectors, n = features.vectors, len(hashed.vectors)
    if isinstance(vectors, Codes):
        raise FileError(f"{path} holds codes: --features are the embeddings that were hashed", path=path)
    if len(vectors) != n:
        raise FileError(
            f"{path} has {len(vectors)} items, but there are {n} codes: --features are what was hashed", path=path
        )
    if features.ids is not None and hashed.ids is not None and not np.array_equal(features.ids, hashed.ids):
        row = int(np.flatnonzero(features.ids != hashed.ids)[0])
        raise FileError(
            f"{path} is of other items, or in another order: its id in row {row} is {features.ids[row]}, that of the "
            f"codes {hashed.ids[row]}",
            path=path,
        )
    return vectors


def _columns_of_features(path: str, columns: LabelOptions) -> "Columns":
    """The columns of the embeddings that were hashed: their file may call them otherwise than that of the codes."""
    from lookalike.core.readers.opening import open_table
    from lookalike.core.readers.source import Columns

    if is_database(path):
        return columns.columns
    names = {field.name for field in open_table(path).fields}
    return Columns(**{role: name for role, name in columns.columns.named.items() if name in names})


def _tables(used: "Usage") -> "list[ResultTable]":
    """How codes fill the space, and how many items are on how many codes."""
    from lookalike.core.tables.table import ResultTable, TableCell, TableHead
    from lookalike.evaluation.results import shown

    rows: list[tuple[str, Any, str]] = [
        ("items", used.items, f"{used.items:,}"),
        ("distinct codes", used.distinct, f"{used.distinct:,}"),
        (f"utilisation, of 2^{used.n_bits}", used.utilisation, f"{used.utilisation:.4g}"),
        ("utilisation, of what items can reach", used.possible_utilisation, shown(used.possible_utilisation)),
        ("entropy", used.entropy, f"{used.entropy:.2f} bits"),
        ("collision rate of two items", used.collision_rate, f"{used.collision_rate:.4g}"),
        ("items on the fullest code", used.largest, f"{used.largest:,}"),
    ]
    if used.mixed is not None:
        rows.append(("items on codes of several labels", used.mixed, f"{used.mixed:,} ({used.mixed / used.items:.1%})"))
    rows.append(("bits' share of ones, from a half", used.imbalance, shown(used.imbalance)))
    rows.append(("correlation of two bits, absolute", used.redundancy, shown(used.redundancy)))
    numbers = [[name, TableCell(value, text)] for name, value, text in rows]
    spread = []
    for row in _spread(used):
        low, high = row["from"], row["to"]
        held = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        spread.append([held, *(TableCell(row[name], f"{row[name]:,}") for name in ("codes", "items"))])
    return [
        ResultTable.of(["of the codes", TableHead("value", main=True)], numbers),
        ResultTable.of(["items on a code", *map(TableHead, ("codes", "items"))], spread),
    ]


def _show_usage(used: "Usage") -> None:
    """Print how codes fill the space, as two tables."""
    numbers, spread = _tables(used)
    first = rich_table(numbers)
    first.show_header = False
    console = tables()
    console.print(first)
    console.print(rich_table(spread, title="\nitems on a code"))


def _histogram_lines(ordered: "CodeHistogram") -> list[str]:
    """Items by code in numerical order, as a line of columns that are as high as the items on them.

    >>> import numpy as np
    >>> from lookalike.evaluation.code_space import CodeHistogram
    >>> _histogram_lines(CodeHistogram(3, 3, np.array([8, 0, 0, 2, 4, 1, 0, 0])))[1]
    '█  ▂▄▁  '
    """
    short = ordered.shorter(COLUMNS)
    highest, bits = int(short.items.max()), short.prefix_bits
    steps = -(-short.items * (len(LEVELS) - 1) // highest)  # what is not empty is seen
    span = f"from {'0' * bits} to {'1' * bits}"
    if not short.is_whole:
        span = f"a column for all that begin with the same {bits} bits, {span}"
    full = f"a full column is {highest:,} item{'s' * (highest > 1)}"
    return [f"\nitems on codes in numerical order, {span}; {full}", "".join(LEVELS[step] for step in steps)]


def _spread(used: "Usage") -> list[dict[str, int]]:
    """How many codes hold 1, 2 to 3, 4 to 7, … items."""
    rows = []
    low = 1
    while low <= used.largest:
        held = used.counts[(used.counts >= low) & (used.counts < 2 * low)]
        rows.append({"from": low, "to": 2 * low - 1, "codes": len(held), "items": int(held.sum())})
        low *= 2
    return rows
