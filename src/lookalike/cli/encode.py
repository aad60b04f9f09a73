"""`lookalike encode`."""

import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, validators

from lookalike.cli.options import JSON
from lookalike.cli.outputs import Output
from lookalike.cli.terminal import print_json, printable, progress, remark, tables
from lookalike.core.endings import TABLES, either
from lookalike.core.errors import StudyError

if TYPE_CHECKING:
    from lookalike.study.encode import Encoded
    from lookalike.study.image_files import ImageFile

SHOWN = 5  # files of each reason that are listed on the terminal; the study lists all

FOLDER = Annotated[Path, Parameter(help="a folder of images, with folders in it; or a study")]
MODEL = Annotated[
    str,
    Parameter(
        help="efficientnet-lite0, phash, FILE.lookalike (of finetune), onnx:FILE, timm:NAME, open_clip:NAME/TAG, "
        "hf:NAME or another of lookalike encoders"
    ),
]
STUDY_FOLDER = Annotated[
    Path | None,
    Parameter(help="the folder of the study; by default FOLDER-study in the current folder"),
    Output(folder=True, owns="study"),
]
FOLDERS = Annotated[
    Literal["category", "identity", "category/identity", "nothing"] | None,
    Parameter(help="what the folders are that images lie in (category)"),
]
LABELS = Annotated[
    Path | None, Parameter(help=f"{either(TABLES)} with columns file, category, identity and any others")
]
SIZE = Annotated[
    int | None,
    Parameter(help="pixels that the network sees, of pixels (32), efficientnet-lite0 (112) and networks in packages"),
]
TEXT = Annotated[
    Path | None,
    Parameter(help="the text side of onnx:FILE, a model in ONNX too: lookalike search then takes words"),
]
TOKENIZER = Annotated[Path | None, Parameter(help="of the text model (tokenizer.json beside it)")]
NAME = Annotated[str | None, Parameter(help="of the model in the study; by default after the encoder")]
MAX_PIXELS = Annotated[
    int | None,
    Parameter(help="refuse larger images without decoding them (89,478,485)", validator=validators.Number(gte=1)),
]
READERS = Annotated[
    int | None,
    Parameter(
        help="that read images, and encode them if that is done one by one; as many as cores",
        validator=validators.Number(gte=1),
    ),
]

__all__ = ["encode"]


def encode(
    folder: FOLDER,
    /,
    *,
    model: MODEL = "efficientnet-lite0",
    study: STUDY_FOLDER = None,
    folders: FOLDERS = None,
    labels: LABELS = None,
    size: SIZE = None,
    text: TEXT = None,
    tokenizer: TOKENIZER = None,
    name: NAME = None,
    max_pixels: MAX_PIXELS = None,
    threads: READERS = None,
    as_json: JSON = False,
) -> None:
    """Encode a folder of images: makes a study, or brings it up to date, encoding only what is new or changed.

    A run that was ended goes on where it was. Files that cannot be used are listed with the reason.

    Example: lookalike encode photos

    Example: lookalike encode photos --model phash

    Example: lookalike encode products --labels products.csv --study shop --model onnx:clip.onnx

    Example: lookalike encode shop --model onnx:clip.onnx --text clip-text.onnx --tokenizer tokenizer.json

    Of a study that was made from a catalogue, the images that the catalogue names are encoded.

    Example: lookalike encode emoji-study --model phash
    """
    from lookalike.study.encode import NothingUsableError, encode_folder
    from lookalike.study.encode_catalogue import encode_catalogue

    images, study_folder = _images_and_study(folder, study)
    options = _given(size=size)
    text_side = _given(text=text, tokenizer=tokenizer)
    started = time.monotonic()
    try:
        with progress():
            if images is None:
                _check_catalogue(study_folder, labels, folders)
                encoded = encode_catalogue(
                    study_folder, model=model, options=options, text=text_side, name=name, threads=threads,
                    max_pixels=max_pixels,
                )  # fmt: skip
            else:
                encoded = encode_folder(
                    images, study_folder, model=model, options=options, text=text_side, name=name, labels=labels,
                    folders=folders, threads=threads, max_pixels=max_pixels,
                )  # fmt: skip
    except NothingUsableError as error:
        _list_skipped(list(error.skipped), None)
        raise
    seconds = time.monotonic() - started
    if as_json:
        print_json(_facts(encoded, seconds))
    else:
        _show(encoded, seconds, study_folder)


