"""From a folder of images to a study, and again whenever the folder has changed: only what is new is encoded."""

import contextlib
import functools
import logging
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.endings import FINETUNED
from lookalike.core.errors import Option, StudyError
from lookalike.core.files import read_arrays
from lookalike.core.locks import take
from lookalike.discovery.catalogue import Catalogue
from lookalike.study.encoded_images import EncodedImages, read_encoded, say_if_changed
from lookalike.study.folder import UNFINISHED, check_name, finish_new_study
from lookalike.study.hashed_models import UnlearntError, hash_again
from lookalike.study.image_files import PRESENT, REMOVED, SKIPPED, ImageFile, files_below, read_files, write_files
from lookalike.study.image_labels import ImageLabels, read_labels
from lookalike.study.image_paths import relative_path
from lookalike.study.model import Recipe, stored_vectors
from lookalike.study.study import Study
from lookalike.study.text_sides import remember_text

logger = logging.getLogger("lookalike")

__all__ = [
    "Encoded",
    "NothingUsableError",
    "alone",
    "anywhere",
    "check_model",
    "encode_folder",
    "model_name",
    "vectors_of_model",
]


@dataclass(frozen=True, eq=False)
class Encoded:
    """The result of encoding a folder: the study, and how many of its files are new, changed, the same or removed."""

    study: Study
    model: str
    encoded: int  # images that were encoded now, by all models together
    new: int
    changed: int
    same: int
    removed: list[str]
    skipped: list[ImageFile]
    left_out: list[str]  # new files of a study that has a pool, as its items must stay
    unlabelled: list[str]
    strange_labels: list[str]


class NothingUsableError(StudyError):
    """None of the files of a folder is an image that can be encoded; `skipped` says why."""

    def __init__(self, folder: str, skipped: Sequence[ImageFile]) -> None:
        named = [file for file in skipped if file.reason != "not named like an image"]
        if not skipped:
            message = f"there is no image in {folder}: it is empty"
        elif not named:
            message = f"there is no image in {folder}: none of its {len(skipped):,} files is named like one"
        else:
            message = f"none of the {len(named):,} images in {folder} can be used; {named[0].path}: {named[0].reason}"
        super().__init__(message)
        self.skipped = skipped


def encode_folder(
    folder: str | Path,
    study: str | Path,
    *,
    model: str = "efficientnet-lite0",
    options: Mapping[str, Any] | None = None,
    text: Mapping[str, Any] | None = None,
    name: str | None = None,
    labels: str | Path | None = None,
    folders: str | None = None,
    threads: int | None = None,
    max_pixels: int | None = None,
) -> Encoded:
    """Make a study of the images in a folder, or bring it up to date, and encode them with a model.

    All models that were encoded before are brought up to date too. An image that was moved, or that is there twice, is
    encoded once: images are known by their contents. A run that is ended early loses little: the next one goes on from
    there, and the result is the same to the last bit. text: the text side of onnx:FILE, its options text and tokenizer,
    which the study remembers. name: of the model in the study. labels: a table, see
    `lookalike.study.image_labels.read_label_table`. folders: what the folders of a path are, see
    `lookalike.study.image_labels.ImageLabels`. An existing study remembers both.
    """
    from lookalike.encoders import MAX_PIXELS, load

    root, location = Path(folder).resolve(), Path(study).resolve()
    if not root.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    encoder = load(anywhere(model), **options or {}, **text or {})
    name = name or model_name(model, options or {})
    check_name(name, "a model")
    if location.is_dir():
        _existing(location)  # raises if there is something else, before anything is written there
    with alone(location) as unfinished:
        opened = _existing(location)
        update = _Update(
            root, location, unfinished, opened, _origin(opened, location, root, labels, folders),
            threads, max_pixels or MAX_PIXELS,
        )  # fmt: skip
        encoded = update.run(encoder, options or {}, name)
    if text:
        remember_text(encoded.study, name, encoder)
    return encoded


def model_name(model: str, options: Mapping[str, Any]) -> str:
    """The name of a model in a study, made of the name of its encoder.

    >>> model_name("onnx:exported/CLIP B32.onnx", {}), model_name("efficientnet-lite0", {"size": 224})
    ('CLIP-B32', 'efficientnet-lite0-224')
    >>> model_name("trained/Shop ID.lookalike", {})
    'Shop-ID'
    """
    if model.endswith(FINETUNED):
        model = f"onnx:{model}"
    kind, colon, rest = model.partition(":")
    short = Path(rest).stem if colon and kind.lower() == "onnx" else f"{kind.lower()}-{rest}" if colon else kind.lower()
    name = "-".join([short, *map(str, options.values())])
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip("-._+")[:100] or "model"


