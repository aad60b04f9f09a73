"""Models with codes of another model's embeddings: made, and made again when the embeddings have changed."""

from dataclasses import replace

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.errors import StudyError
from lookalike.core.files import digest
from lookalike.study.model import Recipe, Stored
from lookalike.study.study import Study

__all__ = ["UnlearntError", "hash_again", "hash_model"]


class UnlearntError(StudyError):
    """A hasher cannot learn from these embeddings; there may be too few of them."""


def hash_model(study: Study, source: str, hasher: str, n_bits: int, seed: int = 0) -> str:
    """Learn a hasher on the embeddings of a model, and add the codes as a model of their own; returns its name."""
    from lookalike.hashers import make

    stored = study.model(source)
    if stored.gallery is None or isinstance(stored.gallery, Codes):
        raise StudyError(f"the model {source!r} is {stored.kind}: a hasher learns from embeddings")
    kind = type(make(hasher, n_bits, seed)).__name__
    name = f"{source}-{kind.lower()}-{n_bits}"
    before = study.recipes().get(name, Recipe(source=source, hasher=kind))
    if before is None or (before.source, before.hasher) != (source, kind):
        raise StudyError(f"the study has another model {name!r}: remove it first, with lookalike study remove")
    recipe = replace(stored.recipe or Recipe(), source=source, hasher=kind, n_bits=n_bits, seed=seed)
    _write(study, name, recipe, stored)
    return name


def hash_again(study: Study, name: str) -> None:
    """Make the codes of a hashed model again if its source has changed; for other models, do nothing."""
    recipe = study.recipes()[name]
    if recipe is None or recipe.source is None:
        return
    stored = study.model(recipe.source)
    assert isinstance(stored.gallery, np.ndarray)
    version = stored.recipe.version if stored.recipe is not None else None
    if (recipe.source_digest, recipe.version) != (digest(stored.gallery), version) or not _can_be_read(study, name):
        _write(study, name, replace(recipe, version=version), stored)


def _can_be_read(study: Study, name: str) -> bool:
    """Whether the file of a model is whole and of the present items."""
    try:
        study.model(name)
    except ValueError:  # what is damaged is made again, too
        return False
    return True


def _write(study: Study, name: str, recipe: Recipe, source: Stored) -> None:
    from lookalike.hashers import make

    assert recipe.hasher is not None
    assert recipe.n_bits is not None
    assert isinstance(source.gallery, np.ndarray)
    if study.pooled(name):  # before its hasher is written: that must stay with its codes
        raise StudyError(
            f"the pool has what the model {name!r} proposed: take another hasher or another number of bits"
        )
    hasher = make(recipe.hasher, recipe.n_bits, recipe.seed)
    try:
        hasher.fit(source.gallery)
    except ValueError as error:  # scikit-learn has no type of its own
        raise UnlearntError(str(error)) from error
    codes = hasher.transform(source.gallery)  # before anything is replaced
    path = study.hasher_path(name)
    with study.changing():
        path.parent.mkdir(exist_ok=True)
        hasher.save(path)
    complete = replace(recipe, source_digest=digest(source.gallery), hasher_digest=study.hasher_digest(name))
    study.add_model(name, gallery=codes, recipe=complete, contents=source.contents, replace=True)
