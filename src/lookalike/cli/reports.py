"""`lookalike report` and `lookalike demo`."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from lookalike.cli.data import LABELS, SETTING, SOURCE, task_and_shape
from lookalike.cli.hashing import choose
from lookalike.cli.outputs import Output
from lookalike.cli.studies import judgements_of, open_judged, write_result
from lookalike.cli.terminal import JSON, SEED, print_json, progress, prose, remark, say_how_to_open, table, tables
from lookalike.evaluation.results import shown, without_nan

if TYPE_CHECKING:
    from lookalike.experiments.demo import Story
    from lookalike.experiments.task import Task
    from lookalike.experiments.trials import Trials
    from lookalike.hashers import Hasher
    from lookalike.report.collection import JudgedStudy
    from lookalike.study.study import Study
    from lookalike.study.survey import Survey

LENGTHS, STUDY_LENGTHS = "12 24 48", "32 64 128"

__all__ = ["demo", "report"]


def demo(
    *,
    data: Annotated[str, Parameter(help="digits, cifar10, cifar100, fashion-mnist, or a folder of images")] = "digits",
    bits: Annotated[str, Parameter(help="lengths of the codes")] = LENGTHS,
    output: Annotated[Path, Parameter(help="where to write the report"), Output(".html")] = Path("lookalike-demo.html"),
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
    from lookalike.experiments.demo import tell
    from lookalike.report import check_installed

    check_installed()
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
        Parameter(
            help="names, losses to learn with, and files of saved hashers; by default the eight without labels, of a "
            "study ITQ"
        ),
    ] = None,
    bits: Annotated[str | None, Parameter(help="lengths of the codes (12 24 48; of a study 32 64 128)")] = None,
    codes: Annotated[
        list[str] | None, Parameter(help="codes made elsewhere, NAME=QUERIES,GALLERY; may be given several times")
    ] = None,
    fit: Annotated[Path | None, Parameter(help="embeddings to learn from, if not from the gallery")] = None,
    similarity: Annotated[
        Literal["cosine", "dot", "euclidean"] | None,
        Parameter(help="how the features themselves are searched, for comparison (euclidean)"),
    ] = None,
    near: Annotated[
        str | None,
        Parameter(help='in a study, which items are near-duplicates, by model: such as "phash=6 dino=0.97"'),
    ] = None,
    title: Annotated[str | None, Parameter(help="of the report; by default the name of the data")] = None,
    output: Annotated[Path, Parameter(help="where to write the report"), Output(".html")] = Path(
        "lookalike-report.html"
    ),
    setting: SETTING = None,
    source: SOURCE = None,
    labels: LABELS = None,
    seed: SEED = 0,
    as_json: JSON = False,
) -> None:
    """Compare hashers on your data, or show what is in a study: one HTML file with numbers, charts and pictures.

    Of a study: near-duplicates, look-alikes, models compared, what shorter codes cost; and once experts have voted, the
    leaderboard.

    Example: lookalike report photos/ --features efficientnet-lite0 --hashers "ITQ SH tie-aware-ap" --bits "32 64"

    Example: lookalike report queries.npz gallery.npz --codes mine=my-queries.npz,my-gallery.npz

    Example: lookalike report shop --hashers "ITQ SH" --bits "32 64" --output shop.html
    """
    from lookalike.report import check_installed

    check_installed()
    if gallery is None and (Path(data) / "study.toml").is_file():
        given: dict[str, Any] = {"features": features, "codes": codes, "fit": fit, "title": title}
        given |= {"similarity": similarity, "setting": setting, "source": source, "labels": labels}
        _refuse("is not for a study, whose models and labels are known", **given)
        chosen = None
        if hashers is not None or bits is not None:
            chosen = _hashers(hashers or "ITQ", bits or STUDY_LENGTHS, seed)
        _report_study(Path(data), output, chosen, _limits(near), seed, as_json)
        return
    _refuse("is for a study, in which near-duplicates are looked for", near=near)
    others = [_named_codes(text) for text in codes or []]
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


def _report_study(
    folder: Path,
    output: Path,
    chosen: list[tuple[str, "Hasher"]] | None,
    near: dict[str, float],
    seed: int,
    as_json: bool,
) -> None:
    """Survey a study, and where experts voted, compare its models on what they said."""
    from lookalike.report.collection import write_collection
    from lookalike.study.survey import survey

    opened = open_judged(folder)
    if not opened.models():
        raise ValueError(
            f"the study has no model yet: lookalike study add {folder} NAME FILE, or make one of a folder of images "
            "with lookalike encode"
        )
    with progress():
        found = survey(opened, near=near, hashers=chosen, seed=seed)
        judged = _judged(opened, seed) if len(opened.votes()) else None
    everything: dict[str, Any] = {"survey": found.to_dict()}
    if judged is not None:
        everything["leaderboard"] = judged.board.to_dict()
        if judged.loo is not None:
            everything["leaderboard"]["leave_one_out"] = judged.loo.rows()
    for name, part in everything.items():
        write_result(opened, f"{name}.json", json.dumps(without_nan(part), indent=1, allow_nan=False) + "\n")
    write_collection(output, found, opened, judged)
    if as_json:
        print_json(everything | {"report": str(output)})
        return
    _show_survey(found)
    if judged is not None:
        tables().print(f"\n{judged.board.text(warnings=False)}")
        for warning in judged.board.warnings:
            remark(warning)
    say_how_to_open(output)


def _judged(opened: "Study", seed: int) -> "JudgedStudy":
    from lookalike import discovery
    from lookalike.report.collection import JudgedStudy

    judgements = judgements_of(opened, "majority")
    pool = opened.pool() if opened.pool_path.exists() else None
    models = {name: opened.model(name).given for name in opened.models()}
    board = discovery.leaderboard(models, judgements, opened.collection, pool=pool, seed=seed)
    several = pool is not None and len(pool.models) > 1
    loo = discovery.leave_one_out(board.contest, pool) if several and pool is not None else None
    return JudgedStudy(board, pool, loo, opened.votes(), judgements)


def _limits(near: str | None) -> dict[str, float]:
    """Up to which two items are near-duplicates, by model."""
    found = {}
    for part in re.split(r"[,\s]+", (near or "").strip()):
        if part:
            model, _, value = part.rpartition("=")
            try:
                found[model] = float(value)
            except ValueError:
                raise ValueError(f'--near must be like "phash=6 dino=0.97", got {near!r}') from None
            if not model:
                raise ValueError(f'--near must be like "phash=6 dino=0.97", got {near!r}')
    return found


def _show_survey(found: "Survey") -> None:
    say = prose().print
    say(f"{found.title}: {len(found.ids):,} items, {len(found.models)} models\n")
    if found.skipped:
        say(f"{len(found.skipped):,} files of the folder were left out\n")
    near = table(
        ("near-duplicates", ""), ("groups", ""), ("from", ""), ("nearest of different label", ""), first="model"
    )
    for name, alike in found.alike.items():
        first = alike.near.pairs[0].distance if alike.near.pairs else None
        near.add_row(
            name,
            f"{alike.near.grouped:,}",
            f"{len(alike.near.groups):,}",
            f"{alike.near.limit:.4g} ({alike.unit})",
            "–" if first is None else f"{first:.4g}",
        )
    if found.alike:
        tables().print(near)
    for retrieval in found.retrieval:
        metrics = retrieval.metrics
        rows = table(*((metric.label, "") for metric in metrics), first=f"\nsame {retrieval.label}")
        for model in retrieval.ranking():
            rows.add_row(model, *(shown(retrieval.evaluations[model][metric].mean) for metric in metrics))
        tables().print(rows)
    _show_tradeoff(found)
    for part, why in found.missing.items():
        say(f"\nnot measured: {part}: {why}")


def _show_tradeoff(found: "Survey") -> None:
    if found.tradeoff is None:
        return
    k = found.tradeoff.k
    columns = ("bits", "bytes", f"of the {k} nearest", *(["AP"] if found.tradeoff.label else []), "queries/s")
    rows = table(*((name, "") for name in columns), first=f"\n{found.tradeoff.model} as")
    for option in found.tradeoff.options:
        rows.add_row(
            option.name,
            "–" if option.n_bits is None else str(option.n_bits),
            f"{option.bytes:,}",
            shown(option.agreement),
            *([shown(option.quality)] if found.tradeoff.label else []),
            f"{option.per_second:,.0f}",
        )
    tables().print(rows)
    for name, why in found.tradeoff.left_out:
        prose().print(f"\nleft out: {name}: {why}")


def _refuse(why: str, **options: Any) -> None:
    """Raise where an option was given that means nothing here."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"--{name} {why}")


def _items_task(queries: Path, gallery: Path, fit: Path | None) -> "Task":
    from lookalike.evaluation.item_files import read_items
    from lookalike.experiments.task import items_task

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
    from lookalike.core.codes import Codes
    from lookalike.evaluation.item_files import read_items

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
    from lookalike.experiments.trials import try_hashers

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
