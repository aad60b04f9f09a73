"""Questions that galleries in shards refuse, in words."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lookalike as la
from helpers.small_shards import LABELS, QUERIES, by_label, evaluated, random_codes, says, small, written
from lookalike.core.column import Column
from lookalike.shards.gallery import Shards

VECTORS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0], [7.0, 1.0]])


ASKED: dict[str, tuple[type[Exception], Callable[[Shards], Any], str]] = {
    "queries of other bits": (
        ValueError,
        lambda gallery: la.evaluate(random_codes(4, 13), gallery, by_label(gallery)),
        "gallery codes have 12 bits, queries have 13",
    ),
    "embeddings of codes": (
        TypeError,
        lambda gallery: la.evaluate(VECTORS, gallery, by_label(gallery)),
        "queries and gallery must both be Codes or both embeddings",
    ),
    "no queries": (
        ValueError,
        lambda gallery: la.evaluate(QUERIES[:0], gallery, la.same_label([], gallery["labels"])),
        "there are no queries",
    ),
    "labels of fewer queries": (
        ValueError,
        lambda gallery: la.evaluate(QUERIES, gallery, la.same_label([0, 1, 2], gallery["labels"])),
        "relevance is for 3 queries",
    ),
    "labels of fewer items": (
        ValueError,
        lambda gallery: la.evaluate(QUERIES, gallery, la.same_label(LABELS, np.arange(19))),
        "relevance is for 4 queries and 19 items, but there are 4 queries and 20 items",
    ),
    "labels of one shard": (
        ValueError,
        lambda gallery: la.evaluate(QUERIES, gallery, la.same_label(LABELS, np.arange(5))),
        "relevance is for 4 queries and 5 items, but there are 4 queries and 20 items",
    ),
    "grades of more items": (
        ValueError,
        lambda gallery: la.evaluate(QUERIES, gallery, la.grades(np.ones((4, 21), int))),
        "relevance is for 4 queries and 21 items, but there are 4 queries and 20 items",
    ),
    "no relevance": (
        TypeError,
        lambda gallery: la.evaluate(QUERIES, gallery, "labels"),  # type: ignore[arg-type]
        "relevance must come from la.same_label",
    ),
    "a column that is not there": (KeyError, lambda gallery: gallery["label"], "has no column 'label', only codes,"),
    "relevance of a column that is not there": (
        KeyError,
        lambda gallery: la.evaluate(QUERIES, gallery, la.same_label(LABELS, Column("label"))),
        "has no column 'label', only codes, labels, ids",
    ),
    "ids of a column that is not there": (
        KeyError,
        lambda gallery: la.evaluate(QUERIES, gallery, la.judged([(0, 1, 1)]), gallery_ids=Column("id")),
        "has no column 'id', only codes, labels, ids",
    ),
    "groups of a column that is not there": (
        KeyError,
        lambda gallery: evaluated(gallery, exclude=(LABELS, Column("group"))),
        "has no column 'group', only codes, labels, ids",
    ),
    "ids in an array": (
        TypeError,
        lambda gallery: evaluated(gallery, gallery_ids=np.arange(20)),
        "ids of a gallery in shards are a column of it: gallery_ids=shards['ids']",
    ),
    "too few ids of queries": (ValueError, lambda gallery: evaluated(gallery, query_ids=[1, 2]), "must be 4 ids"),
    "columns and values": (
        TypeError,
        lambda gallery: la.hierarchy((LABELS, LABELS), (gallery["labels"], np.arange(20))),
        "either all values of the gallery are columns of shards or none is",
    ),
    "groups of fewer queries": (
        ValueError,
        lambda gallery: evaluated(gallery, exclude=([0, 1], gallery["ids"])),
        "exclude has groups of 2 queries, but there are 4",
    ),
    "groups of fewer items": (
        ValueError,
        lambda gallery: evaluated(gallery, exclude=(LABELS, np.arange(19))),
        "exclude has groups of 4 queries and 19 items, but there are 4 and 20",
    ),
    "itself by position": (ValueError, lambda gallery: evaluated(gallery, exclude="self"), "4 queries are not the 20"),
    "another word": (ValueError, lambda gallery: evaluated(gallery, exclude="me"), "or 'self', got 'me'"),
    "three groups": (TypeError, lambda gallery: evaluated(gallery, exclude=(1, 2, 3)), "or 'self'"),
    "products": (ValueError, lambda gallery: evaluated(gallery, level="product"), "use relevance.inherited"),
    "a similarity of codes": (ValueError, lambda gallery: evaluated(gallery, similarity="dot"), "Hamming distance"),
    "no threads": (ValueError, lambda gallery: evaluated(gallery, threads=0), "threads must be a whole number from 1"),
    "a method": (
        ValueError,
        lambda gallery: la.count(QUERIES, gallery, by_label(gallery), method="scan"),
        "how shards are counted is chosen by itself, got method='scan'",
    ),
    "negatives of labels": (
        ValueError,
        lambda gallery: la.evaluate(QUERIES, gallery, by_label(gallery), ["AUC(negatives='sampled')"]),
        "negatives='sampled' is for judged pairs",
    ),
    "judgements of others": (
        ValueError,
        lambda gallery: la.evaluate(QUERIES, gallery, la.judged([("x", 1, 1)])),
        "no judgement is about any of the queries",
    ),
    # columns where no shards are
    "labels of shards in memory": (
        TypeError,
        lambda gallery: la.evaluate(QUERIES, random_codes(20), by_label(gallery)),
        "this relevance is of a gallery in shards: pass the la.Shards that its columns are of",
    ),
    "labels of shards with embeddings": (
        TypeError,
        lambda gallery: la.evaluate(VECTORS, VECTORS, by_label(gallery)),
        "this relevance is of a gallery in shards",
    ),
    "labels of shards with scores": (
        TypeError,
        lambda gallery: la.evaluate_scores(VECTORS, by_label(gallery)),
        "this relevance is of a gallery in shards",
    ),
    "ids of shards in memory": (
        ValueError,
        lambda gallery: la.evaluate(
            QUERIES, random_codes(20), la.same_label(LABELS, np.arange(20)), gallery_ids=gallery["ids"]
        ),
        "gallery_ids must be 20 ids",
    ),
    "groups of shards in memory": (
        ValueError,
        lambda gallery: la.evaluate(
            QUERIES, random_codes(20), la.same_label(LABELS, np.arange(20)), exclude=(LABELS, gallery["ids"])
        ),
        "groups to exclude must be one for each item",
    ),
    "partials in memory": (
        ValueError,
        lambda _: la.evaluate(QUERIES, QUERIES, la.same_label(LABELS, LABELS), partials="a folder"),
        "client and partials are for a gallery in shards",
    ),
    "a client in memory": (
        ValueError,
        lambda _: la.evaluate(QUERIES, QUERIES, la.same_label(LABELS, LABELS), client=object()),
        "client and partials are for a gallery in shards",
    ),
    "partials of a count in memory": (
        ValueError,
        lambda _: la.count(QUERIES, QUERIES, la.same_label(LABELS, LABELS), partials="a folder"),
        "client and partials are for a gallery in shards",
    ),
}


@pytest.mark.parametrize("case", ASKED)
def test_what_cannot_be_asked(tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is said before a shard is read, where it can be known."""
    error, ask, words = ASKED[case]
    gallery = small(tmp_path)
    read: list[int] = []
    real = Shards.read
    monkeypatch.setattr(Shards, "read", lambda self, number, *more: [read.append(number), real(self, number, *more)][1])
    with pytest.raises(error, match=re.escape(words)) as caught:
        ask(gallery)
    assert "\n" not in str(caught.value)
    assert read == [] or case == "judgements of others"


