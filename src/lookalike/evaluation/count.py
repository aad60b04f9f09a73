"""Counting the tally of a search: of codes, embeddings or scores."""

from dataclasses import replace
from typing import Any

from lookalike.core.checks import whole_number
from lookalike.core.errors import InputError, Option
from lookalike.evaluation.inputs import Ids, request_of_scores, request_of_vectors
from lookalike.evaluation.needs import Needs
from lookalike.evaluation.relevance import Relevance
from lookalike.evaluation.sources import TallySource, source_of
from lookalike.evaluation.tally import Tally, concatenate
from lookalike.shards.gallery import Shards

__all__ = ["count", "count_scores", "whole_tally"]


def count(
    queries: Any,
    gallery: Any,
    relevance: Relevance,
    *,
    similarity: str | None = None,
    query_ids: Any = None,
    gallery_ids: Any = None,
    exclude: Any = None,
    level: str = "image",
    threads: int | None = None,
    radius: int | None = None,
    scores: bool = True,
    method: str = "auto",
    client: Any = None,
    partials: Any = None,
) -> Tally:
    """Count the tally of every query; tallies of the same queries with parts of a gallery add up.

    radius: for codes, keep what LGAP up to this radius needs. scores: for embeddings, keep every item's group and
    score, which sums and radii need; without them a tally is much smaller. method: how to count, "auto" by default;
    for codes "table", "scan" or "plain", for embeddings "around" or "plain". client, partials: for a gallery of
    `la.Shards`, as `evaluate` has them; embeddings in shards are counted without scores, and all methods are "auto".
    """
    if radius is not None:
        radius = whole_number("radius", radius, least=0)
    ids = Ids(relevance, query_ids, gallery_ids, exclude, level)
    request = request_of_vectors(queries, gallery, ids, similarity)
    if isinstance(gallery, Shards) and gallery.n_bits is None and (scores or radius is not None):
        raise InputError(
            "embeddings in shards are counted without the score of every item: pass ", Option("scores", False)
        )
    source = source_of(request, threads=threads, client=client, partials=partials, method=method)
    return whole_tally(source, Needs(radius=radius, ball=radius is not None, scores=scores))


def count_scores(
    matrix: Any,
    relevance: Relevance,
    *,
    query_ids: Any = None,
    gallery_ids: Any = None,
    exclude: Any = None,
    level: str = "image",
    threads: int | None = None,
    scores: bool = True,
    method: str = "auto",
) -> Tally:
    """Count the tally of a matrix of scores (n_queries, n_gallery), as `count` does."""
    request = request_of_scores(matrix, Ids(relevance, query_ids, gallery_ids, exclude, level))
    return whole_tally(source_of(request, threads=threads, method=method), Needs(scores=scores))


def whole_tally(source: TallySource, needs: Needs) -> Tally:
    """The tally of all queries, and where it comes from."""
    tally = concatenate(list(source.each(needs, _itself)))
    return replace(tally, inputs=dict(source.about["inputs"]))


def _itself(tally: Tally) -> Tally:
    return tally
