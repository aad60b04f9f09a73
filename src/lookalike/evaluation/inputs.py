"""Checks of what users give to `evaluate` and `count`: each thing once, before anything is counted."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.core.checks import choice, distinct, same_bits, same_hasher
from lookalike.core.codes import Codes, as_numpy
from lookalike.core.column import Column
from lookalike.core.embeddings import Embeddings, Scores, as_floats
from lookalike.core.errors import InputError, InputTypeError, Option
from lookalike.core.files import PendingDigest, digest
from lookalike.core.ids import id_array
from lookalike.evaluation.notes import notes_of_embeddings, notes_of_exclusion, notes_of_vectors
from lookalike.evaluation.relevance import Groups, Judged, Relevance
from lookalike.evaluation.request import Request, ShardGroups
from lookalike.shards.gallery import Shards

LEVELS = ("image", "product")
BOTH_OR_NEITHER = "queries and gallery must both be Codes or both embeddings"

__all__ = ["Ids", "request_of_scores", "request_of_vectors"]


@dataclass(frozen=True)
class Ids:
    """What users give beside the vectors, as they give it: what is relevant, ids, and what does not rank."""

    relevance: Relevance
    query_ids: Any = None
    gallery_ids: Any = None
    exclude: Any = None
    level: str = "image"

    @property
    def by_position(self) -> bool:
        """Whether neither queries nor items have ids."""
        return self.query_ids is None and self.gallery_ids is None


def request_of_vectors(queries: Any, gallery: Any, ids: Ids, similarity: str | None) -> Request:
    """A request of codes or embeddings, with a gallery in memory or in shards."""
    if isinstance(gallery, Shards):
        return _of_shards(queries, gallery, ids, similarity)
    if isinstance(queries, Codes) != isinstance(gallery, Codes):
        raise InputTypeError(BOTH_OR_NEITHER)
    if isinstance(queries, Codes):
        _check_no_similarity(similarity)
        same_bits(queries.n_bits, gallery.n_bits)
        same_hasher(queries.hasher, gallery.hasher)
        # codes and relevance are fingerprinted when they are saved
        inputs = {"queries": queries, "gallery": gallery, "relevance": ids.relevance}
        request = _in_memory(queries, gallery, ids, (len(queries), len(gallery)), inputs, bits=gallery.n_bits)
        return _with_notes(request, ids, queries, gallery)
    similarity = similarity or "cosine"
    embeddings = Embeddings(queries, gallery, similarity)
    sizes = embeddings.n_queries, embeddings.n_gallery
    facts = {"columns": as_numpy(queries).shape[1], "similarity": similarity}
    request = _in_memory(embeddings, None, ids, sizes, {"relevance": ids.relevance}, **facts)
    vectors = {"queries": as_numpy(queries), "gallery": as_numpy(gallery)}
    request.about["inputs"].update((name, PendingDigest(array)) for name, array in vectors.items())
    return _with_notes(request, ids, queries, gallery)


def _with_notes(request: Request, ids: Ids, queries: Any, gallery: Any) -> Request:
    """The request, whose result says what is remarkable about its vectors."""
    if ids.exclude is None:
        own, of_items = (
            None if given is None else np.asarray(checked)
            for given, checked in ((ids.query_ids, request.query_ids), (ids.gallery_ids, request.gallery_ids))
        )
        notes = notes_of_vectors(queries, gallery, own, of_items)
    else:
        notes = [] if isinstance(queries, Codes) else notes_of_embeddings(queries, gallery)
        assert isinstance(request.excluded, Groups)
        notes += notes_of_exclusion(request.excluded, isinstance(ids.exclude, str))
    request.about["notes"] = notes
    return request


def request_of_scores(matrix: Any, ids: Ids) -> Request:
    """A request of a matrix of scores."""
    scores = Scores(matrix)
    request = _in_memory(scores, None, ids, (scores.n_queries, scores.n_gallery), {"relevance": ids.relevance})
    request.about["inputs"].update(scores=digest(scores.matrix))
    return request


def _in_memory(
    queries: Codes | Embeddings | Scores,
    gallery: Codes | None,
    ids: Ids,
    sizes: tuple[int, int],
    inputs: dict[str, Any],
    **facts: Any,
) -> Request:
    """A request with a gallery in memory: relevance is bound to it. sizes: how many queries and items there are."""
    n_queries, n_items = sizes
    if not n_queries:
        raise InputError("there are no queries")
    if not n_items:
        raise InputError("the gallery is empty")
    _check_relevance(ids.relevance)
    query_ids = np.asarray(_checked_ids(ids.query_ids, n_queries, "query_ids"))
    gallery_ids = _checked_ids(ids.gallery_ids, n_items, "gallery_ids")
    excluded = None
    if isinstance(ids.exclude, str):
        _check_self(ids, n_queries, n_items)
        excluded = Groups(query_ids, gallery_ids, "ids")
    elif ids.exclude is not None:
        excluded = _groups(ids.exclude, n_queries, n_items)
    relevance = _at_level(ids, gallery_ids, excluded).bound(query_ids, gallery_ids)
    if ids.gallery_ids is None:
        inputs["gallery_ids"] = "positions"
    if ids.level != "image":
        inputs["level"] = ids.level
    if excluded is not None:
        by_self = isinstance(ids.exclude, str)
        inputs["exclude"] = ids.exclude if by_self else digest(excluded.queries, excluded.gallery)
    about = {"inputs": inputs, "items": n_items, "relevance": ids.relevance.kind} | facts
    similarity = facts.get("similarity")
    return Request(queries, gallery, relevance, query_ids, gallery_ids, excluded, ids.level, similarity, about)


def _at_level(ids: Ids, gallery_ids: np.ndarray | range, excluded: Groups | None) -> Relevance:
    """The relevance of every item, where judgements are about the item or about all items of its group."""
    choice("level", ids.level, LEVELS)
    if ids.level == "image":
        return ids.relevance
    level = Option("level", ids.level)
    if excluded is None or isinstance(ids.exclude, str):
        raise InputError(level, " needs to know which items are of one product: exclude=(query_groups, gallery_groups)")
    if not isinstance(ids.relevance, Judged):
        raise InputError(level, " is for judged pairs: other relevance is given for every item")
    return ids.relevance.inherited(gallery_ids, excluded.gallery)


def _of_shards(queries: Any, shards: Shards, ids: Ids, similarity: str | None) -> Request:
    """A request with a gallery in shards, checked as far as that can be without reading them."""
    if isinstance(queries, Codes) != (shards.n_bits is not None):
        raise InputTypeError(BOTH_OR_NEITHER)
    if isinstance(queries, Codes):
        assert shards.n_bits is not None
        same_bits(queries.n_bits, shards.n_bits)
        same_hasher(queries.hasher, shards.hasher)
        _check_no_similarity(similarity)
    else:
        queries = as_floats(queries, "query embeddings")
        queries = queries.astype(np.result_type(queries, shards.dtype), copy=False)  # as they are compared in memory
        similarity = similarity or "cosine"
        Embeddings(queries, np.ones((1, shards.width), queries.dtype), similarity)  # raises where they cannot be scored
    if not len(queries):
        raise InputError("there are no queries")
    _check_relevance(ids.relevance)
    query_ids = np.asarray(_checked_ids(ids.query_ids, len(queries), "query_ids"))
    _check_fits_shards(ids, query_ids, len(shards))
    excluded = _excluded_of_shards(ids, query_ids, len(shards))
    inputs: dict[str, Any] = {"queries": queries if isinstance(queries, Codes) else digest(queries)}
    inputs |= {"gallery": shards, "relevance": ids.relevance}
    if ids.gallery_ids is None:
        inputs["gallery_ids"] = "positions"
    if excluded is not None:
        inputs["exclude"] = ids.exclude if isinstance(ids.exclude, str) else digest(excluded[0])
    about: dict[str, Any] = {"inputs": inputs, "items": len(shards), "relevance": ids.relevance.kind}
    if shards.n_bits is not None:
        about["bits"] = shards.n_bits
    else:
        about |= {"columns": shards.width, "similarity": similarity}
    return Request(
        queries, shards, ids.relevance, query_ids, ids.gallery_ids, excluded, similarity=similarity, about=about
    )


def _check_fits_shards(ids: Ids, query_ids: np.ndarray, n_items: int) -> None:
    """Raise where relevance or ids cannot be of a gallery in shards of this size."""
    relevance, n_queries = ids.relevance, len(query_ids)
    if ids.level != "image":
        raise InputError("judgements are inherited from item to item in memory: use relevance.inherited, then shards")
    if relevance.n_queries not in (-1, n_queries) or relevance.n_gallery not in (-1, n_items):
        raise InputError(
            f"relevance is for {relevance.n_queries} queries and {relevance.n_gallery} items, "
            f"but there are {n_queries} queries and {n_items} items"
        )
    if isinstance(relevance, Judged):
        relevance.check_queries(query_ids)
    if ids.gallery_ids is not None and not isinstance(ids.gallery_ids, Column):
        raise InputTypeError("ids of a gallery in shards are a column of it: gallery_ids=shards['ids']")


def _excluded_of_shards(ids: Ids, query_ids: np.ndarray, n_items: int) -> ShardGroups | None:
    exclude, n_queries = ids.exclude, len(query_ids)
    if exclude is None:
        return None
    if isinstance(exclude, str):
        _check_self(ids, n_queries, n_items)
        return query_ids, None
    if isinstance(exclude, tuple | list) and len(exclude) == 2 and isinstance(exclude[1], Column):
        groups = as_numpy(exclude[0])
        if len(groups) != n_queries:
            raise InputError(f"exclude has groups of {len(groups)} queries, but there are {n_queries}")
        return groups, exclude[1]
    both = _groups(exclude, n_queries, n_items)
    return both.queries, both.gallery


def _check_relevance(relevance: Any) -> None:
    if not isinstance(relevance, Relevance):
        raise InputTypeError(
            f"relevance must come from la.same_label, la.grades, la.judged, …, got {type(relevance).__name__}"
        )


def _check_no_similarity(similarity: str | None) -> None:
    if similarity is not None:
        raise InputError(
            "codes are compared by Hamming distance: ", Option("similarity", similarity), " is for embeddings"
        )


def _checked_ids(ids: Any, n: int, what: str) -> np.ndarray | range:
    """The ids, or positions if there are none; positions take no memory."""
    if ids is None:
        return range(n)
    ids = as_numpy(ids)
    if ids.shape != (n,):
        raise InputError(f"{what} must be {n} ids, one for each, got shape {ids.shape}")
    ids = id_array(ids, what)
    distinct(what, ids)
    return ids


def _check_self(ids: Ids, n_queries: int, n_items: int) -> None:
    """Raise where `exclude` is a text that is not "self", or no id says which item a query is."""
    if ids.exclude != "self":
        raise InputError(f"exclude must be (query_groups, gallery_groups) or 'self', got {ids.exclude!r}")
    if ids.by_position and n_queries != n_items:
        raise InputError(
            Option("exclude", "self"),
            f" needs query_ids and gallery_ids: {n_queries} queries are not the {n_items} items",
        )


def _groups(exclude: Any, n_queries: int, n_items: int) -> Groups:
    """The groups of queries and items, of which a query's own does not rank."""
    if not isinstance(exclude, tuple | list) or len(exclude) != 2:
        raise InputTypeError("exclude must be (query_groups, gallery_groups) or 'self'")
    groups = Groups(exclude[0], exclude[1], "groups to exclude")
    if (len(groups.queries), len(groups.gallery)) != (n_queries, n_items):
        raise InputError(
            f"exclude has groups of {len(groups.queries)} queries and {len(groups.gallery)} items, "
            f"but there are {n_queries} and {n_items}"
        )
    return groups