@dataclass(frozen=True, eq=False)
class _Update:
    """One run: the study as it was, the files as they are, and what becomes of both."""

    root: Path  # the folder of images
    location: Path  # the folder of the study
    unfinished: Path
    opened: Study | None  # None: it is made now
    origin: Mapping[str, Any]  # of images, labels and queries, as study.toml says it
    threads: int | None
    max_pixels: int

    @functools.cached_property
    def has_pool(self) -> bool:
        """Whether a pool holds the study to its items."""
        return self.opened is not None and self.opened.pool_path.exists()

    @functools.cached_property
    def labels(self) -> ImageLabels:
        """The labels of files, by their folders and the table of labels."""
        table = (self.location / self.origin["labels"]).resolve() if "labels" in self.origin else None
        return read_labels(self.origin["folders"], table)

    @functools.cached_property
    def recipes(self) -> dict[str, Recipe | None]:
        """How each model was made that the study has already."""
        return {} if self.opened is None else self.opened.recipes()

    @functools.cached_property
    def before(self) -> dict[str, ImageFile]:
        """The files of the run before, by path."""
        listed = self.location / "images.csv"
        return read_files(listed) if listed.is_file() else {}

    def run(self, encoder: Any, options: Mapping[str, Any], name: str) -> Encoded:
        """Go through the files, encode what is new of them, and write the study."""
        recipe = Recipe(encoder.name, encoder.version, dict(options))
        _ = self.labels  # read now: what is wrong with them is said before anything is encoded
        if self.opened is not None:
            check_model(self.opened, name, recipe)
            say_if_changed(name, self.recipes.get(name), recipe)
        files = files_below(self.root, self.before, leave_out=self.location)
        files, left_out = self._held(files) if self.has_pool else (files, [])
        self._check_followers([file for file in files if file.state == PRESENT and not self._was_skipped(file)])
        recipes = {each: made for each, made in self.recipes.items() if made is not None and not made.hasher}
        images: dict[str, EncodedImages] = {}
        n_encoded = 0
        for each, made in (recipes | {name: recipe}).items():
            images[each] = self._encoded(each, made, files, encoder if each == name else None)
            n_encoded += images[each].encode(self.root, files, self.threads)
            files = [_skipped(file, images[each].reasons) for file in files]
        usable = [file for file in files if file.state == PRESENT]
        skipped = [file for file in files if file.state == SKIPPED]
        if not usable:
            raise NothingUsableError(self.root.name, skipped)
        self._check_followers(usable)
        removed = self._removed(files)
        study = self._write(usable, images)
        with study.changing():
            write_files(self.location / "images.csv", sorted([*files, *removed], key=lambda file: file.path))
        shutil.rmtree(self.unfinished)
        changes = Counter(self._change(file) for file in usable)
        unlabelled, strange = self.labels.strangers([file.path for file in usable])
        return Encoded(
            study, name, n_encoded, changes["new"], changes["changed"], changes["same"],
            [file.path for file in removed], skipped, left_out, unlabelled, strange,
        )  # fmt: skip

    # Before anything is encoded

    def _check_followers(self, items: Sequence[ImageFile]) -> None:
        """Raise if the items change, but a model came from a file and cannot be made of the new items."""
        fixed = [name for name, recipe in self.recipes.items() if recipe is None]
        if self.opened is None or not fixed:
            return
        same = [file.path for file in items] == self.opened.catalogue.ids.tolist()
        if not same or any(self._change(file) == "changed" for file in items):
            raise StudyError(
                f"images of the study have changed, but its model {fixed[0]!r} was added from a file and cannot "
                f"follow: remove it with lookalike study remove {self.location.name} {fixed[0]}, or make another study"
            )

    def _held(self, files: Sequence[ImageFile]) -> tuple[list[ImageFile], list[str]]:
        """The files of a study with a pool, and the paths of new files; raises if a file is not as it was."""
        kept = {name: file for name, file in self.before.items() if file.state == PRESENT}
        now = {file.path: file for file in files}
        for name, file in kept.items():
            if name not in now or now[name].content != file.content:
                what = "has changed" if name in now else "is gone"
                raise StudyError(
                    f"the study has a pool, which was made of its images, but {name} {what}: put it back, or make "
                    "another study for the images as they are now"
                )
        held = [self.before[file.path] if self._was_skipped(file) else file for file in files]
        new = [file.path for file in held if file.path not in kept and file.state == PRESENT]
        return [file for file in held if file.path in kept or file.state == SKIPPED], new

    def _was_skipped(self, file: ImageFile) -> bool:
        was = self.before.get(file.path)
        return was is not None and was.state == SKIPPED and was.content == file.content

    def _change(self, file: ImageFile) -> str:
        was = self.before.get(file.path)
        if was is None or was.state != PRESENT:
            return "new"
        return "same" if was.content == file.content else "changed"

    def _removed(self, files: Sequence[ImageFile]) -> list[ImageFile]:
        """Files that are gone, without those that were skipped before."""
        present = {file.path for file in files}
        gone = (file for name, file in self.before.items() if name not in present and file.state != SKIPPED)
        return [replace(file, state=REMOVED) for file in gone]

    # Encoding

    def _encoded(self, name: str, recipe: Recipe, files: Sequence[ImageFile], encoder: Any) -> EncodedImages:
        """What a model has encoded already; nothing if its encoder has changed. encoder: None to load it if needed."""
        from lookalike.encoders import load

        images = read_encoded(self.unfinished, name, recipe, self.max_pixels, encoder)
        images.add(vectors_of_model(self.location, name, recipe))
        if encoder is not None or not images.missing(files):
            return images
        assert recipe.encoder is not None
        images.encoder = load(recipe.encoder, **recipe.options)
        now = replace(recipe, version=images.encoder.version)
        if now != recipe:
            say_if_changed(name, recipe, now)
            return read_encoded(self.unfinished, name, now, self.max_pixels, images.encoder)
        return images

    # When everything is encoded

    def _write(self, usable: Sequence[ImageFile], models: Mapping[str, EncodedImages]) -> Study:
        """Make the study, or replace its items; then write the models that have changed."""
        catalogue = self._catalogue(usable)
        if self.opened is None:
            title = "".join(letter for letter in self.root.name if letter.isprintable()).strip() or "images"
            study = Study.create(self.location, title, catalogue, np.arange(len(catalogue)), folder=self.origin)
        elif self.opened.catalogue.digest != catalogue.digest or self.opened.folder != self.origin:
            queries = self._queries(catalogue)
            if not self.opened.pool_fits(catalogue[queries], catalogue):
                raise StudyError(self._why_not(usable))
            study = self.opened.set_items(catalogue, queries, self.origin)
        else:
            study = self.opened
        contents = np.array([file.content for file in usable], "S32")
        for name, images in models.items():
            if not _is_up_to_date(study, name, images.recipe, contents):
                gallery, similarity = images.vectors_of([file.content for file in usable])
                study.add_model(
                    name, gallery=gallery, similarity=similarity, recipe=images.recipe, contents=contents, replace=True
                )
        for name in study.recipes():
            try:
                hash_again(study, name)
            except UnlearntError as error:
                study.remove_model(name)
                logger.warning("the model %s was removed, since it cannot be made of these images: %s", name, error)
        return study

    def _why_not(self, usable: Sequence[ImageFile]) -> str:
        """Why the items of a study with a pool cannot become these."""
        assert self.opened is not None
        lost = sorted(set(self.opened.catalogue.ids.tolist()) - {file.path for file in usable})
        what = f"{lost[0]} cannot be encoded" if lost else "labels have changed"
        return (
            f"the study has a pool, which was made of its items, but {what}: make another study for what is there now"
        )

    def _catalogue(self, usable: Sequence[ImageFile]) -> Catalogue:
        ids = [file.path for file in usable]
        columns = self.labels.columns_of(ids)
        category, identity = columns.pop("category", None), columns.pop("identity", None)
        paths = [f"{self.origin['images']}/{path}" for path in ids]
        return Catalogue(ids, identity, category, paths, columns)  # type: ignore[arg-type]

    def _queries(self, catalogue: Catalogue) -> np.ndarray:
        """Positions of the queries: all items, or those of the chosen ones that still exist."""
        assert self.opened is not None
        if self.origin["queries"] == "all":
            return np.arange(len(catalogue))
        left = np.flatnonzero(np.isin(catalogue.ids, self.opened.queries.ids))
        if not len(left):
            raise StudyError(
                "none of the images is left that were chosen as queries: "
                f"choose others with lookalike study queries {self.location.name}"
            )
        return left


