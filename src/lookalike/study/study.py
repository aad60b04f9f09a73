"""A study: one folder that holds a whole project, its catalogue and queries, models, pool, votes and results."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.checks import choice
from lookalike.core.embeddings import SIMILARITIES
from lookalike.core.errors import InputError, Option, StudyError
from lookalike.core.files import provenance, read_arrays, write_text
from lookalike.discovery.catalogue import Catalogue
from lookalike.discovery.collection import Collection
from lookalike.discovery.formats import read_judgements, write_judgements
from lookalike.discovery.judgements import Judgements
from lookalike.discovery.pool import RANDOM, Pool
from lookalike.discovery.scale import BINARY, Scale
from lookalike.discovery.vote_log import append_votes, create_record
from lookalike.discovery.votes import Votes
from lookalike.study.folder import UNFINISHED, check_name, finish_new_study, new_study, wait_for_lock
from lookalike.study.items import StudyItems, collection_of, queries_from_catalogue, queries_from_elsewhere
from lookalike.study.model import Recipe, Stored
from lookalike.study.model_files import ModelFiles
from lookalike.study.model_inputs import RunInput, VectorsInput, checked_run, checked_vectors
from lookalike.study.record import StudyRecord
from lookalike.study.settings import read_settings, write_settings

__all__ = ["Recipe", "Stored", "Study"]


class Study(StudyRecord):
    """A project in a folder: made by `Study.create`, opened again by `Study.open`.

    Any number of processes may read and add at the same time. Every file is written whole or not at all.

    >>> import tempfile
    >>> shop = Catalogue(["a", "b", "c"], categories=["shoe", "hat", "shoe"])
    >>> study = Study.create(tempfile.mkdtemp(), "shop", shop, queries=["a"])
    >>> study.add_model("colour", gallery=[[1.0, 0.1], [0.2, 1.0], [0.9, 0.3]])     # the query is in the gallery
    >>> study.append_votes(Votes(["a"], ["c"], ["ann"], ["similar"]))
    Votes(1 votes of 1 experts on 1 pairs)
    >>> Study.open(study.path)
    Study(shop: 1 closed queries, 3 items, 1 models)
    >>> study.model("colour").queries, study.votes()
    (array([[1. , 0.1]]), Votes(1 votes of 1 experts on 1 pairs))
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        self.name: str = settings["name"]
        self.wild: bool = settings["queries"] == "wild"
        self.similarity: str = settings["similarity"]  # of embeddings, if a model does not say its own
        self.folder: dict[str, Any] | None = settings.get("folder")  # of the images and labels it was made from
        self._items = StudyItems(path)
        self._model_files = ModelFiles(path, self.wild)

    @classmethod
    def create(
        cls,
        path: str | Path,
        name: str,
        catalogue: Catalogue,
        queries: Any,
        *,
        wild: bool = False,
        similarity: str = "cosine",
        folder: Mapping[str, Any] | None = None,
    ) -> "Study":
        """Make a study in a folder that is new or empty.

        queries: positions or ids of items of the catalogue. The queries of a wild study come from elsewhere: give a
        catalogue of them. similarity: how embeddings are compared, unless a model is added with another. folder: what
        `lookalike.study.encode` has to know about the folder of images that it makes the study from.
        """
        location = Path(path).resolve()
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise InputError(f"a study needs a name on one line, got {name!r}")
        choice("similarity", similarity, SIMILARITIES)
        if not len(catalogue):
            raise InputError("a study needs a catalogue with items, this one is empty")
        choose = queries_from_elsewhere if wild else queries_from_catalogue
        chosen = choose(queries, catalogue)
        settings = provenance("study", name=name, queries="wild" if wild else "closed", similarity=similarity)
        if folder is not None:
            settings["folder"] = dict(folder)
        with new_study(location) as part:
            catalogue.write(part / "catalogue.parquet")
            chosen.write(part / "queries.parquet")
            create_record(part / "votes.sqlite")
            (part / "study.lock").touch()
            for below in ("models", "results"):
                (part / below).mkdir()
            write_settings(part / "study.toml", settings)
        return cls(location, settings)

    @classmethod
    def open(cls, path: str | Path) -> "Study":
        """Open a study; its large files are read when they are first asked for."""
        folder = Path(path).resolve()
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no folder {path}")
        finish_new_study(folder)
        if not (folder / "study.toml").is_file():
            raise _no_study(path, folder)
        settings = read_settings(folder / "study.toml")
        for file in ("catalogue.parquet", "queries.parquet", "votes.sqlite"):
            if not (folder / file).is_file():
                raise StudyError(f"the study {path} is not whole: {file} is missing")
        return cls(folder, settings)

    def __repr__(self) -> str:
        kind = "wild" if self.wild else "closed"
        sizes = f"{len(self.queries):,} {kind} queries, {len(self.catalogue):,} items, {len(self.models())} models"
        return f"Study({self.name}: {sizes})"

    # Items and queries

    @property
    def catalogue(self) -> Catalogue:
        """The items that are searched."""
        return self._items.catalogue

    @property
    def queries(self) -> Catalogue:
        """The queries, with the same columns as the catalogue if they are items of it."""
        return self._items.queries

    @property
    def collection(self) -> Collection:
        """Queries and items as all models rank them."""
        return self._items.collection

    def image_path(self, position: int) -> Path | None:
        """The image file of an item; None if the catalogue does not say."""
        return None if self.catalogue.paths is None else self.path / str(self.catalogue.paths[position])

    def set_items(self, catalogue: Catalogue, queries: Any, folder: Mapping[str, Any]) -> "Study":
        """Replace the catalogue and its queries, and return the study as it then is.

        Models of other items are refused from then on until they are written again: see `lookalike.study.encode`. If
        there is a pool, ids, identities and queries stay; paths, categories and attributes may change.
        """
        if self.wild:
            raise StudyError(f"the study {self.name!r} has queries from elsewhere: its items cannot be replaced")
        chosen = queries_from_catalogue(queries, catalogue)
        settings = self._closed_settings(folder)
        with self.changing():
            if not self.pool_fits(chosen, catalogue):
                raise StudyError(f"the study {self.name!r} has a pool, which was made of its items: they stay")
            chosen.write(self.path / "queries.parquet")  # first: a kill leaves a catalogue that is replaced again
            catalogue.write(self.path / "catalogue.parquet")
            write_settings(self.path / "study.toml", settings)
        return Study(self.path, settings)

    def set_queries(self, queries: Any) -> "Study":
        """Choose other items as queries, positions or ids, and return the study as it then is."""
        if self.wild:
            raise StudyError(f"the study {self.name!r} has queries from elsewhere, not from its catalogue")
        chosen = queries_from_catalogue(queries, self.catalogue)
        with self.changing():
            if self.pool_path.exists():
                way = "make another study" if len(self.votes()) else f"remove {self.pool_path}, nobody has voted yet"
                raise StudyError(
                    f"the study {self.name!r} has a pool, which was made for its queries: to choose others, {way}"
                )
            if fixed := self._model_files.with_own_queries():
                raise StudyError(f"the model {fixed!r} was added with queries of its own: remove it first")
            chosen.write(self.path / "queries.parquet")
            if self.folder is not None:
                settings = self._closed_settings({**self.folder, "queries": "chosen"})
                write_settings(self.path / "study.toml", settings)
        return Study.open(self.path)

    def _closed_settings(self, folder: Mapping[str, Any]) -> dict[str, Any]:
        return provenance("study", name=self.name, queries="closed", similarity=self.similarity, folder=dict(folder))

    # Models

    def models(self) -> list[str]:
        """Names of the models, sorted."""
        return self._model_files.names()

    def add_model(
        self,
        name: str,
        queries: Any = None,
        gallery: Any = None,
        *,
        run: RunInput | None = None,
        similarity: str | None = None,
        query_ids: Any = None,
        gallery_ids: Any = None,
        recipe: Recipe | None = None,
        contents: np.ndarray | None = None,
        replace: bool = False,
    ) -> None:
        """Store the embeddings or codes that a model makes of queries and gallery, or what it ranks, a run.

        queries, gallery: a row for each query and each item, in the order of the study or of `query_ids` and
        `gallery_ids`; queries that are items of the catalogue may be left out. run: a TREC file, or
        {query: {item: score}}. recipe and contents: how and of which files a model was made that was encoded here.
        """
        check_name(name, "a model")
        if name == RANDOM:
            raise InputError(f"a model cannot be named {name!r}, which is what pairs drawn by chance are marked with")
        if (run is None) == (gallery is None):
            raise InputError(f"the model {name!r} needs either embeddings or codes of the gallery, or a run")
        vectors = VectorsInput(name, queries, gallery, similarity, query_ids, gallery_ids)
        if run is None:
            stored = checked_vectors(vectors, self._items, self.wild, self.similarity)
            stored = replaced(stored, recipe=recipe, contents=contents)
        elif vectors.for_vectors_alone:
            raise InputError(f"the model {name!r} is a run, which has ids and scores of its own: give nothing else")
        else:
            stored = Stored(name, run=checked_run(run, self._items))
        with self.changing():
            self._check_replaceable(stored, replace)
            self._model_files.write(stored, self._items)

    def _check_replaceable(self, stored: Stored, replace: bool) -> None:
        """Raise if a new model would take the name of one that must stay."""
        exists = stored.name in self.models()
        if exists and not replace:
            raise StudyError(
                f"the study has a model {stored.name!r} already: choose another name, or pass ", Option("replace")
            )
        if stored.recipe is None:
            self._model_files.check_not_hashed(stored.name)
        if exists and (pooled := self.pooled(stored.name)):
            raise StudyError(
                f"the pool has what the model {pooled!r} proposed: give the new one another name, and top up the pool"
            )

    def model(self, name: str, *, mapped: bool = False) -> Stored:
        """A model as it was given, its rows in the order of the study. mapped: large ones stay in their file."""
        return self._model_files.read(name, self._items, mapped=mapped)

    def remove_model(self, name: str) -> None:
        """Remove a model from the study."""
        with self.changing():
            self._model_files.remove(name)

    def recipes(self) -> dict[str, Recipe | None]:
        """How each model was made; see `recipe`."""
        return self._model_files.recipes()

    def recipe(self, name: str) -> Recipe | None:
        """How a model was made; None: it came from a file. The items may have changed since."""
        return self._model_files.recipe(name)

    def index_path(self, name: str) -> Path:
        """The file with the index of a model; it may be missing or stale."""
        return self._model_files.index_path(name)

    def map_path(self, name: str) -> Path:
        """The file with the map of a model; it may be missing or stale."""
        return self._model_files.map_path(name)

    def hasher_path(self, name: str) -> Path:
        """The file with the hasher of a model, if its codes are hashed embeddings of another."""
        return self._model_files.hasher_path(name)

    def text_path(self, name: str) -> Path:
        """The file that says where the text side of a model is; see `lookalike.study.text_sides`."""
        return self._model_files.text_path(name)

    def hasher_digest(self, name: str) -> str:
        """The fingerprint of the hasher of a model."""
        return self._model_files.hasher_digest(name)

    # Pool

    @property
    def pool_path(self) -> Path:
        """The file of the pool."""
        return self.path / "pool.parquet"

    def pool(self) -> Pool:
        """The pool that was stored last."""
        if not self.pool_path.exists():
            raise StudyError(f"the study {self.name!r} has no pool yet: lookalike pool {self.path.name} makes one")
        return Pool.load(self.pool_path, self.collection)

    def pool_fits(self, queries: Catalogue, items: Catalogue) -> bool:
        """Whether there is no pool, or the pool is of the ids and identities of these queries and items."""
        if not self.pool_path.exists():
            return True
        return bool(read_arrays(self.pool_path, [])[1].get("collection") == collection_of(queries, items).digest)

    def pooled(self, name: str) -> str | None:
        """The model that the pool has proposals of, if changing this one changes it: itself, or codes made of it."""
        if not self.pool_path.exists():
            return None
        pooled = self.pool().models
        return next((model for model in (name, *self._model_files.hashed_from(name)) if model in pooled), None)

    def write_pool(self, pool: Pool) -> None:
        """Store a pool instead of the one before; raises if the study has other queries or items by now."""
        with self.changing():
            now = StudyItems(self.path)
            if pool.collection.digest != now.collection.digest:
                raise StudyError(
                    f"the queries or items of the study {self.name!r} have changed since this pool was built: build it "
                    "again"
                )
            pool.save(self.pool_path)

    def top_up(self, model: str, *, threads: int | None = None) -> Pool:
        """Add what a model proposes to the pool, unless it is there; from then on its pairs can be voted on."""
        ranker = self.model(model).given
        with self.changing():  # from reading on: another process may add a model too
            pool = self.pool()
            if model not in pool.models:
                pool = pool.with_model(model, ranker, threads=threads)
                pool.save(self.pool_path)
        return pool

    # Votes and gold pairs

    def append_votes(self, votes: Votes, *, again: bool = True) -> Votes:
        """Add votes, all or none; when this returns they are on disk. Returns those that were added.

        again: whether to add votes that are there already, of the same query, item, expert, answer and time.
        """
        self.check_pairs(votes.queries, votes.items, "voted")
        if machines := self.machines().intersection(votes.experts.tolist()):
            raise StudyError(
                f"{min(machines)!r} is a machine in the study {self.name!r}, and these votes would be a person's: "
                "lookalike judge import adds votes of machines"
            )
        return append_votes(self._record_path, votes, again=again)

    def check_pairs(self, queries: np.ndarray, items: np.ndarray, what: str) -> None:
        """Raise if a pair is not of a query and an item of the study, or is of a query with itself."""
        self.queries.positions(queries, f"{what} query", "among the queries of the study")
        self.catalogue.positions(items, f"{what} item")
        if (same := np.flatnonzero(queries == items)).size:
            raise InputError(
                f"{len(same):,} of {len(items):,} {what} pairs are of a query with itself, first "
                f"{str(items[same[0]])!r}: nobody has to judge these, leave them out"
            )

    @property
    def _gold_path(self) -> Path:
        return self.path / "gold.parquet"

    def gold(self) -> Judgements | None:
        """Pairs with an answer that is known, to test experts with; None if there are none."""
        return Judgements.of(read_judgements(self._gold_path)) if self._gold_path.exists() else None

    def set_gold(self, pairs: Any) -> None:
        """Store the gold pairs: judgements or rows (query, item, grade of the study's scale); None removes them."""
        if pairs is None:
            with self.changing():
                self._gold_path.unlink(missing_ok=True)
            return
        gold = Judgements.of(pairs)
        self.check_gold(gold, self.scale)
        with self.changing():
            write_judgements(self._gold_path, gold.queries, gold.items, gold.grades)

    def check_gold(self, gold: Judgements, scale: Scale) -> None:
        """Raise if gold pairs are not of the study, or have grades that a scale does not have."""
        self.check_pairs(gold.queries, gold.items, "gold")
        if wrong := np.flatnonzero(gold.grades > scale.top).tolist():
            query, item = gold.pairs[wrong[0]]
            grade, form = gold.grades[wrong[0]], "1 (similar) or 0" if scale == BINARY else f"a grade of {str(scale)!r}"
            raise InputError(f"a gold pair is {form}: query {query!r} and item {item!r} have {grade}")

    # Results, and changing

    def write_result(self, name: str, text: str) -> Path:
        """Write a result into the folder `results`; a file of the same name is replaced."""
        check_name(name, "a result")
        path = self.path / "results" / name
        with self.changing():
            path.parent.mkdir(exist_ok=True)
            write_text(path, text)
        return path

    @property
    def can_change(self) -> bool:
        """Whether this process may write into the folder; a study that it can only read can still be shown."""
        held = self.path / "study.lock"
        return os.access(self.path, os.W_OK) and (not held.exists() or os.access(held, os.W_OK))

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Keep all other processes from changing the study meanwhile; do not nest. Votes are added without it."""
        if not self.can_change:
            raise PermissionError(f"the study {self.path} can only be read here: it cannot be changed")
        with (self.path / "study.lock").open("ab") as file:
            wait_for_lock(file.fileno(), self.path)
            for left in [*self.path.glob(".*.part"), *self.path.glob("*/.*.part")]:
                left.unlink()  # of a process that was killed: only this one writes now
            yield


def _no_study(path: str | Path, folder: Path) -> StudyError:
    """The error that says that a folder is not a study, and what to do."""
    if (folder / UNFINISHED).is_dir():
        return StudyError(f"{path} is not yet a study: lookalike encode was ended early, run it again")
    beside = folder.with_name(f"{folder.name}-study")
    if (beside / "study.toml").is_file():
        return StudyError(f"{path} is not a study, it has no study.toml: did you mean {beside.name}, beside it?")
    return StudyError(
        f"{path} is not a study, it has no study.toml: lookalike encode makes one from a folder of images, "
        "lookalike study new from a catalogue"
    )
