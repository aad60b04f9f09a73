"""`lookalike report` and `lookalike demo`."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from lookalike.cli.data import LABELS, SETTING, SOURCE, task_and_shape
from lookalike.cli.discovering import leaderboard
from lookalike.cli.hashing import choose
from lookalike.cli.terminal import JSON, SEED, print_json, progress, prose, say_how_to_open, table, tables
from lookalike.files import check_target

if TYPE_CHECKING:
    from lookalike.demo import Story
    from lookalike.hashers import Hasher
    from lookalike.tasks import Task
    from lookalike.trials import Trials

LENGTHS = "12 24 48"

__all__ = ["demo", "report"]


def demo(
    *,
    data: Annotated[str, Parameter(help="digits, cifar10, cifar100, fashion-mnist, or a folder of images")] = "digits",
    bits: Annotated[str, Parameter(help="lengths of the codes")] = LENGTHS,
    output: Annotated[Path, Parameter(help="where to write the report")] = Path("lookalike-demo.html"),
    setting: SETTING = None,
    source: SOURCE = None,
    labels: LABELS = None,
    seed: SEED = 0,
    as_json: JSON = False,
) -> None:
    """Compare eight hashers on handwritten digits, in a table and in a report to look at.

    Example: lookalike demo

    Example: lookalike demo --data cifar10
    """
    from lookalike.demo import tell

    _check(output)
    chosen = _hashers(None, bits, seed)
    found = _try(task_and_shape(data, source, labels, setting, seed)[0], chosen)
    story = tell(found)
    _write(found, output)
    if as_json:
        ap = story.ap
        told = {"hasher": story.trial.name, "bits": story.trial.n_bits, "queries": story.n_queries, "mAP": ap.mean}
        told |= {"best": ap.best, "worst": ap.worst, "argsort": story.argsort}
        _print_rows(found, output, {**told, "argsort_by_class": story.argsort_by_class, "AP@100": story.at_100})
        return
    _show_trials(found)
    _show_story(story)
    say_how_to_open(output)
    tables().print('\nWith your own codes:  lookalike evaluate queries.npz gallery.npz --metrics "AP@1000 nDCG@100"')


def report(
    data: Annotated[
        str,
        Parameter(
            help="a data set or folder of images, hashed by their features; a study; or a file of queries, "
            "embeddings or codes"
        ),
    ],
    gallery: Annotated[Path | None, Parameter(help="with a file of queries: the file of the gallery")] = None,
    /,
    *,
    features: Annotated[
        str | None,
        Parameter(help="what stands for an image of a data set: pixels (the default), or efficientnet-lite0"),
    ] = None,
    hashers: Annotated[
        str | None,
        Parameter(help="names, losses to learn with, and files of saved hashers; by default the eight without labels"),
    ] = None,
    bits: Annotated[str | None, Parameter(help="lengths of the codes (12 24 48)")] = None,
    codes: Annotated[
        list[str] | None, Parameter(help="codes made elsewhere, NAME=QUERIES,GALLERY; may be given several times")
    ] = None,
    fit: Annotated[Path | None, Parameter(help="embeddings to learn from, if not from the gallery")] = None,
    similarity: Annotated[
        Literal["cosine", "dot", "euclidean"] | None,
        Parameter(help="how the features themselves are searched, for comparison (euclidean)"),
    ] = None,
    title: Annotated[str | None, Parameter(help="of the report; by default the name of the data")] = None,
    output: Annotated[Path, Parameter(help="where to write the report")] = Path("lookalike-report.html"),
    setting: SETTING = None,
    source: SOURCE = None,
    labels: LABELS = None,
    seed: SEED = 0,
    as_json: JSON = False,
) -> None:
    """Compare hashers on your data, or the models of a study: one HTML file with numbers, charts and pictures.

    Example: lookalike report photos/ --features efficientnet-lite0 --hashers "ITQ SH tie-aware-ap" --bits "32 64"

    Example: lookalike report queries.npz gallery.npz --codes mine=my-queries.npz,my-gallery.npz

    Example: lookalike report shop --output shop.html
    """
    if gallery is None and (Path(data) / "study.toml").is_file():
        given: dict[str, Any] = {
            "features": features,
            "hashers": hashers,
            "bits": bits,
            "codes": codes,
            "fit": fit,
            "title": title,
        }
        given |= {"similarity": similarity, "setting": setting, "source": source, "labels": labels}
        _refuse("is for hashers: this is a study, of which the leaderboard is shown", **given)
        leaderboard(Path(data), leave_one_out=None, report=output, seed=seed, as_json=as_json)
        return
    others = [_named_codes(text) for text in codes or []]
    _check(output, Path(data), gallery, fit, *(path for _, *paths in others for path in paths))
    if gallery is None:
        if Path(data).suffix in (".npz", ".npy", ".parquet"):
            raise ValueError(f"pass two files, queries and gallery: {data} is one of them")
        _refuse("is for files of embeddings: a data set has its own training part", fit=fit)
        task, _ = task_and_shape(data, source, labels, setting, seed, features or "pixels")
    else:
        options = {"setting": setting, "source": source, "labels": labels, "features": features}
        _refuse("is for data sets and folders of images, not for files", **options)
        task = _items_task(Path(data), gallery, fit)
        if task.gallery is None:
            _refuse("is for embeddings: these hold codes", hashers=hashers, bits=bits, fit=fit, similarity=similarity)
            others.insert(0, (gallery.stem, Path(data), gallery))
    chosen = [] if task.gallery is None else _hashers(hashers, bits or LENGTHS, seed)
    task = replace(task, title=title or task.title, about=task.about | {"seed": seed})
    found = _try(task, chosen, _given(task, others), similarity or "euclidean")
    _write(found, output)
    if as_json:
        _print_rows(found, output)
        return
    _show_trials(found)
    say_how_to_open(output)


def _check(output: Path, *inputs: Path | None) -> None:
    """Raise before any work where its result could not be written."""
    from lookalike.report import check_installed

    check_installed()
    check_target(output, *(path for path in inputs if path is not None))


def _refuse(why: str, **options: Any) -> None:
    """Raise where an option was given that means nothing here."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"--{name} {why}")