def check_model(study: Study, name: str, recipe: Recipe) -> None:
    """Raise if a study has another model of this name; if only the version is another, it is encoded again."""
    if name not in study.models():
        return
    before = study.recipe(name)
    if before is None or replace(before, version=recipe.version) != recipe:
        other = "was not encoded here" if before is None else f"is of {before.encoder}, made otherwise"
        raise StudyError(f"the study has a model {name!r} that {other}: choose another ", Option("name"))
    if before.version != recipe.version and (pooled := study.pooled(name)):
        raise StudyError(
            f"the encoder {recipe.encoder} has changed since {name!r} was made, but the pool has what {pooled!r} "
            "proposed: choose another ",
            Option("name"),
            f", and add that with lookalike pool {study.path.name} --top-up",
        )


def anywhere(model: str) -> str:
    """The name of an encoder, with the whole path if it is a file, so that it can be used from any folder."""
    if model.endswith(FINETUNED):
        return str(Path(model).resolve())
    kind, _, rest = model.partition(":")
    is_file = rest and kind.lower() in ("onnx", "hf") and Path(rest).exists()
    return f"{kind}:{Path(rest).resolve()}" if is_file else model


def _existing(location: Path) -> Study | None:
    """The study in a folder; None if the folder is empty, or holds only what a run left that was ended early."""
    finish_new_study(location)
    if all(entry.name == UNFINISHED or entry.name.startswith(".study.") for entry in location.iterdir()):
        return None
    return Study.open(location)