OF_EMBEDDINGS: dict[str, tuple[type[Exception], Callable[[Shards], Any], str]] = {
    "other columns": (
        ValueError,
        lambda gallery: la.evaluate(np.ones((4, 3)), gallery, by_label(gallery)),
        "gallery embeddings have 2 columns, queries have 3",
    ),
    "codes of embeddings": (
        TypeError,
        lambda gallery: la.evaluate(QUERIES, gallery, by_label(gallery)),
        "queries and gallery must both be Codes or both embeddings",
    ),
    "a similarity that is none": (
        ValueError,
        lambda gallery: la.evaluate(VECTORS, gallery, by_label(gallery), similarity="hamming"),
        "similarity must be one of 'cosine', 'dot', 'euclidean'",
    ),
    "nan in queries": (
        ValueError,
        lambda gallery: la.evaluate(VECTORS * np.nan, gallery, by_label(gallery)),
        "query embeddings hold nan, first in row 0, column 0",
    ),
    "a metric of codes": (
        ValueError,
        lambda gallery: la.evaluate(VECTORS, gallery, by_label(gallery), ["LGAP@1"]),
        "LGAP is a metric of codes",
    ),
    "a radius of cosines": (
        ValueError,
        lambda gallery: la.evaluate(VECTORS, gallery, by_label(gallery), ["P(radius=1)"]),
        "a radius needs a distance",
    ),
    "all pairs of all queries": (
        ValueError,
        lambda gallery: la.evaluate(VECTORS, gallery, by_label(gallery), ["AUC(average='micro')"]),
        "of embeddings in shards it is for judged pairs alone",
    ),
    "all pairs of all queries, judged or not": (
        ValueError,
        lambda gallery: la.evaluate(
            VECTORS, gallery, la.judged([(0, 1, 1)]), ["AUC(average='micro')"], unjudged="irrelevant"
        ),
        "of embeddings in shards it is for judged pairs alone",
    ),
    "a count with scores": (
        ValueError,
        lambda gallery: la.count(VECTORS, gallery, by_label(gallery)),
        "counted without the score of every item: pass scores=False",
    ),
    "a count with a radius": (
        ValueError,
        lambda gallery: la.count(VECTORS, gallery, by_label(gallery), scores=False, radius=1),
        "counted without the score of every item",
    ),
}


