"""`lookalike hash` and `lookalike usage`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from lookalike.cli.outputs import Output
from lookalike.cli.sharding import DASK, PARTIALS, THREADS, opened
from lookalike.cli.terminal import JSON, SEED, print_json, progress, table, tables
from lookalike.core.files import check_target

if TYPE_CHECKING:
    from lookalike.evaluation.code_space import Separation, Usage
    from lookalike.hashers import Hasher

MAX_PAIRS = 2e10  # of words of codes that meet, some seconds' worth

__all__ = ["choose", "hash_items", "usage"]


def hash_items(
    items: Annotated[str, Parameter(help="embeddings: .npz, .npy or .parquet; or the folder or address of shards")],
    output: Annotated[
        str,
        Parameter(help="where to write the codes: .npz or .parquet; of shards, a folder or address"),
        Output(folder=True, owns="gallery"),
    ],
    /,
    *,
    hasher: Annotated[
        str,
        Parameter(
            help="LSH, PCAH, PCARR, ITQ, SH, SKLSH, SpH or DensityDSH; a loss to learn labels with, such as "
            "tie-aware-ap; or a saved .npz"
        ),
    ] = "ITQ",
    bits: Annotated[int | None, Parameter(help="length of the codes (64)")] = None,
    fit: Annotated[Path | None, Parameter(help="embeddings to learn from, if not from ITEMS")] = None,
    save: Annotated[
        Path | None, Parameter(help="also write the hasher to this .npz, to hash other items with"), Output()
    ] = None,
    seed: SEED = 0,
    threads: THREADS = None,
    dask: DASK = None,
    partials: PARTIALS = None,
    as_json: JSON = False,
) -> None:
    """Hash embeddings to binary codes; labels, attributes and ids go along.

    Example: lookalike hash gallery.npz gallery-codes.npz --hasher ITQ --bits 64 --save itq.npz

    Example: lookalike hash queries.npz query-codes.npz --hasher itq.npz

    Example: lookalike hash s3://bucket/embeddings s3://bucket/codes --hasher itq.npz --dask tcp://scheduler:8786
    """
    from lookalike.shards.gallery import is_sharded

    if is_sharded(items):
        if fit is None and not hasher.endswith(".npz"):
            raise ValueError("shards are hashed by a hasher that is learned: pass --hasher itq.npz, or --fit SAMPLE")
        _hash_shards(items, output, hasher, bits, fit, save, seed, threads, dask, partials, as_json)
        return
    if any((threads, dask, partials)):
        raise ValueError("--threads, --dask and --partials are for embeddings in shards, which lookalike shard writes")
    _hash_file(Path(items), Path(output), hasher, bits, fit, save, seed, as_json)


def _hash_file(
    items: Path,
    output: Path,
    hasher: str,
    bits: int | None,
    fit: Path | None,
    save: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Hash the embeddings of a file."""
    from lookalike.core.codes import Codes
    from lookalike.core.kernels import bend_kernels, product_kernel
    from lookalike.evaluation.item_files import read_items, write_codes
    from lookalike.hashers import LEARNED

    for target, suffixes in ((output, (".npz", ".parquet")), (save, (".npz",))):
        if target is not None:
            check_target(target)
            if target.suffix not in suffixes:
                raise ValueError(f"cannot write {target}: the name must end in {' or '.join(suffixes)}")
    chosen, fitted = choose(hasher, bits, seed)
    if fitted and fit is not None:
        raise ValueError(f"{hasher} is fitted already: --fit is for a hasher that is given by name")
    read = read_items(items)
    if isinstance(read.vectors, Codes):
        raise ValueError(f"{items} holds codes already: hashing is for embeddings")
    product_kernel(), bend_kernels()  # compiled before the clock starts
    started = time.perf_counter()
    with progress():
        if not fitted:
            learned_from = read if fit is None else read_items(fit)
            if isinstance(learned_from.vectors, Codes):
                raise ValueError(f"{fit} holds codes: a hasher learns from embeddings")
            if hasher.lower() in LEARNED and learned_from.labels is None:
                raise ValueError(f"{learned_from.path} has no labels, which {hasher} learns from")
            chosen.fit(learned_from.vectors, learned_from.labels)
        fit_seconds, started = time.perf_counter() - started, time.perf_counter()
        codes = chosen.transform(read.vectors)
    seconds = time.perf_counter() - started
    write_codes(output, codes, read)
    if save is not None:
        chosen.save(save)
    name = chosen.title
    if as_json:
        times = {"fit_seconds": None if fitted else fit_seconds, "hash_seconds": seconds}
        print_json({"hasher": name, "bits": codes.n_bits, "items": len(codes), "output": str(output), **times})
        return
    say = tables().print
    learned = "" if fitted else f" learned in {fit_seconds:.2f} s,"
    made = f"{len(codes):,} items of {read.vectors.shape[1]:,} numbers → {codes.n_bits} bits by {name}"
    say(f"{made}:{learned} hashed in {seconds:.2f} s")
    say(f"codes are in {output}" + (f", the hasher in {save}" if save is not None else ""))


def _hash_shards(
    items: str,
    output: str,
    hasher: str,
    bits: int | None,
    fit: Path | None,
    save: Path | None,
    seed: int,
    threads: int | None,
    dask: str | None,
    partials: str | None,
    as_json: bool,
) -> None:
    """Hash the embeddings of shards by a hasher that is learned, or learned from a sample."""
    from lookalike.core.codes import Codes
    from lookalike.core.threads import n_threads
    from lookalike.evaluation.item_files import read_items
    from lookalike.shards.convert import hash_shards

    chosen, fitted = choose(hasher, bits, seed)
    if fitted and fit is not None:
        raise ValueError(f"{hasher} is fitted already: --fit is for a hasher that is given by name")
    if fit is not None:
        sample = read_items(fit)
        if isinstance(sample.vectors, Codes):
            raise ValueError(f"{fit} holds codes: a hasher learns from embeddings")
        chosen.fit(sample.vectors, sample.labels)
    if save is not None:
        chosen.save(save)
    started = time.perf_counter()
    with opened(items, dask) as shards, progress():
        written = hash_shards(chosen, shards, output, threads=n_threads(threads), partials=partials)
    seconds = time.perf_counter() - started
    told = {"hasher": chosen.title, "bits": written.n_bits, "items": len(written), "output": str(written.location)}
    if as_json:
        print_json({**told, "shards": len(written.shards), "hash_seconds": seconds})
        return
    made = f"{len(written):,} items → {written.n_bits} bits by {chosen.title} in {seconds:.2f} s"
    tables().print(f"{made}; codes are in {written.location}")


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


def choose(hasher: str, bits: int | None, seed: int) -> tuple["Hasher", bool]:
    """A hasher by name, or a fitted one from a file; and whether it is fitted."""
    from lookalike import hashers

    if not hasher.endswith(".npz"):
        return hashers.make(hasher, 64 if bits is None else bits, seed), False
    found = hashers.load(hasher)
    if bits not in (None, found.n_bits):
        raise ValueError(f"{hasher} makes codes of {found.n_bits} bits, not {bits}: leave --bits away")
    return found, True


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
