"""From a folder of images to a study, and again whenever the folder has changed: only what is new is encoded."""

import contextlib
import fcntl
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.codes import Codes
from lookalike.discovery.catalogue import Catalogue
from lookalike.files import read_arrays
from lookalike.images import (
    PRESENT,
    REMOVED,
    SKIPPED,
    ImageFile,
    Labels,
    files_below,
    read_files,
    write_files,
)
from lookalike.rows import Rows
from lookalike.study import UNFINISHED, Recipe, Study, check_name, stored_vectors

__all__ = ["Encoded", "encode_folder", "hash_model", "model_name"]


@dataclass(frozen=True, eq=False)
class Encoded:
    """What came of encoding a folder: the study, and how many of its files are new, changed, the same or removed."""

    study: Study
    model: str
    encoded: int  # by a network, all models together; the others were known
    new: int
    changed: int
    same: int
    removed: list[str]
    skipped: list[ImageFile]
    left_out: list[str]  # new files, where a pool holds the study to its items
    unlabelled: list[str]
    strange_labels: list[str]


def encode_folder(
    folder: str | Path,
    study: str | Path,
    *,
    model: str = "efficientnet-lite0",
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    labels: str | Path | None = None,
    folders: str | None = None,
    threads: int | None = None,
    max_pixels: int | None = None,
) -> Encoded:
    """Make a study of the images in a folder, or bring it up to date, and encode them with a model.

    All models that were encoded before are brought up to date too. Images are found again by their contents: those
    that were moved, or that are there twice, are encoded once. What was encoded is kept at once, so that a run that
    was ended goes on where it was, and its result is the same to the last bit. name: of the model in the study.
    labels, folders: as in `lookalike.images.Labels`; an existing study remembers them.
    """
    from lookalike.encoders import MAX_PIXELS, load

    root, place = Path(folder).resolve(), Path(study).resolve()
    if not root.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    opened = _existing(place)
    origin = _origin(opened, place, root, labels, folders)
    encoder = load(_anywhere(model), **options or {})
    name = name or model_name(model, options or {})
    recipe = Recipe(encoder.name, encoder.version, dict(options or {}))
    _check_model(opened, name, recipe)
    table = (place / origin["labels"]).resolve() if "labels" in origin else None
    labelled = Labels(origin["folders"], table)
    with _alone(place) as unfinished:
        before = read_files(place / "images.csv") if (place / "images.csv").is_file() else {}
        files = files_below(root, before, leave_out=place)
        frozen = opened is not None and opened.pool_path.exists()
        files, left_out = _frozen(files, before) if frozen else (files, [])
        _check_followers(opened, files, before)
        todo = _recipes(opened) | {name: recipe}
        known: dict[str, Rows] = {}
        n_encoded = 0
        for each, made_by in todo.items():
            rows = Rows(unfinished, each, made_by, max_pixels or MAX_PIXELS)
            rows.know(_of_model(place, each, made_by))
            n_encoded += rows.encode(root, files, encoder if each == name else None, threads)
            files = [_skipped(file, rows.reasons) for file in files]
            known[each] = rows
        usable = [file for file in files if file.state == PRESENT]
        if not usable:
            raise NothingUsableError(folder, [file for file in files if file.state == SKIPPED])
        done = _write(opened, place, root, origin, labelled, usable, known, todo)
        removed = _removed(files, before)
        write_files(place / "images.csv", sorted([*files, *removed], key=lambda file: file.path))
        shutil.rmtree(unfinished)
    counts = Counter(_change(file, before) for file in usable)
    unlabelled, strange = labelled.strangers([file.path for file in usable])
    return Encoded(
        done, name, n_encoded, counts["new"], counts["changed"], counts["same"], [file.path for file in removed],
        [file for file in files if file.state == SKIPPED], left_out, unlabelled, strange,
    )  # fmt: skip