@pytest.mark.parametrize("case", OF_EMBEDDINGS)
def test_what_cannot_be_asked_of_embeddings(tmp_path: Path, case: str) -> None:
    error, ask, words = OF_EMBEDDINGS[case]
    gallery = written(tmp_path, {"embeddings": VECTORS, "labels": np.arange(4)}, rows=3)
    with pytest.raises(error, match=re.escape(words)) as caught:
        ask(gallery)
    assert "\n" not in str(caught.value)


def test_an_item_that_was_judged_is_in_one_shard(tmp_path: Path) -> None:
    ids = np.arange(20)
    ids[17] = 3
    gallery = small(tmp_path, ids=ids)
    relevance = la.judged([(1, 3, 1), (1, 4, 0)])
    with pytest.raises(ValueError, match="an item that was judged is in several shards: ids of a gallery must differ"):
        la.evaluate(QUERIES, gallery, relevance, ["AP"], gallery_ids=gallery["ids"], unjudged="irrelevant")
    unjudged = la.judged([(1, 4, 0)])
    la.evaluate(QUERIES, gallery, unjudged, ["AP"], gallery_ids=gallery["ids"], unjudged="irrelevant")


@pytest.mark.parametrize("case", ["in one shard", "where items are left out", "itself"])
def test_an_id_that_two_items_have(tmp_path: Path, case: str) -> None:
    """In memory it is refused; in shards one item counts as judged and the other does not."""
    ids = np.arange(20)
    ids[1 if case == "in one shard" else 17] = 3
    gallery = small(tmp_path, ids=ids)
    relevance = la.judged([(1, 3, 1), (1, 4, 0)])
    exclude = {"where items are left out": (LABELS, gallery["labels"]), "itself": "self"}.get(case)
    with pytest.raises(ValueError, match="must differ"):
        la.evaluate(
            QUERIES, gallery, relevance, ["AP"], gallery_ids=gallery["ids"], exclude=exclude, unjudged="irrelevant"
        )


def test_partials_where_no_folder_can_be(tmp_path: Path) -> None:
    gallery = small(tmp_path / "gallery")
    (tmp_path / "a file").write_text("text")
    with says(ValueError, tmp_path / "a file"):
        evaluated(gallery, partials=tmp_path / "a file")
