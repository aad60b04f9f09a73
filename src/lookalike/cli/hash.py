"""`lookalike hash`."""

import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from lookalike.cli.galleries import open_shards
from lookalike.cli.hashers import choose
from lookalike.cli.options import DASK, JSON, PARTIALS, SEED, THREADS
from lookalike.cli.outputs import Output
from lookalike.cli.terminal import print_json, progress, tables
from lookalike.core.files import check_target

__all__ = ["hash_items"]


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
    with open_shards(items, dask) as shards, progress():
        written = hash_shards(chosen, shards, output, threads=n_threads(threads), partials=partials)
    seconds = time.perf_counter() - started
    told = {"hasher": chosen.title, "bits": written.n_bits, "items": len(written), "output": str(written.place)}
    if as_json:
        print_json({**told, "shards": len(written.shards), "hash_seconds": seconds})
        return
    made = f"{len(written):,} items → {written.n_bits} bits by {chosen.title} in {seconds:.2f} s"
    tables().print(f"{made}; codes are in {written.place}")