class NothingUsableError(ValueError):
    """None of the files of a folder is an image that can be encoded; `skipped` says why."""

    def __init__(self, folder: str | Path, skipped: Sequence[ImageFile]) -> None:
        named = [file for file in skipped if file.reason != "not named like an image"]
        if not skipped:
            why = f"there is no image in {folder}: it is empty"
        elif not named:
            why = f"there is no image in {folder}: none of its {len(skipped):,} files is named like one"
        else:
            why = f"none of the {len(named):,} images in {folder} can be used; {named[0].path}: {named[0].reason}"
        super().__init__(why)
        self.skipped = skipped


def model_name(model: str, options: Mapping[str, Any]) -> str:
    """What a model is called in a study, from the name of its encoder.

    >>> model_name("onnx:exported/CLIP B32.onnx", {}), model_name("efficientnet-lite0", {"size": 224})
    ('CLIP-B32', 'efficientnet-lite0-224')
    """
    kind, colon, rest = model.partition(":")
    short = Path(rest).stem if colon and kind.lower() == "onnx" else f"{kind.lower()}-{rest}" if colon else kind.lower()
    name = "-".join([short, *map(str, options.values())])
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip("-._+")[:100] or "model"


# Before anything is encoded


def _existing(place: Path) -> Study | None:
    try:
        return Study.open(place)
    except FileNotFoundError:
        return None
    except ValueError:
        begun = [entry for entry in place.iterdir() if entry.name == UNFINISHED or entry.name.startswith(".study.")]
        if len(begun) < len([*place.iterdir()]):
            raise
        return None


def _origin(
    opened: Study | None, place: Path, root: Path, labels: str | Path | None, folders: str | None
) -> dict[str, Any]:
    """Where a study's images and labels come from, as study.toml has it."""
    before: dict[str, Any] = {}
    if opened is not None:
        if opened.folder is None:
            raise ValueError(
                f"{place} is a study that was not made from a folder of images: choose another --study for {root}"
            )
        before = opened.folder
        if (place / before["images"]).resolve() != root:
            raise ValueError(
                f"{place} is a study of the images in {(place / before['images']).resolve()}: "
                f"choose another --study for those in {root}"
            )
    origin = {"images": _relative(root, place), "folders": folders or before.get("folders", "category")}
    if labels is not None:
        origin["labels"] = _relative(Path(labels).resolve(), place)
    elif "labels" in before:
        origin["labels"] = before["labels"]
    return origin


def _anywhere(model: str) -> str:
    """The name of an encoder, such that it is found from other folders too."""
    kind, colon, rest = model.partition(":")
    return (
        f"{kind}:{Path(rest).resolve()}" if colon and kind.lower() in ("onnx", "hf") and Path(rest).exists() else model
    )


def _relative(path: Path, start: Path) -> str:
    """A path as seen from a folder, with as many .. as it takes.

    >>> _relative(Path("/data/photos"), Path("/data/studies/shop"))
    '../../photos'
    """
    n_common = next((n for n, (a, b) in enumerate(zip(path.parts, start.parts, strict=False)) if a != b), None)
    if n_common is None:
        n_common = min(len(path.parts), len(start.parts))
    return "/".join([*[".."] * (len(start.parts) - n_common), *path.parts[n_common:]]) or "."


def _check_model(opened: Study | None, name: str, recipe: Recipe) -> None:
    """Raise where the study has another model of this name; one of another version is encoded anew."""
    check_name(name, "a model")
    if opened is None or name not in opened.models():
        return
    before = _all_recipes(opened)[name]
    if before is None or replace(before, version=recipe.version) != recipe:
        other = "was not encoded here" if before is None else f"is of {before.encoder}, made otherwise"
        raise ValueError(f"the study has a model {name!r} that {other}: choose another --name")


def _recipes(study: Study | None) -> dict[str, Recipe]:
    """How the models of a study were encoded, those that were, hashed ones apart."""
    if study is None:
        return {}
    return {name: recipe for name, recipe in _all_recipes(study).items() if recipe is not None and not recipe.hasher}


