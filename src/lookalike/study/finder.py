"""Search in a study: the items nearest to one of them, or to a new picture, by one of its models."""

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.errors import FileError, InputError, StudyError
from lookalike.search.index import Index
from lookalike.study.model import Recipe, Stored
from lookalike.study.study import Study
from lookalike.study.text_sides import how_to_give_text, opened_text, remembered_text

logger = logging.getLogger("lookalike")

__all__ = [
    "Finder",
    "Looks",
    "NearestGroup",
    "build_index",
    "default_model",
    "grouped",
    "lacks_for_words",
    "models_for_words",
    "nearness",
]


@dataclass(frozen=True, eq=False)
class Looks:
    """The items nearest to a query, the nearest first, ties by position.

    items: (m,) positions in the catalogue. distances: (m,) for codes whole numbers of bits; for embeddings scores, of
    which a higher one is nearer. groups: (m,) 0, 0, 1, …, the same for equally near items. more: how many further
    items are as near as the last.
    """

    items: np.ndarray
    distances: np.ndarray
    groups: np.ndarray
    more: int


class Finder:
    """Searches a study by one of its models, with its index if there is one; a stale index is built again.

    >>> import tempfile
    >>> from lookalike.discovery.catalogue import Catalogue
    >>> study = Study.create(tempfile.mkdtemp(), "shop", Catalogue(["a", "b", "c", "d"]), queries=["a"])
    >>> study.add_model("code", gallery=Codes.pack([[0, 0, 0], [1, 1, 1], [0, 0, 1], [0, 1, 0]]))
    >>> looks = Finder(study, "code").like_item(0, k=1)
    >>> looks.items, looks.distances, looks.more                # one more item is as near
    (array([2]), array([1]), 1)
    """

    def __init__(self, study: Study, model: str, stored: Stored | None = None) -> None:
        """stored: the model, if it was read before."""
        stored = study.model(model, mapped=True) if stored is None else stored
        if stored.gallery is None:
            raise StudyError(f"the model {model!r} is a run, which ranks only the queries it names: it has no vectors")
        self.study, self.model, self.similarity = study, model, stored.similarity
        self.n_bits = stored.gallery.n_bits if isinstance(stored.gallery, Codes) else None
        self.recipe = stored.recipe
        self.index = _index(study, stored)

    @property
    def can_encode(self) -> bool:
        """Whether an encoder made the model, so that new pictures can be searched for."""
        return self.recipe is not None and self.recipe.encoder is not None

    @property
    def enough(self) -> int | None:
        """How many pixels the encoder needs on each side of a picture; None: all."""
        enough: int | None = self._encoder.enough
        return enough

    def like_item(self, item: int, k: int, *, among: np.ndarray | None = None) -> Looks:
        """The k items nearest to the one at this position, without itself; among: a mask of the items to search."""
        if not 0 <= item < len(self.index):
            raise InputError(f"items have positions from 0 to {len(self.index) - 1}, got {item}")
        query = self.index.items[item : item + 1]
        k = min(k, len(self.index))
        if among is not None or (self.n_bits is None and self.index.kind == "exact"):  # one pass for items and ties
            among = np.ones(len(self.index), bool) if among is None else among.copy()
            among[item] = False
            return self._looks(query, k, among)
        nearest = self.index.search(query, k + 1)
        itself = nearest.items[0] == item
        if not itself.any():  # others are as near
            itself[-1] = True
        among = np.ones(len(self.index), bool)
        among[item] = False
        others = ~itself & (nearest.items[0] >= 0)
        items, distances = nearest.items[0][others], nearest.distances[0][others]
        near = int(self.index.count_within(query, distances[-1:], among=among)[0]) if len(items) else 0
        return _with_ties(items, distances, near)

    def like_picture(self, picture: Path | np.ndarray, k: int, *, among: np.ndarray | None = None) -> Looks:
        """The k items nearest to a picture: an image file, or (height, width, 3) of uint8."""
        return self._looks(self.vector(picture), k, among)

    def like_vector(self, vector: np.ndarray, k: int, *, among: np.ndarray | None = None) -> Looks:
        """The k items nearest to an embedding of length 1, (1, n_features); a model of codes hashes it first.

        Hashers learn from embeddings as they are. So the vector is made as long as those are, on average.
        """
        if self._hasher is None:
            return self._looks(vector, k, among)
        lengths = np.linalg.norm(self.embeddings, axis=1)
        return self._looks(self._hasher.transform(vector * np.float32(lengths.mean())), k, among)

    @functools.cached_property
    def embeddings(self) -> np.ndarray:
        """The embeddings of all items; for codes that were hashed, those that they were made of."""
        if self.n_bits is None:
            return np.asarray(self.index.items)
        assert self.recipe is not None
        assert self.recipe.source is not None
        stored = self.study.model(self.recipe.source, mapped=True)
        assert isinstance(stored.gallery, np.ndarray)
        return stored.gallery

    def embedding(self, picture: Path | np.ndarray) -> np.ndarray:
        """The embedding of a picture, (1, n_features), before any hasher."""
        if not self.can_encode:
            raise StudyError(
                f"the model {self.model!r} was added from a file, so that new pictures cannot be searched for: "
                "choose a model that lookalike encode made, or an item of the study"
            )
        return _encoded(self._encoder, picture)

    @property
    def lacks_for_words(self) -> str | None:
        """What is missing to search by words, in a sentence; None if nothing is, as far as is known without loading."""
        return lacks_for_words(self.study, self.model, self.recipe)

    def embedding_of_words(self, text: str) -> np.ndarray:
        """The embedding of words, (1, n_features), by the text side of the encoder that made the model."""
        if (lacking := self.lacks_for_words) is not None:
            raise StudyError(lacking)
        encoder = self._encoder  # raises if its weights are not those that made the model
        row = np.asarray((encoder if self._text is None else self._text).encode_text([text]))
        if row.shape != (1, self.embeddings.shape[1]):
            raise StudyError(
                f"the text side of {self.model!r} makes {row.shape[1]:,} numbers, its images have "
                f"{self.embeddings.shape[1]:,}: they are not two sides of one network"
            )
        return row

    @functools.cached_property
    def _text(self) -> Any:
        """The text side that was given beside the encoder; None if the encoder has its own."""
        assert self.recipe is not None
        return opened_text(self.study, self.model, self.recipe)

    def vector(self, picture: Path | np.ndarray) -> Any:
        """The embedding or the code of a picture, as the only one of a gallery."""
        vectors = self.embedding(picture)
        if self._hasher is not None:
            return self._hasher.transform(vectors)
        return Codes.pack(vectors) if self.n_bits is not None else vectors

    @functools.cached_property
    def _encoder(self) -> Any:
        from lookalike.encoders import load

        assert self.recipe is not None
        assert self.recipe.encoder is not None
        encoder = load(self.recipe.encoder, **self.recipe.options)
        if encoder.version != self.recipe.version:
            raise StudyError(
                f"the encoder {self.recipe.encoder} has changed since {self.model!r} was made: run "
                f"{_encode_again(self.study, self.model, self.recipe)}, which encodes all images again "
                f"(it was {self.recipe.version}, it is {encoder.version}: vectors of the two cannot be compared)"
            )
        return encoder

    @functools.cached_property
    def _hasher(self) -> Any:
        if self.recipe is None or self.recipe.hasher is None:
            return None
        from lookalike.hashers import load

        if self.study.hasher_digest(self.model) != self.recipe.hasher_digest:
            raise StudyError(f"the codes of {self.model!r} are not of its hasher: run lookalike index --hasher again")
        return load(self.study.hasher_path(self.model))

    def _looks(self, query: Any, k: int, among: np.ndarray | None) -> Looks:
        nearest, near = self.index.search_and_count(query, min(k, len(self.index)), among=among)
        exists = nearest.items[0] >= 0
        return _with_ties(nearest.items[0][exists], nearest.distances[0][exists], int(near[0]))


