"""`lookalike usage`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from lookalike.cli.options import JSON
from lookalike.cli.terminal import print_json, progress, table, tables

if TYPE_CHECKING:
    from lookalike.evaluation.code_space import Separation, Usage

MAX_PAIRS = 2e10  # of words of codes that meet, some seconds' worth

__all__ = ["usage"]


def usage(
    codes: Annotated[Path, Parameter(help="codes: .npz, .npy or .parquet")],
    /,
    *,
    labels: Annotated[Path | None, Parameter(help="labels of the items, .npy or a text line each")] = None,
    features: Annotated[
        Path | None, Parameter(help="what was hashed: does Hamming distance follow it within a class?")
    ] = None,
    separation: Annotated[bool, Parameter(help="measure how classes lie, however long it takes")] = False,
    as_json: JSON = False,
) -> None:
    """Show how codes fill the space: how many are used, how evenly, and how classes share them.

    Example: lookalike usage gallery-codes.npz

    Example: lookalike usage gallery-codes.npz --features gallery.npz --json
    """
    import numpy as np

    from lookalike.core.codes import Codes
    from lookalike.evaluation import code_space as space
    from lookalike.evaluation.item_files import read_items

    read = read_items(codes, labels)
    if not isinstance(read.vectors, Codes):
        raise ValueError(f"{codes} holds embeddings: usage is of codes, which lookalike hash makes")
    classes = read.labels if read.labels is not None and read.labels.ndim == 1 else None
    if classes is None and (features is not None or separation):
        raise ValueError(f"{codes} has no labels with one value an item, which classes need: pass --labels")
    found = space.usage(read.vectors, classes)
    apart = within = None
    quick = found.distinct**2 * -(-found.n_bits // 64) <= MAX_PAIRS
    with progress():
        if separation or (classes is not None and quick and (classes != classes[0]).any()):
            apart = space.separation(read.vectors, classes)
        if features is not None:
            within = space.within_class_correlation(read.vectors, classes, _features(features, len(read.vectors)))
    if as_json:
        result: dict[str, Any] = {**found.row(), "balance": found.balance.tolist(), "items_per_code": _spread(found)}
        if apart is not None:
            result["separation"] = {
                "classes": apart.classes.tolist(),
                "diameters": apart.diameters.tolist(),
                "separations": apart.separations.tolist(),
                "premise_holds": apart.holds,
                "bound": apart.bound,
            }
        if within is not None:
            result["within_class_correlation"] = within.tolist()
        print_json(result)
        return
    _show_usage(found)
    say = tables().print
    if apart is not None:
        for line in _separation_lines(apart):
            say(line)
    elif classes is not None and not quick:
        say(f"\n{found.distinct:,} distinct codes are many to compare with each other: pass --separation to do so")
    if within is not None:
        known = int((~np.isnan(within)).sum())
        mean = f"{space.mean_of_known(within):.3f} (Spearman, mean of {known} of {len(within)} classes)"
        say(f"within a class, Hamming and feature distance correlate by {mean}")


def _separation_lines(apart: "Separation") -> list[str]:
    worst = int((apart.separations - apart.diameters).argmin())
    narrow = int((apart.diameters < apart.separations).sum())
    verdict = "its premise, mAP = 1 by classes that lie apart, does not hold: it bounds nothing here"
    if apart.holds:
        verdict = f"its premise holds, so utilisation is at most {apart.bound:.3f}; measured {apart.utilisation:.4g}"
    widest = f"{apart.classes[worst]} is {apart.diameters[worst]} bits wide and {apart.separations[worst]} from another"
    return [
        f"\nclasses: {narrow} of {len(apart.classes)} are narrower than their distance to the next; {widest}",
        f"proposition 1 (Ding et al. 2018): {verdict}",
    ]


def _features(path: Path, n: int) -> Any:
    from lookalike.core.codes import Codes
    from lookalike.evaluation.item_files import read_items

    vectors = read_items(path).vectors
    if isinstance(vectors, Codes):
        raise ValueError(f"{path} holds codes: --features are the embeddings that were hashed")
    if len(vectors) != n:
        raise ValueError(f"{path} has {len(vectors)} items, but there are {n} codes: --features are what was hashed")
    return vectors


def _show_usage(found: "Usage") -> None:
    from lookalike.evaluation.results import shown

    rows = {
        "items": f"{found.items:,}",
        "distinct codes": f"{found.distinct:,}",
        f"utilisation, of 2^{found.n_bits}": f"{found.utilisation:.4g}",
        "utilisation, of what items can reach": shown(found.possible_utilisation),
        "entropy": f"{found.entropy:.2f} bits",
        "collision rate of two items": f"{found.collision_rate:.4g}",
        "items on the fullest code": f"{found.largest:,}",
    }
    if found.mixed is not None:
        rows["items on codes of several labels"] = f"{found.mixed:,} ({found.mixed / found.items:.1%})"
    rows["bits' share of ones, from a half"] = shown(found.imbalance)
    rows["correlation of two bits, absolute"] = shown(found.redundancy)
    numbers = table(("", "bold"), first="")
    numbers.show_header = False
    for name, value in rows.items():
        numbers.add_row(name, value)
    spread = table(("codes", ""), ("items", ""), first="\nitems on a code")
    for row in _spread(found):
        low, high = row["from"], row["to"]
        spread.add_row(f"{low:,}" if low == high else f"{low:,} to {high:,}", f"{row['codes']:,}", f"{row['items']:,}")
    console = tables()
    console.print(numbers)
    console.print(spread)


def _spread(found: "Usage") -> list[dict[str, int]]:
    """How many codes hold 1, 2 to 3, 4 to 7, … items."""
    rows = []
    low = 1
    while low <= found.largest:
        held = found.counts[(found.counts >= low) & (found.counts < 2 * low)]
        rows.append({"from": low, "to": 2 * low - 1, "codes": len(held), "items": int(held.sum())})
        low *= 2
    return rows