def _given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def _check_catalogue(folder: Path, labels: Path | None, folders: str | None) -> None:
    """Raise for options that a study made from a catalogue does not take; say what is not done."""
    from lookalike.study.study import Study

    for option, value in (("--labels", labels), ("--folders", folders)):
        if value is not None:
            raise StudyError(f"{folder} was made from a catalogue, which says what images show: leave out {option}")
    if "bbox" in Study.open(folder).catalogue.attributes:
        remark(
            "images are encoded whole, also where the catalogue has a box: lookalike data deepfashion-inshop --images "
            "writes images that are cut to their boxes"
        )


def _images_and_study(folder: Path, study: Path | None) -> tuple[Path | None, Path]:
    """The folder of images, None for a study made from a catalogue; and that of the study."""
    if (folder / "study.toml").is_file():
        from lookalike.study.study import Study

        opened = Study.open(folder)
        if study is not None:
            raise StudyError(f"{folder} is a study already: --study is for a folder of images")
        if opened.folder is None:
            return None, folder
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


def _facts(encoded: "Encoded", seconds: float) -> dict[str, Any]:
    """What was done, for other programs."""
    return {
        "study": str(encoded.study.path),
        "model": encoded.model,
        "models": encoded.study.models(),
        "images": len(encoded.study.catalogue),
        "encoded": encoded.encoded,
        "new": encoded.new,
        "changed": encoded.changed,
        "same": encoded.same,
        "removed": encoded.removed,
        "skipped": [{"file": file.path, "reason": file.reason} for file in encoded.skipped],
        "left_out": encoded.left_out,
        "seconds": seconds,
    }


def _show(encoded: "Encoded", seconds: float, study: Path) -> None:
    """Print what was done, what was skipped, and what to do next."""
    say = tables().print
    changes = [
        f"{count:,} {what}"
        for count, what in ((encoded.new, "new"), (encoded.changed, "changed"), (len(encoded.removed), "removed"))
        if count
    ]
    rate = f", {encoded.encoded / seconds:,.0f} a second" if encoded.encoded else ""
    images = f"{len(encoded.study.catalogue):,} images"
    if encoded.study.wild:
        images += f" and {len(encoded.study.queries):,} of queries"
    say(f"{images}: {', '.join(changes) or 'nothing new'}; model {encoded.model}")
    say(f"{encoded.encoded:,} encoded in {seconds:.1f} s{rate}")
    _list_skipped(encoded.skipped, study)
    for names, what in (
        (encoded.left_out, "new, but left out, since the study has a pool"),
        (encoded.unlabelled, "without a row among the labels"),
        (encoded.strange_labels, "with labels, but not there"),
    ):
        if names:
            some = ", ".join(map(printable, names[:3])) + (", …" if len(names) > 3 else "")
            remark(f"{_counted(len(names), 'file')} {what}: {some}")
    say(f"\nThe study is {study}. Next:\n  lookalike look {study}\n  lookalike search {study} IMAGE")
    judged = f"study queries {study} --draw 100" if encoded.study.folder is not None else f"pool {study}"
    say(f"or, for experts to judge which look alike:\n  lookalike {judged}")


def _list_skipped(skipped: "list[ImageFile]", study: Path | None) -> None:
    """Print each reason with its first files, on standard error."""
    if not skipped:
        return
    by_reason: dict[str, list[str]] = defaultdict(list)
    for file in skipped:
        by_reason[file.reason].append(file.path)
    where = "" if study is None else f" (all of them: {study / 'images.csv'})"
    remark(f"{_counted(len(skipped), 'file')} skipped{where}")
    for reason, names in sorted(by_reason.items(), key=lambda each: -len(each[1])):
        more = f", and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
        remark(f"  {', '.join(map(printable, names[:SHOWN]))}{more}: {reason}")


def _counted(n: int, what: str) -> str:
    """A number and a noun in its plural."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"
