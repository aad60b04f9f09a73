"""A study as pages show it: items to filter, models to search with; read again when its files change."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.decode import MAX_PIXELS, decode_file
from lookalike.core.errors import InputError
from lookalike.study.combined import Ingredient, like_parts
from lookalike.study.finder import Finder, Looks, default_model, lacks_for_words
from lookalike.study.item_names import ItemNames
from lookalike.study.model import UNREADABLE, unreadable
from lookalike.web.look.copies import ExactCopies, copies_in
from lookalike.web.thumbnails import ROOM

if TYPE_CHECKING:
    from lookalike.study.study import Study

__all__ = ["CatalogueColumn", "Shelf", "Shelves", "ShownModel"]

CHOICES = 60  # values of a column up to which they are listed to choose from
FINDERS = 6  # models that are held in memory


@dataclass(frozen=True)
class CatalogueColumn:
    """A column that items can be filtered by: one of its values, or part of one where there are many."""

    name: str
    choices: tuple[tuple[str, int], ...] | None  # values with their number of items; None where there are too many
    n_values: int


@dataclass(frozen=True)
class ShownModel:
    """A model in words; `problem` says why it cannot be used."""

    name: str
    kind: str
    size: str  # in few words
    encoder: str | None = None
    problem: str | None = None


class Shelf:
    """A study at one moment."""

    def __init__(self, study: "Study") -> None:
        self.study, self.catalogue = study, study.catalogue
        self._finders: OrderedDict[str, Finder] = OrderedDict()
        self._finding, self._encoding = threading.Lock(), threading.Lock()

    def __len__(self) -> int:
        return len(self.catalogue)

    @cached_property
    def key(self) -> str:
        """What browsers keep things of this study under: another text for each folder."""
        return hashlib.sha256(str(self.study.path).encode(errors="surrogateescape")).hexdigest()[:16]

    # Items

    @cached_property
    def columns(self) -> list[CatalogueColumn]:
        """Those that items can be filtered by: labels and text that not all items share."""
        catalogue = self.catalogue
        labels = {"category": catalogue.categories, "identity": catalogue.identities}
        text = {name: values for name, values in catalogue.attributes.items() if values.dtype.kind in "Ub"}
        columns = [
            _column(name, np.asarray(values).astype(str))
            for name, values in {**labels, **text}.items()
            if values is not None
        ]
        return [column for column in columns if column.n_values > 1]

    def mask(self, search: str, wanted: Mapping[str, str]) -> np.ndarray | None:
        """Items whose name holds the words of a search, and whose columns are what is wanted; None: all of them."""
        columns = {column.name: column for column in self.columns}
        masks = []
        for name, value in wanted.items():
            if name not in columns:
                raise InputError(f"items cannot be filtered by {name!r}: the study has no such column of labels")
            values = self.catalogue.column(name).astype(str)
            masks.append(values == value if columns[name].choices is not None else _holds(values, value))
        if search:
            masks.append(self.names.holding(search))
        return np.logical_and.reduce(masks) if masks else None

    def position(self, name: str) -> int | None:
        """Where the item with this id is."""
        try:
            return int(self.catalogue.positions([name])[0])
        except ValueError:
            return None

    @cached_property
    def names(self) -> ItemNames:
        """What items are called, to find them by."""
        return ItemNames(self.catalogue)

    @cached_property
    def mixed(self) -> np.ndarray:
        """All positions in an order drawn once and for all: a page of it is a fair sample."""
        return np.random.default_rng(0).permutation(len(self))

    def name(self, item: int) -> str:
        """The end of an item's id, which is often a file's name in folders that others share."""
        name = str(self.catalogue.ids[item])
        return name.rstrip("/").rpartition("/")[2] or name

    def label(self, item: int) -> str:
        """What an item is, in a word or two: its category, or else its identity."""
        for column in (self.catalogue.categories, self.catalogue.identities):
            if column is not None and column[item]:
                return str(column[item])
        return ""

    def facts(self, item: int) -> list[tuple[str, str]]:
        """All columns of an item but its id."""
        catalogue = self.catalogue
        columns = {"category": catalogue.categories, "identity": catalogue.identities, **catalogue.attributes}
        facts = [(name, str(column[item])) for name, column in columns.items() if column is not None]
        if catalogue.paths is not None:
            facts.append(("file", str(catalogue.paths[item])))
        return [(name, value) for name, value in facts if value]

    def path(self, item: int) -> Path | None:
        """The image file of an item."""
        return self.study.image_path(item)

    @cached_property
    def copies(self) -> ExactCopies:
        """Which items are files of the same bytes."""
        return copies_in(self.study, [model.name for model in self.models if model.problem is None])

    # Models

    @cached_property
    def models(self) -> list[ShownModel]:
        """Those with vectors, first the one to search by unless told: a run ranks only the queries that it names."""
        models = [self._described(name) for name in self.study.models()]
        usable = [model for model in models if model.kind != "run"]
        whole = [model.name for model in usable if model.problem is None]
        first = default_model(self.study, whole) if whole else None
        return sorted(usable, key=lambda model: model.name != first)

    def _described(self, name: str) -> ShownModel:
        try:
            stored = self.study.model(name, mapped=True)
        except UNREADABLE as error:
            return ShownModel(name, "cannot be used", "cannot be used", problem=unreadable(name, error))
        if isinstance(stored.gallery, Codes):
            size = stored.hasher or f"{stored.gallery.n_bits:,} bits"
        else:
            size = "" if stored.gallery is None else f"{stored.gallery.shape[1]:,} numbers"
        return ShownModel(name, stored.kind, size, stored.encoder)

    def finder(self, model: str) -> Finder:
        """The finder of a model, made when it is first asked for."""
        with self._finding:
            if model not in self._finders:
                self._finders[model] = Finder(self.study, model)  # its vectors stay in their file
            self._finders.move_to_end(model)
            while len(self._finders) > FINDERS:
                self._finders.popitem(last=False)
            return self._finders[model]

    def looks(self, model: str, query: int | Path, k: int, among: np.ndarray | None) -> Looks:
        """What looks most like an item, or like the picture in a file."""
        finder = self.finder(model)
        if isinstance(query, int):
            return finder.like_item(query, k, among=among)
        with self._encoding, ROOM.lent() as take:  # an encoder works for one at a time
            picture = decode_file(query, MAX_PIXELS, finder.enough, take)
            return finder.like_picture(picture, k, among=among)

    def like_parts(self, model: str, ingredients: Sequence[Ingredient], k: int, among: np.ndarray | None) -> Looks:
        """What looks most like several parts together; pictures among them are files."""
        finder = self.finder(model)
        with self._encoding, ROOM.lent() as take:
            decoded = [
                replace(each, picture=decode_file(each.picture, MAX_PIXELS, finder.enough, take))
                if isinstance(each.picture, Path) and finder.can_encode
                else each
                for each in ingredients
            ]
            return like_parts(finder, decoded, k, among=among)

    @cached_property
    def takes_words(self) -> dict[str, str | None]:
        """What each model lacks to be searched by words, in a sentence; None: nothing."""
        recipes = {model.name: self.study.recipe(model.name) for model in self.models if model.problem is None}
        return {name: lacks_for_words(self.study, name, recipe) for name, recipe in recipes.items()}

    def shared(self, item: int | None, other: int) -> str | None:
        """What two items share: "identity", "category" or None."""
        columns = {"identity": self.catalogue.identities, "category": self.catalogue.categories}
        for name, column in columns.items():
            if item is not None and column is not None and column[item] and column[item] == column[other]:
                return name
        return None


class Shelves:
    """The shelf of a study, made again when its catalogue or models have changed on disk."""

    def __init__(self, study: "Study") -> None:
        self._study, self._lock = study, threading.Lock()
        self._state, self._shelf = self._seen(), Shelf(study)

    def now(self) -> Shelf:
        """The study as it is now."""
        with self._lock:
            state = self._seen()
            if state != self._state:
                self._shelf = Shelf(type(self._study).open(self._study.path))
                self._state = state
            return self._shelf

    def _seen(self) -> Any:
        folder = self._study.path
        files = [folder / "catalogue.parquet", *sorted((folder / "models").glob("*"))]
        states = []
        for file in files:
            try:
                state = file.stat()
            except FileNotFoundError:  # just now replaced
                continue
            if not file.name.startswith("."):
                states.append((file.name, state.st_ino, state.st_size, state.st_mtime_ns))
        return states


def _column(name: str, values: np.ndarray) -> CatalogueColumn:
    distinct, counts = np.unique(values, return_counts=True)
    few = len(distinct) <= CHOICES
    choices = tuple((str(value), int(n)) for value, n in zip(distinct, counts, strict=True) if value) if few else None
    return CatalogueColumn(name, choices, len(distinct))


def _holds(values: np.ndarray, part: str) -> np.ndarray:
    """Whether each text holds a part, in large or small letters."""
    return np.strings.find(np.strings.lower(values), part.lower()) >= 0