def _all_recipes(study: Study) -> dict[str, Recipe | None]:
    """How each model of a study was made; None: it came from a file. Its items may have changed since."""
    found: dict[str, Recipe | None] = {}
    for name in study.models():
        path = study.path / "models" / f"{name}.npz"
        about = read_arrays(path, [])[1] if path.is_file() else {}
        found[name] = Recipe(**about["recipe"]) if "recipe" in about else None
    return found


def _check_followers(opened: Study | None, files: Sequence[ImageFile], before: Mapping[str, ImageFile]) -> None:
    """Raise where the items change, but a model came from a file and cannot follow."""
    if opened is None:
        return
    there = {file.path for file in files if file.state == PRESENT}
    items = set(opened.catalogue.ids.tolist())
    skipped = {name for name, file in before.items() if file.state == SKIPPED}
    changed = {file.path for file in files if _change(file, before) == "changed"}
    if not (there - items - skipped or items - there or changed & items):
        return
    fixed = [name for name, recipe in _all_recipes(opened).items() if recipe is None]
    if fixed:
        raise ValueError(
            f"images of the study have changed, but its model {fixed[0]!r} was added from a file and cannot follow: "
            f"remove it with lookalike study remove {opened.path.name} {fixed[0]}, or make another study"
        )


def _frozen(files: Sequence[ImageFile], before: Mapping[str, ImageFile]) -> tuple[list[ImageFile], list[str]]:
    """The files of a study that has a pool, which must be as they were; and the paths of new ones."""
    kept = {name: file for name, file in before.items() if file.state == PRESENT}
    now = {file.path: file for file in files}
    for name, file in kept.items():
        if name not in now or now[name].content != file.content:
            what = "has changed" if name in now else "is gone"
            raise ValueError(
                f"the study has a pool, which was made of its images, but {name} {what}: put it back, or make another "
                "study for the images as they are now"
            )
    new = [file.path for file in files if file.path not in kept and file.state == PRESENT]
    return [file for file in files if file.path in kept or file.state == SKIPPED], new


def _change(file: ImageFile, before: Mapping[str, ImageFile]) -> str:
    was = before.get(file.path)
    if was is None or was.state != PRESENT:
        return "new"
    return "same" if was.content == file.content else "changed"


