"""A study: one folder that holds a whole project, its catalogue and queries, models, pool, votes and results."""

import contextlib
import difflib
import functools
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.codes import Codes, as_numpy
from lookalike.core.embeddings import SIMILARITIES, Embeddings
from lookalike.core.files import check_format, digest, provenance, read_arrays, read_toml, write_arrays, write_text
from lookalike.core.ids import text_array
from lookalike.core.locks import left_in, lock, locked, move_up, part_of
from lookalike.discovery.catalogue import Catalogue
from lookalike.discovery.collection import Collection
from lookalike.discovery.formats import read_judgements, write_judgements
from lookalike.discovery.judgements import Judgements
from lookalike.discovery.pool import RANDOM, Pool
from lookalike.discovery.vote_log import append_votes, create_record, read_votes
from lookalike.discovery.votes import Votes
from lookalike.evaluation.trec import read_run, rows_of_run, write_run
from lookalike.study.model import Recipe, Run, Stored, recipe_of, stored_vectors

READY = ".study.ready"  # the folder of a study whose files are whole and move to their place
UNFINISHED = "encoding"  # the folder for rows of images that are not yet a model
WAIT = 60.0  # seconds to wait for another process that changes the study
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")

__all__ = ["UNFINISHED", "Recipe", "Stored", "Study", "check_name"]


