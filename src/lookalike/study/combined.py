"""A search for several things at once: items, pictures and words, added and taken away."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from lookalike.core.decode import SUFFIXES
from lookalike.core.errors import InputError, StudyError
from lookalike.search.expressions import QueryPart, parse
from lookalike.study.finder import Finder, Looks
from lookalike.study.item_names import ItemNames

__all__ = ["Ingredient", "is_single", "like_parts", "read_ingredients"]


@dataclass(frozen=True, eq=False)
class Ingredient:
    """A part of a search, and what it was taken for: an item, a picture, or words if it is neither."""

    part: QueryPart
    item: int | None = None
    picture: Path | np.ndarray | None = None
    name: str = ""  # as people know the picture

    @property
    def kind(self) -> str:
        """What it was taken for: picture or words."""
        return "words" if self.item is None and self.picture is None else "picture"

    @property
    def what(self) -> str:
        """What it was taken for, and how often it counts, in words: picture, words, without, 0.5 × words."""
        weight = "" if self.part.weight == 1 else f"{self.part.weight:g} × "
        if self.part.sign > 0:
            return f"{weight}{self.kind}"
        return f"without {weight}{'picture' if self.kind == 'picture' else ''}".rstrip()

    @property
    def label(self) -> str:
        """The whole of it in words: picture photo.jpg, words red, without dress."""
        return f"{self.what} {self.name or self.part.text}"


def read_ingredients(
    expression: str, names: ItemNames, picture: Callable[[str], tuple[Path | np.ndarray, str] | int | None]
) -> list[Ingredient]:
    """What each part of an expression is.

    A part is an item if it is an id or a file name; else what `picture` finds, a picture with its name or an item's
    position; else words. What ends like the name of a picture must be one. A part in quotes that does not end so is
    words. An expression that as a whole names an item or a picture is that, whatever signs are in the name.
    """
    whole = expression.strip()
    found = _picture_of(QueryPart(whole), names, picture) if whole else None
    if found is not None:
        return [found]
    return [_ingredient(part, names, picture) for part in parse(expression)]


def _ingredient(part: QueryPart, names: ItemNames, picture: Callable[[str], Any]) -> Ingredient:
    ends_so = _ends_like_a_picture(part.text)
    found = _picture_of(part, names, picture) if ends_so or not part.quoted else None
    if found is None and ends_so:
        similar = names.similar(part.text)
        hint = f"ids are like {names.ids[0]}" if similar is None else f"did you mean {similar}?"
        raise StudyError(f"there is no file {part.text}, and no item of that id in the study: {hint}")
    return found or Ingredient(part)


def _picture_of(part: QueryPart, names: ItemNames, picture: Callable[[str], Any]) -> Ingredient | None:
    try:
        item = names.position(part.text)
    except StudyError:  # several items end so: an error for a file's name, no sign of anything for a word
        if _ends_like_a_picture(part.text):
            raise
        item = None
    found = picture(part.text) if item is None else item
    if found is None:
        return None
    if isinstance(found, int):
        return Ingredient(part, item=found, name=str(names.ids[found]))
    return Ingredient(part, picture=found[0], name=found[1])


def is_single(ingredients: Sequence[Ingredient]) -> bool:
    """Whether all that is searched for is one picture."""
    return len(ingredients) == 1 and ingredients[0].kind == "picture"


def like_parts(finder: Finder, ingredients: Sequence[Ingredient], k: int, *, among: np.ndarray | None = None) -> Looks:
    """The k items nearest to all parts together, without the items that are parts themselves.

    Each part's embedding is scaled to length 1, times its sign and weight; the sum of them is searched for.
    """
    if is_single(ingredients):
        (only,) = ingredients
        if only.item is not None:
            return finder.like_item(only.item, k, among=among)
        assert only.picture is not None
        return finder.like_picture(only.picture, k, among=among)
    items = [each.item for each in ingredients if each.item is not None]
    if items:
        among = np.ones(len(finder.index), bool) if among is None else among.copy()
        among[items] = False
    return finder.like_vector(_together(finder, ingredients), k, among=among)


def _together(finder: Finder, ingredients: Sequence[Ingredient]) -> np.ndarray:
    """The sum of all parts as one embedding of length 1, (1, n_features)."""
    _check_can_add(finder, any(each.kind == "words" for each in ingredients))
    total: Any = 0.0
    for each in ingredients:
        row = np.asarray(_embedding(finder, each), np.float64).reshape(-1)
        length = np.linalg.norm(row)
        if not 0 < length < np.inf:
            raise InputError(f"{each.label} has no direction: its embedding has length {length:g}. Leave it out")
        total = total + each.part.sign * each.part.weight * row / length
    length = np.linalg.norm(total)
    if length < 1e-6:
        raise InputError("what is added and what is taken away are the same, nothing is left to search for")
    return np.asarray((total / length)[None], np.float32)


def _embedding(finder: Finder, ingredient: Ingredient) -> Any:
    if ingredient.item is not None:
        return finder.embeddings[ingredient.item]
    if ingredient.picture is not None:
        return finder.embedding(ingredient.picture)
    return finder.embedding_of_words(ingredient.part.text)


def _check_can_add(finder: Finder, has_words: bool) -> None:
    """Raise where words cannot be encoded, and where a sum of parts would mean nothing."""
    if has_words and (lacking := finder.lacks_for_words) is not None:
        raise StudyError(lacking)
    if finder.n_bits is None and finder.similarity == "euclidean":
        raise StudyError(
            f"the model {finder.model!r} compares by distance, where parts cannot be added: choose one that compares "
            "by cosine"
        )
    if finder.n_bits is not None and (finder.recipe is None or finder.recipe.hasher is None):
        raise StudyError(
            f"the model {finder.model!r} has codes without a hasher in the study, so that parts cannot be added: "
            "choose a model of embeddings"
        )


def _ends_like_a_picture(text: str) -> bool:
    """Whether a text ends like the name of an image file."""
    return PurePath(text).suffix.lower() in SUFFIXES
