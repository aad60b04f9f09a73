"""The images of a study that was made from a catalogue, encoded: those of its items and, if it is wild, its queries."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.errors import StudyError
from lookalike.study.encode import Encoded, alone, anywhere, check_model, model_name, vectors_of_model
from lookalike.study.encoded_images import EncodedImages, read_encoded, say_if_changed
from lookalike.study.folder import check_name
from lookalike.study.image_files import PRESENT, ImageFile, files_named
from lookalike.study.model import Recipe
from lookalike.study.study import Study
from lookalike.study.text_sides import remember_text

__all__ = ["encode_catalogue"]


def encode_catalogue(
    study: str | Path,
    *,
    model: str = "efficientnet-lite0",
    options: Mapping[str, Any] | None = None,
    text: Mapping[str, Any] | None = None,
    name: str | None = None,
    threads: int | None = None,
    max_pixels: int | None = None,
) -> Encoded:
    """Encode the images that the catalogue of a study names, and add them as a model.

    An image that is there twice is encoded once. A run that is ended early loses little: the next one goes on from
    there. Every image must be there: all models of a study rank the same items. text: as for `encode_folder`.
    name: of the model in the study.
    """
    from lookalike.encoders import MAX_PIXELS, load

    opened = Study.open(study)
    paths = _paths(opened)
    encoder = load(anywhere(model), **options or {}, **text or {})
    name = name or model_name(model, options or {})
    check_name(name, "a model")
    recipe = Recipe(encoder.name, encoder.version, dict(options or {}))
    check_model(opened, name, recipe)
    say_if_changed(name, opened.recipes().get(name), recipe)
    with alone(opened.path) as unfinished:
        files = files_named(opened.path, paths)
        images = read_encoded(unfinished, name, recipe, max_pixels or MAX_PIXELS, encoder)
        images.add(vectors_of_model(opened.path, name, recipe))
        n_encoded = images.encode(opened.path, files, threads)
        _check_all(opened, files, images)
        is_new = _add(opened, name, images, [file.content for file in files])
        shutil.rmtree(unfinished)
    if text:
        remember_text(opened, name, encoder)
    n = len(files) if is_new else 0
    return Encoded(opened, name, n_encoded, n, 0, len(files) - n, [], [], [], [], [])


def _paths(study: Study) -> list[str]:
    """The image files of the items, then those of queries that are no items."""
    catalogues = [study.catalogue, study.queries] if study.wild else [study.catalogue]
    paths = []
    for catalogue in catalogues:
        if catalogue.paths is None:
            raise StudyError(
                f"the catalogue of {study.path.name} names no image files, so that nothing can be encoded: make the "
                "study with a column path, or add embeddings with lookalike study add"
            )
        paths += catalogue.paths.tolist()
    return paths


def _check_all(study: Study, files: list[ImageFile], images: EncodedImages) -> None:
    """Raise where an image cannot be encoded."""
    reasons = {
        file.path: file.reason if file.state != PRESENT else images.reasons[file.content]
        for file in files
        if file.state != PRESENT or file.content in images.reasons
    }
    if reasons:
        path, reason = next(iter(reasons.items()))
        raise StudyError(
            f"{len(reasons):,} of {len(files):,} images of {study.path.name} cannot be encoded, the first is "
            f"{path}: {reason}. Mend or replace them, or make a study without them"
        )


def _add(study: Study, name: str, images: EncodedImages, contents: list[str]) -> bool:
    """Add the model; False if the study has it already, made of the same files."""
    n_items = len(study.catalogue)
    gallery, similarity = images.vectors_of(contents[:n_items])
    queries = images.vectors_of(contents[n_items:])[0] if study.wild else None
    fingerprints = np.array(contents[:n_items], "S32")
    if name in study.models():
        stored = study.model(name)
        same = stored.contents is not None and np.array_equal(stored.contents, fingerprints)
        if same and stored.recipe == images.recipe and (not study.wild or _equal(stored.queries, queries)):
            return False
    study.add_model(
        name, queries, gallery, similarity=similarity, recipe=images.recipe, contents=fingerprints, replace=True
    )
    return True


def _equal(stored: Any, new: Any) -> bool:
    """Whether two sets of embeddings or codes are the same."""
    from lookalike.core.codes import Codes

    if isinstance(stored, Codes) and isinstance(new, Codes):
        return np.array_equal(stored.to_bytes(), new.to_bytes())
    return np.array_equal(stored, new)
