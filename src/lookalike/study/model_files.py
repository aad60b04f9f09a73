"""The files of a study's models: where each is, what is read from it and what is written."""

import contextlib
import hashlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from lookalike.core.checks import nearest
from lookalike.core.errors import FileError, StudyError
from lookalike.core.files import provenance, read_arrays, write_arrays
from lookalike.evaluation.trec import read_run, write_run
from lookalike.study.folder import check_name, is_name
from lookalike.study.items import StudyItems
from lookalike.study.model import Recipe, Stored, recipe_of, stored_vectors

ENDINGS = (".npz", ".run.gz")  # of vectors, and of a run
QUERY_ARRAYS = ("query_codes", "query_embeddings")

__all__ = ["ModelFiles"]


@dataclass(frozen=True)
class ModelFiles:
    """The models in the folder of a study: vectors (.npz) or runs (.run.gz), and their indexes and hashers.

    If a killed process leaves both files of a name, the vectors are the model.
    """

    folder: Path  # of the study
    wild: bool  # whether each model must have vectors of the queries too

    def names(self) -> list[str]:
        """Names of the models, sorted."""
        names = {
            file.name.removesuffix(ending)
            for file in (self.folder / "models").glob("*")
            for ending in ENDINGS
            if file.name.endswith(ending)
        }
        return sorted(filter(is_name, names))

    def vectors_path(self, name: str) -> Path:
        """The file with the embeddings or codes of a model."""
        return self._path("models", name, ".npz")

    def run_path(self, name: str) -> Path:
        """The file with the run of a model that is one."""
        return self._path("models", name, ".run.gz")

    def index_path(self, name: str) -> Path:
        """The file with the index of a model; it may be missing or stale."""
        return self._path("indexes", name, ".npz")

    def map_path(self, name: str) -> Path:
        """The file with the map of a model; it may be missing or stale."""
        return self._path("maps", name, ".npz")

    def hasher_path(self, name: str) -> Path:
        """The file with the hasher of a model, if its codes are hashed embeddings of another."""
        return self._path("hashers", name, ".npz")

    def text_path(self, name: str) -> Path:
        """The file that says where the text side of a model is, if one was given."""
        return self._path("models", name, ".text.json")

    def _path(self, folder: str, name: str, ending: str) -> Path:
        check_name(name, "a model")
        return self.folder / folder / f"{name}{ending}"

    def hasher_digest(self, name: str) -> str:
        """The fingerprint of the hasher of a model."""
        return hashlib.sha256(self.hasher_path(name).read_bytes()).hexdigest()[:16]

    def recipe(self, name: str) -> Recipe | None:
        """How a model was made; None if it came from a file."""
        path = self.vectors_path(name)
        about = read_arrays(path, [])[1] if path.is_file() else {}
        return recipe_of(name, about)

    def recipes(self) -> dict[str, Recipe | None]:
        """How each model was made."""
        return {name: self.recipe(name) for name in self.names()}

    def hashed_from(self, name: str) -> list[str]:
        """The models with codes that were made of the embeddings of this one."""
        return [other for other, recipe in self.recipes().items() if recipe is not None and recipe.source == name]

    def with_own_queries(self) -> str | None:
        """A model with a run or vectors of just the present queries, if there is one."""
        for name in self.names():
            path = self.vectors_path(name)
            if not path.is_file() or read_arrays(path, QUERY_ARRAYS)[0]:
                return name
        return None

    def check_not_hashed(self, name: str) -> None:
        """Raise if codes of the study were made of this model."""
        if codes := self.hashed_from(name):
            raise StudyError(f"the model {codes[0]!r} was hashed from {name!r}: remove that first")

    def missing(self, name: str) -> StudyError:
        """The error that says that there is no model of this name, and which there are."""
        names = self.names()
        similar = nearest(name, names)
        question = "" if similar is None else f", did you mean {similar!r}?"
        return StudyError(f"the study has no model {name!r}{question} (it has {', '.join(names) or 'none'})")

    def read(self, name: str, items: StudyItems, *, mapped: bool = False) -> Stored:
        """A model as it was given, its vectors in the order of the study. mapped: large ones stay in their file."""
        vectors, run = self.vectors_path(name), self.run_path(name)
        for path in (vectors, run, vectors):  # another process may just now replace one by the other
            with contextlib.suppress(FileNotFoundError):
                if path == run:
                    return Stored(name, run=read_run(path))
                return self._read_vectors(name, path, items, mapped)
        raise self.missing(name)

    def _read_vectors(self, name: str, path: Path, items: StudyItems, mapped: bool) -> Stored:
        arrays, about = read_arrays(path, mapped=mapped)
        if about.get("lookalike") != "model":
            raise FileError(f"{path} is not a model of a study: add it with add_model", path=path)
        own_queries = not set(QUERY_ARRAYS).isdisjoint(arrays)
        if about.get("ids") != items.fingerprint(own_queries):
            if "contents" in arrays:
                raise StudyError(f"the images of the study have changed since {name!r} was made: run lookalike encode")
            raise FileError(
                f"{path} was added to another study: its rows are not those of the queries and items here", path=path
            )
        stored = stored_vectors(name, arrays, about)
        if stored is None or (self.wild and not own_queries):
            raise FileError(
                f"{path} is not a whole model: it lacks codes or embeddings of queries or gallery", path=path
            )
        assert stored.gallery is not None
        n_items = len(items.catalogue)
        if len(stored.gallery) != n_items:
            raise FileError(f"{path} is damaged: of {n_items:,} items it has {len(stored.gallery):,} rows", path=path)
        if stored.contents is not None and len(stored.contents) != n_items:
            raise FileError(f"{path} is damaged: it does not say of which files its rows are", path=path)
        if own_queries:
            return stored
        if np.array_equal(items.queries.ids, items.catalogue.ids):
            return replace(stored, queries=stored.gallery)
        return replace(stored, queries=stored.gallery[items.catalogue.positions(items.queries.ids)])

    def write(self, stored: Stored, items: StudyItems) -> None:
        """Write a model; if the study has a file of the other kind with its name, remove that one.

        The vectors are the model if both files are there. So at each moment the model is either the old or the new.
        """
        vectors, run = self.vectors_path(stored.name), self.run_path(stored.name)
        vectors.parent.mkdir(exist_ok=True)
        if stored.run is not None:
            write_run(run, stored.run, stored.name)
            vectors.unlink(missing_ok=True)
            return
        ids = items.fingerprint(stored.queries is not None)
        about = provenance("model", similarity=stored.similarity, ids=ids)
        if stored.recipe is not None:
            about["recipe"] = asdict(stored.recipe)
        if stored.hasher_fingerprint is not None:
            about["hasher"] = stored.hasher_fingerprint
        write_arrays(vectors, stored.arrays(), about)
        run.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        """Remove all files of a model that no other was made of."""
        if name not in self.names():
            raise self.missing(name)
        self.check_not_hashed(name)
        self.run_path(name).unlink(missing_ok=True)  # first: while both are there, the vectors are the model
        beside = self.index_path(name), self.map_path(name), self.hasher_path(name), self.text_path(name)
        for path in (self.vectors_path(name), *beside):
            path.unlink(missing_ok=True)
