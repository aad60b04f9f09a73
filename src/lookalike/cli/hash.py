"""`lookalike hash`."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from lookalike.cli.galleries import open_shards
from lookalike.cli.hashers import choose
from lookalike.cli.items import is_gallery, open_items
from lookalike.cli.options import DASK, FLAT, JSON, PARTIALS, SEED, THREADS, GroupOptions
from lookalike.cli.outputs import Output
from lookalike.cli.terminal import print_json, progress, tables
from lookalike.core.endings import ARRAYS, ITEMS, either
from lookalike.core.errors import FileError, InputError

if TYPE_CHECKING:
    from lookalike.core.readers.source import Columns
    from lookalike.evaluation.item_files import Items
    from lookalike.hashers import Hasher

__all__ = ["hash_items"]


def hash_items(
    items: Annotated[str, Parameter(help=f"embeddings: {ITEMS}; or the folder or address of shards")],
    output: Annotated[
        str,
        Parameter(help=f"where to write the codes: {either(ARRAYS)}; of shards, a folder or address"),
        Output(folder=True, owns="gallery"),
    ],
    /,
    *,
    hasher: Annotated[
        str,
        Parameter(
            help="LSH, PCAH, PCARR, ITQ, SH, SKLSH, SpH, DensityDSH, KLSH, BRE or DGH; with labels KSH, MLH or SDH; a "
            "loss to learn labels with by a network, such as tie-aware-ap; or a saved .npz"
        ),
    ] = "ITQ",
    bits: Annotated[int | None, Parameter(help="length of the codes (64)")] = None,
    fit: Annotated[str | None, Parameter(help="embeddings to learn from, if not from ITEMS")] = None,
    columns: Annotated[GroupOptions, FLAT] = GroupOptions(),  # noqa: B008  # it never changes
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
    options = _HasherOptions(hasher, bits, fit, save, seed, columns.columns)
    if is_gallery(items):
        if fit is None and not hasher.endswith(".npz"):
            raise InputError("shards are hashed by a hasher that is learned: pass --hasher itq.npz, or --fit SAMPLE")
        _hash_shards(items, output, options, _Workers(threads, dask, partials), as_json)
        return
    if any((threads, dask, partials)):
        raise InputError("--threads, --dask and --partials are for embeddings in shards, which lookalike shard writes")
    _hash_file(items, Path(output), options, as_json)


@dataclass(frozen=True)
class _HasherOptions:
    """Which hasher, as the options say it. name: of a kind of hasher, or of the file of one that is fitted."""

    name: str
    bits: int | None
    fit: str | None
    save: Path | None
    seed: int
    columns: "Columns"

    def read(self, location: str) -> "Items":
        """The items at a location."""
        return open_items(location, self.columns)

    def choose(self) -> tuple["Hasher", bool]:
        """The hasher, and whether it is fitted."""
        hasher, fitted = choose(self.name, self.bits, self.seed)
        if fitted and self.fit is not None:
            raise InputError(f"{self.name} is fitted already: --fit is for a hasher that is given by name")
        return hasher, fitted


@dataclass(frozen=True)
class _Workers:
    """Who hashes shards, and where the codes of each are kept meanwhile."""

    threads: int | None
    dask: str | None
    partials: str | None


def _hash_file(path: str, output: Path, options: _HasherOptions, as_json: bool) -> None:
    """Hash the embeddings of a file."""
    from lookalike.core.codes import Codes
    from lookalike.core.kernels import prepare_hashing
    from lookalike.evaluation.item_files import write_codes

    _check_names(output, options.save)
    hasher, fitted = options.choose()
    items = options.read(path)
    if isinstance(items.vectors, Codes):
        raise FileError(f"{path} holds codes already: hashing is for embeddings", path=path)
    prepare_hashing()  # compiled before the clock starts
    started = time.perf_counter()
    with progress():
        if not fitted:
            sample = items if options.fit is None else options.read(options.fit)
            _fit(hasher, sample, options)
        fit_seconds, started = time.perf_counter() - started, time.perf_counter()
        codes = hasher.transform(items.vectors)
    seconds = time.perf_counter() - started
    write_codes(output, codes, items)
    if options.save is not None:
        hasher.save(options.save)
    name = hasher.title
    if as_json:
        times = {"fit_seconds": None if fitted else fit_seconds, "hash_seconds": seconds}
        facts = {"hasher": name, "bits": codes.n_bits, "items": len(codes), "output": str(output)}
        print_json({**facts, "fingerprint": codes.hasher, **times})
        return
    say = tables().print
    learned = "" if fitted else f" learned in {fit_seconds:.2f} s,"
    made = f"{len(codes):,} items of {items.vectors.shape[1]:,} numbers → {codes.n_bits} bits by {name}"
    say(f"{made}:{learned} hashed in {seconds:.2f} s")
    say(f"codes are in {output}" + (f", the hasher in {options.save}" if options.save is not None else ""))
    if not fitted and options.save is None:
        say("to hash queries or other items by the same hasher, add --save hasher.npz, then give --hasher hasher.npz")


def _check_names(output: Path, save: Path | None) -> None:
    """Raise where a file cannot be written, or its name does not say what it is."""
    from lookalike.core.files import check_target

    for target, suffixes in ((output, ARRAYS), (save, (".npz",))):
        if target is not None:
            check_target(target)
            if target.suffix not in suffixes:
                raise InputError(f"cannot write {target}: the name must end in {either(suffixes)}")


def _fit(hasher: "Hasher", sample: "Items", options: _HasherOptions) -> None:
    """Fit a hasher to the embeddings of a file."""
    from lookalike.core.codes import Codes

    if isinstance(sample.vectors, Codes):
        raise FileError(f"{sample.path} holds codes: a hasher learns from embeddings", path=sample.path)
    if hasher.learns_labels and sample.labels is None:
        raise FileError(f"{sample.path} has no labels, which {options.name} learns from", path=sample.path)
    learns_levels = getattr(hasher, "learns_levels", False)
    if learns_levels and sample.levels is None:
        needed = f"{options.name} learns from fine and coarse labels: it needs arrays 'labels' and 'coarse_labels'"
        raise FileError(f"{sample.path}: {needed}", path=sample.path)
    hasher.fit(sample.vectors, sample.levels if learns_levels else sample.labels)


def _hash_shards(items: str, output: str, options: _HasherOptions, way: _Workers, as_json: bool) -> None:
    """Hash the embeddings of shards by a hasher that is fitted, or is fitted to a sample."""
    from lookalike.core.threads import n_threads
    from lookalike.shards.convert import hash_shards

    hasher, _ = options.choose()
    if options.fit is not None:
        _fit(hasher, options.read(options.fit), options)
    if options.save is not None:
        hasher.save(options.save)
    started = time.perf_counter()
    with open_shards(items, way.dask) as shards, progress():
        written = hash_shards(hasher, shards, output, threads=n_threads(way.threads), partials=way.partials)
    seconds = time.perf_counter() - started
    if as_json:
        facts = {"hasher": hasher.title, "bits": written.n_bits, "items": len(written), "output": str(written.location)}
        print_json({**facts, "shards": len(written.shards), "hash_seconds": seconds})
        return
    made = f"{len(written):,} items → {written.n_bits} bits by {hasher.title} in {seconds:.2f} s"
    tables().print(f"{made}; codes are in {written.location}")