def _origin(
    opened: Study | None, location: Path, root: Path, labels: str | Path | None, folders: str | None
) -> dict[str, Any]:
    """Where a study's images and labels come from, and whether all of its items are queries, as study.toml has it."""
    before: dict[str, Any] = {}
    if opened is not None:
        if opened.folder is None:
            raise StudyError(
                f"{location} is a study that was not made from a folder of images: choose another ",
                Option("study"),
                f" for {root}",
            )
        before = opened.folder
        images = (location / before["images"]).resolve()
        if images != root and images.is_dir():  # else it was moved
            raise StudyError(
                f"{location} is a study of the images in {images}: choose another ",
                Option("study"),
                f" for those in {root}",
            )
    origin = {
        "images": relative_path(root, location),
        "folders": folders or before.get("folders", "category"),
        "queries": before.get("queries", "all"),
    }
    if labels is not None:
        origin["labels"] = relative_path(Path(labels).resolve(), location)
    elif "labels" in before:
        origin["labels"] = before["labels"]
    return origin


@contextlib.contextmanager
def alone(location: Path) -> Iterator[Path]:
    """The folder for what is encoded but not yet a model, held by this process alone."""
    if not location.parent.is_dir():
        raise StudyError(f"cannot make a study in {location}: the folder {location.parent} does not exist")
    if location.exists() and not location.is_dir():
        raise StudyError(f"cannot make a study in {location}: it is a file")
    is_new = not location.exists()
    unfinished = location / UNFINISHED
    unfinished.mkdir(parents=True, exist_ok=True)
    handle = os.open(unfinished, os.O_RDONLY)
    try:
        is_free = take(handle) and unfinished.exists() and os.fstat(handle).st_ino == unfinished.stat().st_ino
        if not is_free:  # another holds it, or has just done its work and removed it
            raise StudyError(f"another process is encoding into {location}: try again when it has ended")
        try:
            yield unfinished
        finally:
            with contextlib.suppress(OSError):  # where something was encoded, it stays for the next time
                unfinished.rmdir()
            if is_new:
                with contextlib.suppress(OSError):
                    location.rmdir()
    finally:
        os.close(handle)


def vectors_of_model(location: Path, name: str, recipe: Recipe) -> dict[str, np.ndarray]:
    """The vectors that a model of the study has already, by content, if its encoder has not changed."""
    path = location / "models" / f"{name}.npz"
    if not path.is_file():
        return {}
    arrays, about = read_arrays(path)
    stored = stored_vectors(name, arrays, about)
    if stored is None or stored.contents is None or stored.recipe != recipe:
        return {}
    vectors = stored.gallery.unpack() if isinstance(stored.gallery, Codes) else stored.gallery
    assert vectors is not None
    if len(vectors) != len(stored.contents):
        return {}
    return dict(zip(stored.contents.astype(str).tolist(), vectors, strict=True))


def _skipped(file: ImageFile, reasons: Mapping[str, str]) -> ImageFile:
    if file.state == PRESENT and file.content in reasons:
        return replace(file, state=SKIPPED, reason=reasons[file.content])
    return file


def _is_up_to_date(study: Study, name: str, recipe: Recipe, contents: np.ndarray) -> bool:
    try:
        stored = study.model(name)
    except ValueError:  # there is none, or of other items
        return False
    return stored.recipe == recipe and stored.contents is not None and np.array_equal(stored.contents, contents)
