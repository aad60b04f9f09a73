"""Models that are hashed embeddings of another model of the study: made, and made again when that has changed."""

from dataclasses import replace

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.files import digest
from lookalike.study.model import Recipe, Stored
from lookalike.study.study import Study

__all__ = ["UnlearntError", "hash_again", "hash_model"]


class UnlearntError(ValueError):
    """A hasher cannot learn from the embeddings that it is given: they are too few, say."""


def hash_model(study: Study, source: str, hasher: str, n_bits: int, seed: int = 0) -> str:
    """Learn a hasher on the embeddings of a model, and keep the codes as a model of their own; its name."""
    from lookalike.hashers import make

    stored = study.model(source)
    if stored.gallery is None or isinstance(stored.gallery, Codes):
        raise ValueError(f"the model {source!r} is {stored.kind}: a hasher learns from embeddings")
    kind = type(make(hasher, n_bits, seed)).__name__
    name = f"{source}-{kind.lower()}-{n_bits}"
    before = study.recipes().get(name, Recipe(source=source, hasher=kind))
    if before is None or (before.source, before.hasher) != (source, kind):
        raise ValueError(f"the study has another model {name!r}: remove it first, with lookalike study remove")
    recipe = replace(stored.recipe or Recipe(), source=source, hasher=kind, n_bits=n_bits, seed=seed)
    _write(study, name, recipe, stored)
    return name


def hash_again(study: Study, name: str) -> None:
    """Make a hashed model again if the embeddings that it was made of have changed; of other models, do nothing."""
    recipe = study.recipes()[name]
    if recipe is None or recipe.source is None:
        return
    stored = study.model(recipe.source)
    assert isinstance(stored.gallery, np.ndarray)
    version = stored.recipe.version if stored.recipe is not None else None
    if (recipe.source_digest, recipe.version) != (digest(stored.gallery), version) or not _is_of_these(study, name):
        _write(study, name, replace(recipe, version=version), stored)


def _is_of_these(study: Study, name: str) -> bool:
    try:
        study.model(name)
    except ValueError:  # of other items
        return False
    return True


def _write(study: Study, name: str, recipe: Recipe, source: Stored) -> None:
    from lookalike.hashers import make

    assert recipe.hasher is not None
    assert recipe.n_bits is not None
    assert isinstance(source.gallery, np.ndarray)
    if study.pooled(name):  # before its hasher is written: that must stay with its codes
        raise ValueError(
            f"the pool has what the model {name!r} proposed: take another hasher or another number of bits"
        )
    hasher = make(recipe.hasher, recipe.n_bits, recipe.seed)
    try:
        hasher.fit(source.gallery)
    except ValueError as error:
        raise UnlearntError(str(error)) from error
    codes = hasher.transform(source.gallery)  # before anything is replaced
    path = study.hasher_path(name)
    with study.changing():
        path.parent.mkdir(exist_ok=True)
        hasher.save(path)
    made = replace(recipe, source_digest=digest(source.gallery), hasher_digest=study.hasher_digest(name))
    study.add_model(name, gallery=codes, recipe=made, contents=source.contents, replace=True)