def _items_task(queries: Path, gallery: Path, fit: Path | None) -> "Task":
    from lookalike.items import read_items
    from lookalike.tasks import items_task

    return items_task(read_items(queries), read_items(gallery), None if fit is None else read_items(fit))


def _named_codes(text: str) -> tuple[str, Path, Path]:
    found = re.fullmatch(r"([^=]+)=([^,]+),([^,]+)", text)
    if found is None:
        raise ValueError(f"--codes must be NAME=QUERIES,GALLERY, got {text!r}")
    return found[1], Path(found[2]), Path(found[3])


def _hashers(names: str | None, bits: str, seed: int) -> list[tuple[str, "Hasher"]]:
    """Names to show, and hashers, the shortest codes first."""
    from lookalike.hashers import HASHERS

    lengths = re.split(r"[,\s]+", bits.strip())
    if not all(length.isdecimal() and int(length) > 0 for length in lengths):
        raise ValueError(f'--bits must be lengths such as "12 24 48", got {bits!r}')
    chosen = []
    for name in HASHERS if names is None else re.split(r"[,\s]+", names.strip()):
        saved = name.endswith(".npz")
        for n_bits in [None] if saved else sorted({int(length) for length in lengths}):
            hasher, _ = choose(name, n_bits, seed)
            chosen.append((Path(name).stem if saved else hasher.title, hasher))
    return sorted(chosen, key=lambda named: named[1].n_bits)


