"""`lookalike encode`, `index` and `search`: from a folder of images to look-alikes."""

import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, validators

from lookalike.cli.outputs import Output
from lookalike.cli.studies import STUDY
from lookalike.cli.terminal import JSON, SEED, print_json, progress, remark, say_how_to_open, table, tables

if TYPE_CHECKING:
    from lookalike.study.encode import Encoded
    from lookalike.study.finder import Finder, Looks
    from lookalike.study.image_files import ImageFile
    from lookalike.study.study import Study

SHOWN = 5  # files of each reason that are listed on the terminal; the study lists all

__all__ = ["encode", "index", "search"]


def encode(
    folder: Annotated[Path, Parameter(help="a folder of images, with folders in it; or a study made from one")],
    /,
    *,
    model: Annotated[
        str,
        Parameter(
            help="efficientnet-lite0, phash, dhash, pixels, colour, onnx:FILE, timm:NAME, open_clip:NAME/TAG or hf:NAME"
        ),
    ] = "efficientnet-lite0",
    study: Annotated[
        Path | None,
        Parameter(help="the folder of the study; by default FOLDER-study in the current folder"),
        Output(folder=True, owns="study"),
    ] = None,
    folders: Annotated[
        Literal["category", "identity", "category/identity", "nothing"] | None,
        Parameter(help="what the folders are that images lie in (category)"),
    ] = None,
    labels: Annotated[
        Path | None, Parameter(help=".csv or .parquet with columns file, category, identity and any others")
    ] = None,
    size: Annotated[
        int | None, Parameter(help="pixels that the network sees, of efficientnet-lite0 (112) and pixels (32)")
    ] = None,
    name: Annotated[str | None, Parameter(help="of the model in the study; by default after the encoder")] = None,
    max_pixels: Annotated[
        int | None,
        Parameter(help="refuse larger images without decoding them (89,478,485)", validator=validators.Number(gte=1)),
    ] = None,
    threads: Annotated[
        int | None,
        Parameter(
            help="that read images while the network works; as many as cores", validator=validators.Number(gte=1)
        ),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Encode a folder of images: makes a study, or brings it up to date, encoding only what is new or changed.

    A run that was ended goes on where it was. Files that cannot be used are listed with the reason.

    Example: lookalike encode photos

    Example: lookalike encode photos --model phash

    Example: lookalike encode products --labels products.csv --study shop --model onnx:clip.onnx
    """
    from lookalike.study.encode import NothingUsableError, encode_folder

    images, place = _images_and_study(folder, study)
    started = time.monotonic()
    try:
        with progress():
            done = encode_folder(
                images, place, model=model, options={} if size is None else {"size": size}, name=name, labels=labels,
                folders=folders, threads=threads, max_pixels=max_pixels,
            )  # fmt: skip
    except NothingUsableError as error:
        _list_skipped(list(error.skipped), None)
        raise
    seconds = time.monotonic() - started
    if as_json:
        print_json(_encoded_facts(done, seconds))
        return
    _say_encoded(done, seconds, place)


def _images_and_study(folder: Path, study: Path | None) -> tuple[Path, Path]:
    """The folder of images, and that of the study."""
    if (folder / "study.toml").is_file():
        from lookalike.study.study import Study

        opened = Study.open(folder)
        if opened.folder is None:
            raise ValueError(f"{folder} is a study that was not made from a folder of images: pass a folder of images")
        if study is not None:
            raise ValueError(f"{folder} is a study already: --study is for a folder of images")
        images = (folder / opened.folder["images"]).resolve()
        if not images.is_dir():
            raise FileNotFoundError(
                f"the images of the study were in {images}, which is gone: "
                f"if it was moved, lookalike encode NEW_FOLDER --study {folder}"
            )
        return images, folder
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    return folder, study or Path(f"{folder.resolve().name or 'images'}-study")


def _encoded_facts(done: "Encoded", seconds: float) -> dict[str, Any]:
    return {
        "study": str(done.study.path),
        "model": done.model,
        "models": done.study.models(),
        "images": len(done.study.catalogue),
        "encoded": done.encoded,
        "new": done.new,
        "changed": done.changed,
        "same": done.same,
        "removed": done.removed,
        "skipped": [{"file": file.path, "reason": file.reason} for file in done.skipped],
        "left_out": done.left_out,
        "seconds": seconds,
    }


def _say_encoded(done: "Encoded", seconds: float, place: Path) -> None:
    say = tables().print
    changes = [
        f"{count:,} {what}"
        for count, what in ((done.new, "new"), (done.changed, "changed"), (len(done.removed), "removed"))
        if count
    ]
    rate = f", {done.encoded / seconds:,.0f} a second" if done.encoded else ""
    say(f"{len(done.study.catalogue):,} images: {', '.join(changes) or 'nothing new'}; model {done.model}")
    say(f"{done.encoded:,} encoded in {seconds:.1f} s{rate}")
    _list_skipped(done.skipped, place)
    for names, what in (
        (done.left_out, "new, but left out, since the study has a pool"),
        (done.unlabelled, "without a row among the labels"),
        (done.strange_labels, "with labels, but not there"),
    ):
        if names:
            some = ", ".join(map(_printable, names[:3])) + (", …" if len(names) > 3 else "")
            remark(f"{_counted(len(names), 'file')} {what}: {some}")
    say(f"\nThe study is {place}. Next:\n  lookalike look {place}\n  lookalike search {place} IMAGE")
    say(f"or, for experts to judge which look alike:\n  lookalike study queries {place} --draw 100")


def _list_skipped(skipped: "list[ImageFile]", place: Path | None) -> None:
    """Every reason with its first files, on standard error."""
    if not skipped:
        return
    by_reason: dict[str, list[str]] = defaultdict(list)
    for file in skipped:
        by_reason[file.reason].append(file.path)
    where = "" if place is None else f" (all of them: {place / 'images.csv'})"
    remark(f"{_counted(len(skipped), 'file')} skipped{where}")
    for reason, names in sorted(by_reason.items(), key=lambda each: -len(each[1])):
        more = f", and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
        remark(f"  {', '.join(map(_printable, names[:SHOWN]))}{more}: {reason}")


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _printable(name: str) -> str:
    """A name on one line."""
    return name if name.isprintable() else repr(name)


def index(
    folder: STUDY,
    /,
    *,
    model: Annotated[str | None, Parameter(help="which of the study; by default all that have vectors")] = None,
    hasher: Annotated[
        str | None,
        Parameter(help="hash the embeddings first, by ITQ or another; the codes become a model of the study"),
    ] = None,
    bits: Annotated[int | None, Parameter(help="length of the codes (64)", validator=validators.Number(gte=1))] = None,
    kind: Annotated[
        Literal["auto", "exact", "ivf", "hnsw"], Parameter(help="auto is exact where that takes milliseconds, else ivf")
    ] = "auto",
    recall: Annotated[
        float, Parameter(help="that an approximate index is to reach", validator=validators.Number(gt=0, lte=1))
    ] = 0.99,
    seed: SEED = 0,
    as_json: JSON = False,
) -> None:
    """Make the models of a study fast to search, and measure how many of the nearest an index finds, and how fast.

    Example: lookalike index photos-study

    Example: lookalike index photos-study --model efficientnet-lite0 --hasher ITQ --bits 64
    """
    from lookalike.study.finder import build_index, default_model
    from lookalike.study.hashed_models import hash_model
    from lookalike.study.study import Study

    opened = Study.open(folder)
    if bits is not None and hasher is None:
        raise ValueError("--bits is the length of codes that a hasher makes: add --hasher ITQ")
    with progress():
        if hasher is not None:
            names = [hash_model(opened, model or default_model(opened), hasher, bits or 64, seed)]
        else:
            names = [model] if model is not None else _searchable(opened)
        rows = [_measured(name, build_index(opened, name, kind=kind, target=recall, seed=seed)) for name in names]
    if as_json:
        print_json({"study": str(opened.path), "indexes": rows})
        return
    shown = table(
        ("items", ""), ("of", ""), ("index", ""), ("recall", "bold"), ("times as fast as exact", ""), first="model"
    )
    for row in rows:
        found = "1, exact" if row["recall"] is None else f"{row['recall']:.4f} of the first {row['k']}"
        speed = "1" if row["speedup"] is None else f"{row['speedup']:.1f}"
        shown.add_row(row["model"], f"{row['items']:,}", row["of"], row["kind"], found, speed)
    tables().print(shown)


def _measured(name: str, built: Any) -> dict[str, Any]:
    of = f"codes of {built.items.n_bits} bits" if built.similarity is None else f"{built.items.shape[1]:,} numbers"
    measured = built.measured
    return {
        "model": name,
        "items": len(built),
        "of": of,
        "kind": built.kind,
        "recall": None if measured is None else measured.recall,
        "k": None if measured is None else measured.k,
        "queries": None if measured is None else measured.n_queries,
        "speedup": None if measured is None else measured.speedup,
    }


def _searchable(opened: "Study") -> list[str]:
    names = [name for name in opened.models() if (opened.path / "models" / f"{name}.npz").is_file()]
    if not names:
        raise ValueError(f"the study {opened.name!r} has no model to search by: lookalike encode makes one")
    return names


def search(
    folder: STUDY,
    image: Annotated[str, Parameter(help="an image file, or the id of an item of the study")],
    /,
    *,
    k: Annotated[int, Parameter(name=["-k", "--k"], help="how many to show", validator=validators.Number(gte=1))] = 20,
    model: Annotated[str | None, Parameter(help="which of the study; by default a network's")] = None,
    where: Annotated[str | None, Parameter(help="search only items with this value, such as category=shoes")] = None,
    html: Annotated[bool, Parameter(help="write a page with the pictures")] = False,
    output: Annotated[Path, Parameter(help="where to write the page"), Output(".html", only_with="html")] = Path(
        "lookalike-search.html"
    ),
    as_json: JSON = False,
) -> None:
    """Find what looks like an image: the nearest items of a study, with their distances and ties.

    Example: lookalike search photos-study cat.jpg

    Example: lookalike search photos-study shoes/001.jpg -k 50 --html
    """
    from lookalike.study.finder import Finder, default_model
    from lookalike.study.study import Study

    opened = Study.open(folder)
    finder = Finder(opened, model or default_model(opened))
    item = _item(opened, image)
    among = None if where is None else _among(opened, where)
    looks = (
        finder.like_item(item, k, among=among) if item is not None else finder.like_picture(Path(image), k, among=among)
    )
    if html:
        from lookalike.report.search_results import write_looks

        query = opened.image_path(item) if item is not None else Path(image)
        write_looks(output, finder, looks, query, image)
    if as_json:
        print_json(_looks_facts(finder, looks, image, item is not None))
        return
    _show_looks(finder, looks)
    if html:
        say_how_to_open(output)


def _item(opened: "Study", image: str) -> int | None:
    """The item that is meant by an id, or by the path of its file; None for another file."""
    ids = opened.catalogue.ids
    named = [*(ids == image).nonzero()[0].tolist()]
    if named:
        return int(named[0])
    path = Path(image)
    if not path.exists():
        import difflib

        nearest = difflib.get_close_matches(image, ids[:100_000].tolist(), 1, 0.5)
        hint = f": did you mean {nearest[0]}?" if nearest else f": ids are like {ids[0]}"
        raise ValueError(f"there is no file {image}, and no item of that id in the study{hint}")
    if opened.folder is None:
        return None
    images = (opened.path / opened.folder["images"]).resolve()
    for there in (path.parent.resolve() / path.name, path.resolve()):  # it may be a link, and is then named as one
        if there.is_relative_to(images):
            named = (ids == there.relative_to(images).as_posix()).nonzero()[0].tolist()
            if named:
                return int(named[0])
    return None


def _among(opened: "Study", where: str) -> Any:
    column, equals, value = where.partition("=")
    if not equals:
        raise ValueError(f"--where must be COLUMN=VALUE, such as category=shoes, got {where!r}")
    values = opened.catalogue.column(column.strip())
    among = values.astype(str) == value
    if not among.any():
        some = ", ".join(sorted(set(values.astype(str).tolist()))[:5])
        raise ValueError(f"no item has the {column} {value!r}: values are {some}, …")
    return among


def _rows(finder: "Finder", looks: "Looks") -> list[dict[str, Any]]:
    """What was found, a dictionary for each item; tied items share the ranks from the first to the last of them."""
    from lookalike.study.finder import grouped

    catalogue = finder.study.catalogue
    labels = {"category": catalogue.categories, "identity": catalogue.identities}
    rows = []
    for group in grouped(looks):
        for item in group.items:
            row: dict[str, Any] = {
                "id": str(catalogue.ids[item]),
                "rank": group.first,
                "last_rank": group.first + group.size - 1,
                "distance" if finder.n_bits is not None else "score": group.distance,
            }
            row |= {name: str(values[item]) for name, values in labels.items() if values is not None}
            if (path := finder.study.image_path(item)) is not None:
                row["path"] = str(path)
            rows.append(row)
    return rows


def _looks_facts(finder: "Finder", looks: "Looks", image: str, is_item: bool) -> dict[str, Any]:
    return {
        "query": image,
        "is_item": is_item,
        "model": finder.model,
        "measure": "Hamming distance" if finder.n_bits is not None else finder.similarity,
        "index": finder.index.kind,
        "found": _rows(finder, looks),
        "more_as_near_as_the_last": looks.more,
    }


def _show_looks(finder: "Finder", looks: "Looks") -> None:
    from lookalike.study.finder import grouped, nearness

    catalogue = finder.study.catalogue
    labels = {"category": catalogue.categories, "identity": catalogue.identities}
    named = {name: values for name, values in labels.items() if values is not None}
    word, shown = nearness(finder)
    rows = table((word, "bold"), first="rank")
    for name in ("item", *named):
        rows.add_column(name, no_wrap=True)
    for group in grouped(looks):
        for item in group.items:
            columns = (str(values[item]) for values in (catalogue.ids, *named.values()))
            rows.add_row(group.ranks, shown(group.distance), *map(_printable, columns))
    say = tables().print
    what = f"Hamming distance of {finder.n_bits} bits" if finder.n_bits is not None else str(finder.similarity)
    say(f"{finder.model}, {what}{'' if finder.index.kind == 'exact' else f', {finder.index.kind}'}\n")
    say(rows)
    if looks.more:
        say(f"and {looks.more:,} more that {'is' if looks.more == 1 else 'are'} as near as the last")
