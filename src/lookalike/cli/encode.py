"""`lookalike encode`."""

import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, validators

from lookalike.cli.options import JSON
from lookalike.cli.outputs import Output
from lookalike.cli.terminal import print_json, printable, progress, remark, tables

if TYPE_CHECKING:
    from lookalike.study.encode import Encoded
    from lookalike.study.image_files import ImageFile

SHOWN = 5  # files of each reason that are listed on the terminal; the study lists all

__all__ = ["encode"]


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
            some = ", ".join(map(printable, names[:3])) + (", …" if len(names) > 3 else "")
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
        remark(f"  {', '.join(map(printable, names[:SHOWN]))}{more}: {reason}")


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"