def _with_ties(items: np.ndarray, distances: np.ndarray, near: int) -> Looks:
    """Nearest items. near: how many items are as near as the last of them."""
    if not len(items):
        return Looks(items, distances, np.zeros(0, np.int64), 0)
    groups = np.concatenate([[0], np.cumsum(distances[1:] != distances[:-1])])
    return Looks(items, distances, groups, near - len(items))


@dataclass(frozen=True)
class NearestGroup:
    """Items that are equally near, the rank of the first, and their distance."""

    first: int
    distance: Any
    items: tuple[int, ...]
    more: int = 0  # as near, and not shown

    @property
    def size(self) -> int:
        """How many items are equally near, shown or not."""
        return len(self.items) + self.more

    @property
    def ranks(self) -> str:
        """The ranks of all items of the group, shown or not.

        >>> NearestGroup(3, 2, (8, 9), more=4).ranks
        '3–8'
        """
        last = self.first + self.size - 1
        return f"{self.first:,}–{last:,}" if last > self.first else f"{self.first:,}"


def grouped(looks: Looks) -> list[NearestGroup]:
    """Nearest items in groups of equally near ones.

    >>> looks = Looks(np.array([7, 2, 5]), np.array([1, 3, 3]), np.array([0, 1, 1]), more=2)
    >>> [(group.ranks, group.distance, group.items) for group in grouped(looks)]
    [('1', 1, (7,)), ('2–5', 3, (2, 5))]
    """
    bounds = [*np.flatnonzero(np.diff(looks.groups, prepend=-1)).tolist(), len(looks.items)]
    groups: list[NearestGroup] = []
    for start, end in pairwise(bounds):
        more = looks.more if end == len(looks.items) else 0
        groups.append(
            NearestGroup(start + 1, looks.distances[start].item(), tuple(looks.items[start:end].tolist()), more)
        )
    return groups


