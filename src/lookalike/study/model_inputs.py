"""What users add to a study as a model: checked, and brought into the order of its items."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.checks import same_bits, same_hasher
from lookalike.core.codes import Codes, as_numpy
from lookalike.core.embeddings import Embeddings
from lookalike.core.errors import FileError, InputError, InputTypeError, Option, StudyError
from lookalike.discovery.catalogue import Catalogue
from lookalike.evaluation.trec import rows_of_run
from lookalike.study.items import StudyItems
from lookalike.study.model import Run, Stored

RunInput = str | Path | Mapping[Any, Mapping[Any, float]]  # a TREC file, or {query: {item: score}}

__all__ = ["RunInput", "VectorsInput", "checked_run", "checked_vectors"]


@dataclass(frozen=True, eq=False)
class VectorsInput:
    """Embeddings or codes of a model as a user gives them; queries may be None if they are items."""

    name: str
    queries: Any
    gallery: Any
    similarity: str | None
    query_ids: Any
    gallery_ids: Any

    @property
    def for_vectors_alone(self) -> bool:
        """Whether something is given that a run cannot have."""
        return any(value is not None for value in (self.queries, self.similarity, self.query_ids, self.gallery_ids))


def checked_vectors(vectors: VectorsInput, items: StudyItems, wild: bool, similarity: str) -> Stored:
    """A model of vectors that can be compared, in the order of the study. similarity: of embeddings that have none."""
    name = vectors.name
    gallery = _in_order(name, vectors.gallery, vectors.gallery_ids, items.catalogue, "items")
    if vectors.queries is None and vectors.query_ids is not None:
        raise InputError(f"the model {name!r} has ids of queries, but no queries")
    if vectors.queries is None and wild:
        raise StudyError(f"the model {name!r} needs the queries too: they are not in the catalogue")
    queries = None
    if vectors.queries is not None:
        queries = _in_order(name, vectors.queries, vectors.query_ids, items.queries, "queries")
    compared = gallery[:1] if queries is None else queries
    if isinstance(compared, Codes) and isinstance(gallery, Codes):
        if vectors.similarity is not None:
            unused = Option("similarity", vectors.similarity)
            raise InputError("codes are compared by Hamming distance: ", unused, " is for embeddings")
        same_bits(compared.n_bits, gallery.n_bits)
        same_hasher(compared.hasher, gallery.hasher)
        return Stored(name, queries, gallery)
    if isinstance(compared, Codes) or isinstance(gallery, Codes):
        raise InputTypeError("queries and gallery must both be Codes or both embeddings")
    Embeddings(compared, gallery, vectors.similarity or similarity)  # raises if they cannot be compared
    return Stored(name, queries, gallery, vectors.similarity or similarity)


def _in_order(name: str, values: Any, ids: Any, expected: Catalogue, what: str) -> Any:
    """Codes or a matrix with a row for each of the expected ids, in their order.

    By ids, it may have more rows than the study: one file of all images serves every task that has some of them.
    """
    vectors = values if isinstance(values, Codes) else as_numpy(values)
    if not isinstance(vectors, Codes) and vectors.ndim != 2:
        raise InputError(f"the model {name!r} needs a matrix of embeddings of the {what}, got shape {vectors.shape}")
    own = None if ids is None else Catalogue(ids)
    if own is not None and len(own) == len(vectors) > len(expected) and np.isin(expected.ids, own.ids).all():
        return vectors[own.positions(expected.ids)]
    if len(vectors) != len(expected):
        raise StudyError(f"the study has {len(expected)} {what}, but the model {name!r} has {len(vectors)} of them")
    if own is None:
        return vectors
    if len(own) != len(vectors):
        raise InputError(f"the model {name!r} has {len(vectors)} rows of {what}, but {len(own)} ids of them")
    strange = np.setdiff1d(own.ids, expected.ids)
    if strange.size:
        raise StudyError(
            f"the model {name!r} is of another catalogue: {len(strange)} of its {len(own)} ids are not among the "
            f"{what} of the study, such as {str(strange[0])!r}; one of these is {str(expected.ids[0])!r}"
        )
    return vectors[own.positions(expected.ids)]


def checked_run(run: RunInput, items: StudyItems) -> Run:
    """A run with queries and items of the study alone, and scores that are numbers."""
    ids = {"query": set(items.queries.ids.tolist()), "item": set(items.catalogue.ids.tolist())}
    checked: Run = {}
    for line, query, item, score in _rows_of(run):
        for what, name in (("query", query), ("item", item)):
            if name not in ids[what]:
                raise _wrong(run, line, f"there is no {what} {name!r} in the study")
        if score != score:
            raise _wrong(run, line, f"the score of query {query!r} and item {item!r} is nan")
        checked.setdefault(query, {})[item] = score
    if not checked:
        raise InputError("the run is empty")
    return checked


def _rows_of(run: RunInput) -> Iterator[tuple[int | None, str, str, float]]:
    """Line of the file, query, item and score of each row of a run."""
    if not isinstance(run, Mapping):
        yield from rows_of_run(run)
        return
    for query, scores in run.items():
        if not isinstance(scores, Mapping):
            raise InputTypeError("a run is a TREC file or {query: {item: score}}")
        for item, score in scores.items():
            yield None, str(query), str(item), _number(score, query, item)


def _wrong(run: RunInput, line: int | None, message: str) -> InputError:
    if line is None:
        return InputError(f"the run: {message}")
    return FileError(f"{run}, line {line}: {message}", path=run, line=line)


def _number(score: Any, query: Any, item: Any) -> float:
    try:
        return float(score)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputTypeError(f"the run: the score of query {query!r} and item {item!r} is {score!r}") from error