def _given(task: "Task", others: list[tuple[str, Path, Path]]) -> list[Any]:
    """Names, and codes of queries and gallery that were made elsewhere."""
    from lookalike.codes import Codes
    from lookalike.items import read_items

    given = []
    for name, *paths in others:
        vectors = [read_items(path).vectors for path in paths]
        for path, codes, n in zip(paths, vectors, (len(task.query_labels), len(task.gallery_labels)), strict=True):
            if not isinstance(codes, Codes) or len(codes) != n:
                kind = "codes" if isinstance(codes, Codes) else "embeddings"
                raise ValueError(f"{path} must hold {n} codes, one for each item, got {len(codes)} {kind}")
        given.append((name, *vectors))
    return given


def _try(task: "Task", chosen: list[tuple[str, "Hasher"]], given: Any = (), similarity: str = "euclidean") -> "Trials":
    from lookalike.trials import try_hashers

    with progress():
        return try_hashers(task, chosen, given, similarity=similarity)


def _write(found: "Trials", output: Path) -> None:
    from lookalike.report import write_report

    write_report(found, output)


def _print_rows(found: "Trials", output: Path, story: dict[str, Any] | None = None) -> None:
    exact, similarity = (found.exact["AP"].mean, found.exact.about["similarity"]) if found.exact else (None, None)
    left_out = [{"hasher": name, "why": why} for name, why in found.left_out]
    about = {
        "task": found.task.about,
        "exact_mAP": exact,
        "exact_similarity": similarity,
        "left_out": left_out,
        "report": str(output),
    }
    print_json({**about, **({"story": story} if story else {}), "rows": found.rows()})


def _show_trials(found: "Trials") -> None:
    from lookalike.results import shown

    task, say = found.task, prose().print
    features = f"; features: {task.about['features']}" if "features" in task.about else ""
    say(f"{task.title}: {len(task.query_labels):,} queries × {len(task.gallery_labels):,} items{features}\n")
    columns = ["bits", "mAP", "worst", "best", "mLGAP@2", "codes used", "of possible", "entropy", "fullest code"]
    rows = table(*((name, "bold" if name == "mAP" else "") for name in columns), first="hasher")
    for row in found.rows():
        rows.add_row(
            row["hasher"],
            str(row["bits"]),
            *(shown(row[name]) for name in ("mAP", "worst", "best", "LGAP@2")),
            f"{row['distinct']:,}",
            f"{row['possible_utilisation']:.1%}",
            f"{row['entropy']:.2f}",
            f"{row['largest']:,}",
        )
    if found.exact is not None:
        ap = found.exact["AP"]
        rows.add_row(
            f"no hashing ({found.exact.about['similarity']})", "–", *map(shown, (ap.mean, ap.worst, ap.best)), *"–––––"
        )
    tables().print(rows)
    if undefined := found.trials[0].evaluation["AP"].undefined:
        say(f"\n{undefined} of the queries have nothing relevant to find: mAP counts 0 for them")
    for name, why in found.left_out:
        say(f"\nleft out: {name}: {why}")


def _show_story(story: "Story") -> None:
    ap, at_100 = story.ap, story.at_100
    prose().print(
        f"\nmAP is expected over every order of tied items; worst and best are what ties alone could make of it. On "
        f"{story.n_queries} queries {story.trial.name} at {story.trial.n_bits} bits has an mAP of {ap.mean:.4f}, "
        f"between {ap.worst:.4f} and {ap.best:.4f}. An argsort of the very same codes says {story.argsort:.4f}, or "
        f"{story.argsort_by_class:.4f} if the gallery is stored by class. And AP@100 is {at_100['retrieved']:.4f}, "
        f"{at_100['min']:.4f} or {at_100['total']:.4f}, divided by the relevant items retrieved, by at most 100, or by "
        "all there are.\n\n"
        "A higher mAP can hide codes that collapse onto a few points: look at the codes used, their entropy and the "
        "fullest one beside it. mLGAP weighs precision by how evenly codes are filled (Ding et al. 2018)."
    )