def nearness(finder: Finder) -> tuple[str, Callable[[Any], str]]:
    """What a search compares, distance or similarity, and a function that writes a number of it for people."""
    if finder.n_bits is not None:
        return "distance", lambda distance: f"{distance:,}"
    if finder.similarity == "euclidean":  # scores are minus the squared distance
        return "distance", lambda score: f"{max(0.0, -score) ** 0.5:.3g}"
    return "similarity", lambda score: f"{score:.3f}"


def default_model(study: Study, names: Sequence[str] | None = None) -> str:
    """The model to search by if none is named: a network's, else one that was added, else one of embeddings."""
    if names is None:
        names = _with_vectors(study)
    if not names:
        raise StudyError(f"the study {study.name!r} has no model to search by: lookalike encode makes one")

    def order(name: str) -> tuple[bool, int, str]:
        recipe = study.recipe(name)
        simple = recipe is not None and recipe.encoder in ("pixels", "colour", "phash", "dhash")
        hashed = recipe is not None and (recipe.hasher is not None or recipe.encoder in ("phash", "dhash"))
        return name != "efficientnet-lite0", 2 * hashed + simple, name

    return min(names, key=order)


def lacks_for_words(study: Study, model: str, recipe: Recipe | None) -> str | None:
    """What a model lacks to be searched by words, in a sentence; None if nothing that is known without loading."""
    from lookalike.encoders import KINDS, kind_of
    from lookalike.encoders.base import TEXT_SIDES

    if recipe is None or recipe.encoder is None:
        return f"{model} was added from a file, {TEXT_SIDES}"
    kind = kind_of(recipe.encoder)
    if not kind.takes_text:
        return f"{model} has no text side, {TEXT_SIDES}"
    source = recipe.source or model
    if kind is KINDS["onnx"] and remembered_text(study, source) is None:
        how = how_to_give_text(study, source, recipe)
        return f"{model} was given no text side, so that it cannot be searched by words: {how} gives it one"
    return None


def models_for_words(study: Study) -> list[str]:
    """The models that can be searched by words."""
    recipes = ((name, study.recipe(name)) for name in _with_vectors(study))
    return [name for name, recipe in recipes if lacks_for_words(study, name, recipe) is None]


def _with_vectors(study: Study) -> list[str]:
    return [name for name in study.models() if (study.path / "models" / f"{name}.npz").is_file()]


def build_index(study: Study, model: str, *, kind: str = "auto", target: float = 0.99, seed: int = 0) -> Index:
    """Build the index of a model and store it in the study; an exact index is not stored, as it is quickly built."""
    stored = study.model(model)
    if stored.gallery is None:
        raise StudyError(f"the model {model!r} is a run: it has no vectors to index")
    index = Index.build(stored.gallery, similarity=stored.similarity or "cosine", kind=kind, target=target, seed=seed)
    path = study.index_path(model)
    with study.changing():
        if index.kind == "exact":
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(exist_ok=True)
            index.save(path)
    return index


def _index(study: Study, stored: Stored) -> Index:
    """The stored index, built again if the study has changed; an exact one if none is stored."""
    similarity = stored.similarity or "cosine"
    path = study.index_path(stored.name)
    try:
        index = Index.load(path)
    except FileNotFoundError:
        return Index.build(stored.gallery, similarity=similarity, kind="exact")
    except ValueError as error:
        raise FileError(f"{error} (lookalike index {study.path.name} builds it again)", path=path) from error
    if index.fits(stored.gallery) and index.similarity == stored.similarity:
        return index
    if index.measured is None or not study.can_change:
        return Index.build(stored.gallery, similarity=similarity, kind="exact")
    logger.warning("the study has changed since %s was indexed: building the index again", stored.name)
    return build_index(study, stored.name, kind=index.kind, target=index.measured.target, seed=index.measured.seed)


def _encode_again(study: Study, model: str, recipe: Recipe) -> str:
    """The command that makes a model anew; of one that was hashed, that of its source, which its codes follow."""
    from lookalike.study.encode import model_name

    assert recipe.encoder is not None
    name = recipe.source or model
    parts = ["lookalike encode", study.path.name, "--model", recipe.encoder]
    if "size" in recipe.options:
        parts += ["--size", str(recipe.options["size"])]
    if name != model_name(recipe.encoder, recipe.options):
        parts += ["--name", name]
    return " ".join(parts)


def _encoded(encoder: Any, picture: Path | np.ndarray) -> np.ndarray:
    from lookalike.encoders import encode_files

    if isinstance(picture, np.ndarray):
        return np.asarray(encoder.row(picture))
    files = encode_files([picture], encoder, batch=1, threads=1)
    for _, vectors in files:
        return vectors
    raise FileError(files.reasons[0], path=picture)