class Study:
    """A project in a folder: made by `Study.create`, found again by `Study.open`.

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

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path = path
        self.name: str = about["name"]
        self.wild: bool = about["queries"] == "wild"
        self.similarity: str = about["similarity"]  # of embeddings, where a model does not say
        self.folder: dict[str, Any] | None = about.get("folder")  # that it was made from, and where labels come from

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

        queries: positions or ids of items of the catalogue; for a wild study, whose queries come from elsewhere, a
        catalogue of them. similarity: how embeddings are compared, unless a model is added with another. folder: what
        `lookalike.study.encode` has to know of the folder of images that it makes the study from.
        """
        place = Path(path).resolve()
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ValueError(f"a study needs a name on one line, got {name!r}")
        _check_similarity(similarity)
        if not len(catalogue):
            raise ValueError("a study needs a catalogue with items, this one is empty")
        chosen = _wild_queries(queries, catalogue) if wild else _closed_queries(queries, catalogue)
        if not len(chosen):
            raise ValueError("a study needs at least one query")
        about = provenance("study", name=name, queries="wild" if wild else "closed", similarity=similarity)
        if folder is not None:
            about["folder"] = dict(folder)
        with _becoming(place) as made:
            catalogue.write(made / "catalogue.parquet")
            chosen.write(made / "queries.parquet")
            create_record(made / "votes.sqlite")
            (made / "study.lock").touch()
            for below in ("models", "results"):
                (made / below).mkdir()
            write_text(made / "study.toml", _toml(about))
        return cls(place, about)

    @classmethod
    def open(cls, path: str | Path) -> "Study":
        """Open a study; its large files are read when they are first asked for."""
        folder = Path(path).resolve()
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no folder {path}")
        settings = folder / "study.toml"
        if (folder / READY).is_dir():
            with locked(folder, WAIT, _held(folder)):
                _move_up(folder)
        if not settings.is_file():
            if (folder / UNFINISHED).is_dir():
                raise ValueError(f"{path} is not yet a study: lookalike encode was ended early, run it again")
            beside = folder.with_name(f"{folder.name}-study")
            if (beside / "study.toml").is_file():
                raise ValueError(f"{path} is not a study, it has no study.toml: did you mean {beside.name}, beside it?")
            raise ValueError(
                f"{path} is not a study, it has no study.toml: lookalike encode makes one from a folder of images, "
                "lookalike study new from a catalogue"
            )
        about = read_toml(settings.read_bytes(), settings)
        check_format(about, settings)
        for key, kind in {"lookalike": str, "format": int, "name": str}.items():
            if not isinstance(about.get(key), kind):
                raise ValueError(f"{settings} is damaged: it does not say {key!r}")
        for key, known in {"lookalike": ("study",), "queries": ("closed", "wild"), "similarity": SIMILARITIES}.items():
            if about.get(key) not in known:
                raise ValueError(f"{settings}: {key!r} must be {' or '.join(map(repr, known))}, got {about.get(key)!r}")
        origin = about.get("folder", {"images": "", "folders": "", "queries": ""})
        if not isinstance(origin, dict) or not all(
            isinstance(origin.get(key), str) for key in ("images", "folders", "queries")
        ):
            raise ValueError(f"{settings} is damaged: [folder] must say images, folders and queries")
        for file in ("catalogue.parquet", "queries.parquet", "votes.sqlite"):
            if not (folder / file).is_file():
                raise ValueError(f"the study {path} is not whole: {file} is missing")
        return cls(folder, about)

    def __repr__(self) -> str:
        kind = "wild" if self.wild else "closed"
        sizes = f"{len(self.queries):,} {kind} queries, {len(self.catalogue):,} items, {len(self.models())} models"
        return f"Study({self.name}: {sizes})"

    @functools.cached_property
    def catalogue(self) -> Catalogue:
        """The items that are searched."""
        return Catalogue.read(self.path / "catalogue.parquet")

    @functools.cached_property
    def queries(self) -> Catalogue:
        """The queries, with the same columns as the catalogue where they are from it."""
        return Catalogue.read(self.path / "queries.parquet")

    def image_path(self, position: int) -> Path | None:
        """The image file of an item; None where the catalogue does not say."""
        return None if self.catalogue.paths is None else self.path / str(self.catalogue.paths[position])

    def set_items(self, catalogue: Catalogue, queries: Any, folder: Mapping[str, Any]) -> "Study":
        """Replace the catalogue and its queries, and return the study as it then is.

        Models of other items are refused from then on until they are written again: see `lookalike.study.encode`. Where
        there is a pool, ids, identities and queries stay; paths, categories and attributes may change.
        """
        if self.wild:
            raise ValueError(f"the study {self.name!r} has queries from elsewhere: its items cannot be replaced")
        chosen = _closed_queries(queries, catalogue)
        if not len(chosen):
            raise ValueError("a study needs at least one query")
        about = provenance("study", name=self.name, queries="closed", similarity=self.similarity, folder=dict(folder))
        with self.changing():
            if not self.pool_fits(chosen, catalogue):
                raise ValueError(f"the study {self.name!r} has a pool, which was made of its items: they stay")
            chosen.write(self.path / "queries.parquet")  # first: a kill leaves a catalogue that is replaced again
            catalogue.write(self.path / "catalogue.parquet")
            write_text(self.path / "study.toml", _toml(about))
        return Study(self.path, about)

    def set_queries(self, queries: Any) -> "Study":
        """Choose other items as queries, positions or ids, and return the study as it then is."""
        if self.wild:
            raise ValueError(f"the study {self.name!r} has queries from elsewhere, not from its catalogue")
        chosen = _closed_queries(queries, self.catalogue)
        if not len(chosen):
            raise ValueError("a study needs at least one query")
        with self.changing():
            if self.pool_path.exists():
                way = "make another study" if len(self.votes()) else f"remove {self.pool_path}, nobody has voted yet"
                raise ValueError(
                    f"the study {self.name!r} has a pool, which was made for its queries: to choose others, {way}"
                )
            if fixed := self._with_own_queries():
                raise ValueError(f"the model {fixed!r} was added with queries of its own: remove it first")
            chosen.write(self.path / "queries.parquet")
            if self.folder is not None:
                about = provenance("study", name=self.name, queries="closed", similarity=self.similarity)
                write_text(self.path / "study.toml", _toml(about | {"folder": {**self.folder, "queries": "chosen"}}))
        return Study.open(self.path)

    def _with_own_queries(self) -> str | None:
        """A model that ranks or has rows of just the present queries, if there is one."""
        for name in self.models():
            path, _ = self._model_files(name)
            if not path.is_file() or read_arrays(path, ["query_codes", "query_embeddings"])[0]:
                return name
        return None

    # Models

    def models(self) -> list[str]:
        """Names of the models, sorted."""
        endings = (".npz", ".run.gz")
        found = {
            file.name.removesuffix(ending)
            for file in (self.path / "models").glob("*")
            for ending in endings
            if file.name.endswith(ending)
        }
        return sorted(name for name in found if NAME.fullmatch(name))

    def add_model(
        self,
        name: str,
        queries: Any = None,
        gallery: Any = None,
        *,
        run: str | Path | Mapping[Any, Mapping[Any, float]] | None = None,
        similarity: str | None = None,
        query_ids: Any = None,
        gallery_ids: Any = None,
        recipe: Recipe | None = None,
        contents: np.ndarray | None = None,
        replace: bool = False,
    ) -> None:
        """Keep what a model makes of queries and gallery, embeddings or codes, or what it ranks, a run.

        queries, gallery: a row for each query and each item, in the order of the study or of `query_ids` and
        `gallery_ids`; where the queries are of the catalogue they may be left out. run: a TREC file, or
        {query: {item: score}}. recipe and contents: how and of which files it was made, where it was encoded here.
        """
        check_name(name, "a model")
        if name == RANDOM:
            raise ValueError(f"a model cannot be named {name!r}, which is what pairs drawn by chance are marked with")
        if (run is None) == (gallery is None):
            raise ValueError(f"the model {name!r} needs either embeddings or codes of the gallery, or a run")
        if run is not None:
            if any(given is not None for given in (queries, similarity, query_ids, gallery_ids)):
                raise ValueError(f"the model {name!r} is a run, which has ids and scores of its own: give nothing else")
            stored = Stored(name, run=self._checked_run(run))
        else:
            stored = self._checked_vectors(name, queries, gallery, similarity, query_ids, gallery_ids)
            stored = replaced(stored, recipe=recipe, contents=contents)
        with self.changing():
            if name in self.models() and not replace:
                raise ValueError(f"the study has a model {name!r} already: choose another name, or replace it")
            if recipe is None:
                self._check_not_hashed(name)
            if name in self.models() and (pooled := self.pooled(name)):
                raise ValueError(
                    f"the pool has what the model {pooled!r} proposed: give the new one another name, and top up the "
                    "pool"
                )
            self._write_model(stored)

    def model(self, name: str) -> Stored:
        """A model as it was given, its rows in the order of the study."""
        vectors, run = self._model_files(name)
        for path in (vectors, run, vectors):  # which another process may just now put in the other's place
            with contextlib.suppress(FileNotFoundError):
                return self._read_vectors(name, path) if path == vectors else Stored(name, run=read_run(path))
        raise ValueError(self._no_model(name))

    def remove_model(self, name: str) -> None:
        """Forget a model."""
        with self.changing():
            if name not in self.models():
                raise ValueError(self._no_model(name))
            self._check_not_hashed(name)
            vectors, run = self._model_files(name)
            run.unlink(missing_ok=True)  # first, since vectors come before a run of the same name
            vectors.unlink(missing_ok=True)
            for file in (self.index_path(name), self.hasher_path(name)):
                file.unlink(missing_ok=True)

    def recipes(self) -> dict[str, Recipe | None]:
        """How each model was made; see `recipe`."""
        return {name: self.recipe(name) for name in self.models()}

    def recipe(self, name: str) -> Recipe | None:
        """How a model was made; None: it came from a file. The items may have changed since."""
        path, _ = self._model_files(name)
        about = read_arrays(path, [])[1] if path.is_file() else {}
        return recipe_of(name, about)

    def _check_not_hashed(self, name: str) -> None:
        """Raise where codes of the study were made of this model."""
        for other, recipe in self.recipes().items():
            if recipe is not None and recipe.source == name:
                raise ValueError(f"the model {other!r} was hashed from {name!r}: remove that first")

    def index_path(self, name: str) -> Path:
        """Where the index of a model is kept, which may be missing or stale."""
        check_name(name, "a model")
        return self.path / "indexes" / f"{name}.npz"

    def hasher_path(self, name: str) -> Path:
        """Where the hasher of a model is kept, for models that are hashed embeddings."""
        check_name(name, "a model")
        return self.path / "hashers" / f"{name}.npz"

    def _model_files(self, name: str) -> tuple[Path, Path]:
        check_name(name, "a model")
        return self.path / "models" / f"{name}.npz", self.path / "models" / f"{name}.run.gz"

    def hasher_digest(self, name: str) -> str:
        """The fingerprint of the hasher of a model."""
        return hashlib.sha256(self.hasher_path(name).read_bytes()).hexdigest()[:16]

    def _no_model(self, name: str) -> str:
        known = self.models()
        nearest = difflib.get_close_matches(name, known, 1, 0.4)
        advice = f", did you mean {nearest[0]!r}?" if nearest else ""
        return f"the study has no model {name!r}{advice} (it has {', '.join(known) or 'none'})"

    def _write_model(self, stored: Stored) -> None:
        """Write a model, whose name the folder may have as the other kind of file.

        Vectors come before a run of the same name: at every moment, exactly one of old and new is the model.
        """
        vectors, run = self._model_files(stored.name)
        vectors.parent.mkdir(exist_ok=True)
        if stored.run is not None:
            write_run(run, stored.run, stored.name)
            vectors.unlink(missing_ok=True)
            return
        about = provenance("model", similarity=stored.similarity, ids=self._fingerprint(stored.queries is not None))
        if stored.recipe is not None:
            about["recipe"] = asdict(stored.recipe)
        write_arrays(vectors, stored.arrays(), about)
        run.unlink(missing_ok=True)

    def _read_vectors(self, name: str, path: Path) -> Stored:
        arrays, about = read_arrays(path)
        if about.get("lookalike") != "model":
            raise ValueError(f"{path} is not a model of a study: add it with add_model")
        own_queries = bool({"query_codes", "query_embeddings"} & set(arrays))
        if about.get("ids") != self._fingerprint(own_queries):
            if "contents" in arrays:
                raise ValueError(f"the images of the study have changed since {name!r} was made: run lookalike encode")
            raise ValueError(f"{path} was added to another study: its rows are not those of the queries and items here")
        stored = stored_vectors(name, arrays, about)
        if stored is None or (self.wild and not own_queries):
            raise ValueError(f"{path} is not a whole model: it lacks codes or embeddings of queries or gallery")
        assert stored.gallery is not None
        if len(stored.gallery) != len(self.catalogue):
            raise ValueError(f"{path} is damaged: of {len(self.catalogue):,} items it has {len(stored.gallery):,} rows")
        if stored.contents is not None and len(stored.contents) != len(stored.gallery):
            raise ValueError(f"{path} is damaged: it does not say of which files its rows are")
        if own_queries:
            return stored
        if np.array_equal(self.queries.ids, self.catalogue.ids):
            return replaced(stored, queries=stored.gallery)
        return replaced(stored, queries=stored.gallery[self.catalogue.positions(self.queries.ids)])

    @functools.cache  # noqa: B019  # a study is open as long as it is used
    def _fingerprint(self, own_queries: bool) -> str:
        """Of the ids whose rows a model has: of the items, and of the queries where it has rows of their own."""
        return digest(self.queries.ids, self.catalogue.ids) if own_queries else digest(self.catalogue.ids)

    def _checked_vectors(
        self, name: str, queries: Any, gallery: Any, similarity: str | None, query_ids: Any, gallery_ids: Any
    ) -> Stored:
        gallery = self._rows(name, gallery, gallery_ids, self.catalogue, "items")
        if queries is None and query_ids is not None:
            raise ValueError(f"the model {name!r} has ids of queries, but no queries")
        if queries is None and self.wild:
            raise ValueError(f"the model {name!r} needs the queries too: they are not in the catalogue")
        own = None if queries is None else self._rows(name, queries, query_ids, self.queries, "queries")
        compared = gallery[:1] if own is None else own
        if isinstance(compared, Codes) and isinstance(gallery, Codes):
            if similarity is not None:
                raise ValueError(f"codes are compared by Hamming distance: similarity={similarity!r} is for embeddings")
            if compared.n_bits != gallery.n_bits:
                raise ValueError(
                    f"gallery codes have {gallery.n_bits} bits, queries have {compared.n_bits}: "
                    "encode both with the same hasher"
                )
            return Stored(name, own, gallery)
        if isinstance(compared, Codes) or isinstance(gallery, Codes):
            raise TypeError("queries and gallery must both be Codes or both embeddings")
        Embeddings(compared, gallery, similarity or self.similarity)  # raises for what cannot be compared
        return Stored(name, own, gallery, similarity or self.similarity)

    def _rows(self, name: str, given: Any, ids: Any, expected: Catalogue, what: str) -> Any:
        """Codes or a matrix with a row for each of the expected ids, in their order."""
        vectors = given if isinstance(given, Codes) else as_numpy(given)
        if not isinstance(vectors, Codes) and vectors.ndim != 2:
            raise ValueError(
                f"the model {name!r} needs a matrix of embeddings of the {what}, got shape {vectors.shape}"
            )
        if len(vectors) != len(expected):
            raise ValueError(f"the study has {len(expected)} {what}, but the model {name!r} has {len(vectors)} of them")
        if ids is None:
            return vectors
        own = Catalogue(ids)
        if len(own) != len(vectors):
            raise ValueError(f"the model {name!r} has {len(vectors)} rows of {what}, but {len(own)} ids of them")
        strange = np.setdiff1d(own.ids, expected.ids)
        if strange.size:
            raise ValueError(
                f"the model {name!r} is of another catalogue: {len(strange)} of its {len(own)} ids are not among the "
                f"{what} of the study, such as {str(strange[0])!r}; one of these is {str(expected.ids[0])!r}"
            )
        return vectors[own.positions(expected.ids)]

    def _checked_run(self, run: str | Path | Mapping[Any, Mapping[Any, float]]) -> Run:
        if not isinstance(run, Mapping):
            rows = ((f"{run}, line {line}", query, item, score) for line, query, item, score in rows_of_run(run))
        elif all(isinstance(items, Mapping) for items in run.values()):
            pairs = ((query, item, score) for query, items in run.items() for item, score in items.items())
            rows = (("the run", str(query), str(item), float(score)) for query, item, score in pairs)
        else:
            raise TypeError("a run is a TREC file or {query: {item: score}}")
        known = {"query": set(self.queries.ids.tolist()), "item": set(self.catalogue.ids.tolist())}
        checked: Run = {}
        for where, query, item, score in rows:
            for what, name in (("query", query), ("item", item)):
                if name not in known[what]:
                    raise ValueError(f"{where}: there is no {what} {name!r} in the study")
            if score != score:
                raise ValueError(f"{where}: the score of query {query!r} and item {item!r} is nan")
            checked.setdefault(query, {})[item] = score
        if not checked:
            raise ValueError("the run is empty")
        return checked

    # Pool, votes, gold pairs, results

    @functools.cached_property
    def collection(self) -> Collection:
        """Queries and items as all models rank them."""
        return _collection(self.queries, self.catalogue)

    @property
    def pool_path(self) -> Path:
        """Where the pool is kept."""
        return self.path / "pool.parquet"

    def pool(self) -> Pool:
        """The pool that was kept last."""
        if not self.pool_path.exists():
            raise ValueError(f"the study {self.name!r} has no pool yet: lookalike pool {self.path.name} makes one")
        return Pool.load(self.pool_path, self.collection)

    def pool_fits(self, queries: Catalogue, items: Catalogue) -> bool:
        """Whether the pool, where there is one, is of just these queries and items: all else of them may differ."""
        if not self.pool_path.exists():
            return True
        return read_arrays(self.pool_path, [])[1].get("collection") == _collection(queries, items).digest

    def pooled(self, name: str) -> str | None:
        """What of a model the pool has proposals of, so that it must not change: itself, or codes made of it."""
        if not self.pool_path.exists():
            return None
        inside = self.pool().models
        made_of_it = (other for other, recipe in self.recipes().items() if recipe is not None and recipe.source == name)
        return next((each for each in (name, *made_of_it) if each in inside), None)

    def write_pool(self, pool: Pool) -> None:
        """Keep a pool, in place of the one before; raises where the study has other queries or items by now."""
        with self.changing():
            files = (self.path / "queries.parquet", self.path / "catalogue.parquet")  # as they are by now
            if pool.collection.digest != _collection(*map(Catalogue.read, files)).digest:
                raise ValueError(
                    f"the queries or items of the study {self.name!r} have changed since this pool was built: build it "
                    "again"
                )
            pool.save(self.pool_path)

    def top_up(self, model: str, *, threads: int | None = None) -> Pool:
        """Add what a model proposes to the pool, unless it is there: votes on its pairs are then taken."""
        given = self.model(model).given
        with self.changing():  # from reading on: another process may add a model too
            pool = self.pool()
            if model not in pool.models:
                pool = pool.with_model(model, given, threads=threads)
                pool.save(self.pool_path)
        return pool

    def votes(self) -> Votes:
        """All votes, in the order in which they came."""
        return read_votes(self.path / "votes.sqlite")

    def append_votes(self, votes: Votes, *, again: bool = True) -> Votes:
        """Add votes, all or none; when this returns they are on disk. Returns those that were added.

        again: whether to add votes that are there already, of the same query, item, expert, answer and time.
        """
        self.check_pairs(votes.queries, votes.items, "voted")
        return append_votes(self.path / "votes.sqlite", votes, again=again)

    def check_pairs(self, queries: np.ndarray, items: np.ndarray, what: str) -> None:
        """Raise where a pair is not of a query and an item of the study, or is of a query with itself."""
        self.queries.positions(queries, f"{what} query", "among the queries of the study")
        self.catalogue.positions(items, f"{what} item")
        if (same := np.flatnonzero(queries == items)).size:
            raise ValueError(
                f"{len(same):,} of {len(items):,} {what} pairs are of a query with itself, first "
                f"{str(items[same[0]])!r}: nobody has to judge these, leave them out"
            )

    def gold(self) -> Judgements | None:
        """Pairs whose answer is known, to test experts with; None where there are none."""
        path = self.path / "gold.parquet"
        return Judgements.of(read_judgements(path)) if path.exists() else None

    def set_gold(self, pairs: Any) -> None:
        """Keep these as the gold pairs: judgements or rows (query, item, grade), with grades 0 and 1; None for none."""
        path = self.path / "gold.parquet"
        if pairs is None:
            with self.changing():
                path.unlink(missing_ok=True)
            return
        gold = Judgements.of(pairs)
        self.check_pairs(gold.queries, gold.items, "gold")
        if wrong := np.flatnonzero(gold.grades > 1).tolist():
            query, item = gold.pairs[wrong[0]]
            grade = gold.grades[wrong[0]]
            raise ValueError(f"a gold pair is 1 (similar) or 0: query {query!r} and item {item!r} have {grade}")
        with self.changing():
            write_judgements(path, gold.queries, gold.items, gold.grades)

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
        """Whether this process may write into the folder; a study that is only to be read can be shown all the same."""
        held = self.path / "study.lock"
        return os.access(self.path, os.W_OK) and (not held.exists() or os.access(held, os.W_OK))

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Keep all other processes from changing the study meanwhile; do not nest. Votes are added without it."""
        if not self.can_change:
            raise PermissionError(f"the study {self.path} can only be read here: it cannot be changed")
        with (self.path / "study.lock").open("ab") as file:
            lock(file.fileno(), WAIT, _held(self.path))
            for left in [*self.path.glob(".*.part"), *self.path.glob("*/.*.part")]:
                left.unlink()  # of a process that was killed: only this one writes now
            yield


def _collection(queries: Catalogue, items: Catalogue) -> Collection:
    of_queries, of_items = queries.identities, items.identities
    if of_queries is None and of_items is None:
        return Collection(queries.ids, items.ids)
    if of_queries is None:  # each its own, and none an item's
        of_queries = np.array([f"query {name}" for name in queries.ids.tolist()])
    if of_items is None:
        of_items = np.array([f"item {name}" for name in items.ids.tolist()])
    return Collection(queries.ids, items.ids, of_queries, of_items)


def _closed_queries(queries: Any, catalogue: Catalogue) -> Catalogue:
    if isinstance(queries, Catalogue):
        queries = queries.ids
    given = as_numpy(queries)
    if given.dtype.kind in "iu" and given.ndim == 1:
        outside = given[(given < 0) | (given >= len(catalogue))]
        if outside.size:
            raise ValueError(f"positions of queries must be from 0 to {len(catalogue) - 1}, got {outside[0]}")
        return catalogue[given]
    return catalogue[catalogue.positions(text_array(queries, "queries"), "query")]


def _wild_queries(queries: Any, catalogue: Catalogue) -> Catalogue:
    if not isinstance(queries, Catalogue):
        raise TypeError(f"queries of a wild study are a Catalogue of their own, got {type(queries).__name__}")
    if (both := np.intersect1d(queries.ids, catalogue.ids)).size:
        raise ValueError(
            f"{len(both)} wild queries have the id of an item, such as {str(both[0])!r}: "
            "give them ids of their own, or make a study with queries from the catalogue"
        )
    return queries


@contextlib.contextmanager
def _becoming(folder: Path) -> Iterator[Path]:
    """A hidden folder inside; its files move up when the block has ended well, last study.toml, which makes a study.

    An UNFINISHED folder may be there before, in which images were encoded.
    """
    if not folder.parent.is_dir():
        raise ValueError(f"cannot make a study in {folder}: the folder {folder.parent} does not exist")
    taken = ValueError(f"cannot make a study in {folder}: it is not a new or empty folder; Study.open opens a study")
    if folder.exists() and not folder.is_dir():
        raise taken
    folder.mkdir(exist_ok=True)
    with locked(folder, WAIT, _held(folder)):
        _move_up(folder)
        left = left_in(folder, "study")
        if any(entry not in left and entry.name != UNFINISHED for entry in folder.iterdir()):
            raise taken
        with part_of(folder, "study") as made:
            yield made
            made.rename(folder / READY)
            _move_up(folder)


def _move_up(folder: Path) -> None:
    """Give the files of a study that is READY their place, those that are left if another process was killed at it."""
    if (folder / READY).is_dir():
        move_up(folder / READY, folder, last="study.toml")


def _held(folder: Path) -> str:
    return f"another process is changing this study, {folder}: try again when it has ended"


def _toml(about: Mapping[str, Any]) -> str:
    """Text and whole numbers as TOML, and tables of them; JSON's form of a text is TOML's too."""
    lines = ["# A study of lookalike; docs/reference/formats.md says what is in this folder."]
    tables = {key: value for key, value in about.items() if isinstance(value, Mapping)}
    lines += [_line(key, value) for key, value in about.items() if key not in tables]
    for name, rows in tables.items():
        lines += ["", f"[{name}]", *(_line(key, value) for key, value in rows.items() if value is not None)]
    return "\n".join(lines) + "\n"


def _line(key: str, value: str | int) -> str:
    return f"{key} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")


def _check_similarity(similarity: str) -> None:
    if similarity not in SIMILARITIES:
        raise ValueError(f"similarity must be one of {', '.join(map(repr, SIMILARITIES))}, got {similarity!r}")


def check_name(name: str, what: str) -> None:
    """Raise for a name that is not that of a file."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(
            f"the name of {what} is a file's: it has letters from a to z, digits and . _ + -, begins with a letter or "
            f"digit and has at most 100 characters, got {name!r}"
        )