def _removed(files: Sequence[ImageFile], before: Mapping[str, ImageFile]) -> list[ImageFile]:
    """Files that are gone; those that were skipped before are forgotten."""
    there = {file.path for file in files}
    return [
        replace(file, state=REMOVED) for name, file in before.items() if name not in there and file.state != SKIPPED
    ]


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[Path]:
    """The folder for what is encoded but not yet a model, held by this process alone."""
    if not place.parent.is_dir():
        raise ValueError(f"cannot make a study in {place}: the folder {place.parent} does not exist")
    is_new = not place.exists()
    unfinished = place / UNFINISHED
    unfinished.mkdir(parents=True, exist_ok=True)
    handle = os.open(unfinished, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another process is encoding into {place}: wait until it has ended") from None
        yield unfinished
    finally:
        os.close(handle)
        with contextlib.suppress(OSError):  # where something was encoded, it stays for the next time
            unfinished.rmdir()
            if is_new:
                place.rmdir()


def _of_model(place: Path, name: str, recipe: Recipe) -> dict[str, np.ndarray]:
    """The rows that a model of the study has already, by content, if its encoder has not changed."""
    path = place / "models" / f"{name}.npz"
    if not path.is_file():
        return {}
    arrays, about = read_arrays(path)
    stored = stored_vectors(name, arrays, about)
    if stored is None or stored.contents is None or stored.recipe != recipe:
        return {}
    vectors = stored.gallery.unpack() if isinstance(stored.gallery, Codes) else stored.gallery
    assert vectors is not None
    return dict(zip(stored.contents.astype(str).tolist(), vectors, strict=True))


def _skipped(file: ImageFile, reasons: Mapping[str, str]) -> ImageFile:
    if file.state == PRESENT and file.content in reasons:
        return replace(file, state=SKIPPED, reason=reasons[file.content])
    return file


# When everything is encoded


def _write(
    opened: Study | None,
    place: Path,
    root: Path,
    origin: Mapping[str, Any],
    labels: Labels,
    usable: Sequence[ImageFile],
    known: Mapping[str, Rows],
    recipes: Mapping[str, Recipe],
) -> Study:
    """Make the study, or replace its items; then write the models that have changed."""
    from lookalike.encoders import kind_of

    catalogue = _catalogue(place, root, labels, usable)
    if opened is None:
        name = "".join(letter for letter in root.name if letter.isprintable()).strip() or "images"
        study = Study.create(place, name, catalogue, np.arange(len(catalogue)), folder=origin)
    elif opened.catalogue.digest != catalogue.digest or opened.folder != origin:
        study = opened.set_items(catalogue, _queries(opened, catalogue), origin)
    else:
        study = opened
    contents = np.array([file.content for file in usable], "S32")
    for name, recipe in recipes.items():
        if not _is_up_to_date(study, name, recipe, contents):
            gallery = known[name].of([file.content for file in usable])
            similarity = None if isinstance(gallery, Codes) else kind_of(recipe.encoder or "").similarity
            study.add_model(
                name, gallery=gallery, similarity=similarity, recipe=recipe, contents=contents, replace=True
            )
    for name, made in _all_recipes(study).items():
        if made is not None and made.hasher is not None:
            source = recipes.get(made.source or "", made)
            due = replace(made, version=source.version)
            if not _is_up_to_date(study, name, due, contents):
                _hash(study, name, due, contents)
    return study


def _catalogue(place: Path, root: Path, labels: Labels, usable: Sequence[ImageFile]) -> Catalogue:
    ids = [file.path for file in usable]
    columns = labels.of(ids)
    lead = _relative(root, place)  # may begin with ..
    paths = [f"{lead}/{path}" for path in ids]
    category, identity = columns.pop("category", None), columns.pop("identity", None)
    return Catalogue(ids, identity, category, paths, columns)  # type: ignore[arg-type]


def _queries(opened: Study, catalogue: Catalogue) -> np.ndarray:
    """Positions of the queries: all items, or those that are left of the ones that were chosen."""
    if len(opened.queries) == len(opened.catalogue):
        return np.arange(len(catalogue))
    left = np.flatnonzero(np.isin(catalogue.ids, opened.queries.ids))
    return left if len(left) else np.arange(len(catalogue))


def _is_up_to_date(study: Study, name: str, recipe: Recipe, contents: np.ndarray) -> bool:
    try:
        stored = study.model(name)
    except ValueError:  # there is none, or of other items
        return False
    return stored.recipe == recipe and stored.contents is not None and np.array_equal(stored.contents, contents)


# Hashed models


def hash_model(study: Study, source: str, hasher: str, n_bits: int, seed: int = 0) -> str:
    """Learn a hasher on the embeddings of a model, and keep the codes as a model of their own; its name."""
    from lookalike.hashers import make

    stored = study.model(source)
    if stored.gallery is None or isinstance(stored.gallery, Codes):
        raise ValueError(f"the model {source!r} is {stored.kind}: a hasher learns from embeddings")
    made = make(hasher, n_bits, seed)
    name = f"{source}-{hasher.lower()}-{n_bits}"
    recipe = stored.recipe or Recipe()
    recipe = replace(recipe, source=source, hasher=type(made).__name__, n_bits=n_bits, seed=seed)
    _hash(study, name, recipe, stored.contents)
    return name


def _hash(study: Study, name: str, recipe: Recipe, contents: np.ndarray | None) -> None:
    from lookalike.hashers import make

    assert recipe.source is not None
    assert recipe.hasher is not None
    assert recipe.n_bits is not None
    vectors = study.model(recipe.source).gallery
    hasher = make(recipe.hasher, recipe.n_bits, recipe.seed).fit(vectors)
    path = study.hasher_path(name)
    with study.changing():
        path.parent.mkdir(exist_ok=True)
        hasher.save(path)
    study.add_model(name, gallery=hasher.transform(vectors), recipe=recipe, contents=contents, replace=True)
