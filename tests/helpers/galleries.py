"""Galleries in memory and the same galleries in shards, relevance for both, and whether evaluations differ."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import lookalike as la
from lookalike.shards.gallery import Shards
from lookalike.shards.writer import ShardWriter

Asked = dict[str, Any]
Of = Mapping[str, Any]  # values by name: of a gallery in memory the values, of one in shards its columns


@dataclass(frozen=True)
class Collection:
    """Queries and a gallery, vectors and what is known of each, in memory."""

    queries: Any  # Codes or embeddings
    gallery: Any
    of_queries: Mapping[str, np.ndarray]
    of_items: Mapping[str, np.ndarray]

    def write(self, where: str | Path, rows: int) -> Shards:
        """The gallery in shards of so many rows."""
        codes = isinstance(self.gallery, la.Codes)
        vectors = {"codes": self.gallery.to_bytes()} if codes else {"embeddings": self.gallery}
        with ShardWriter(where, n_bits=self.gallery.n_bits if codes else None, rows=rows) as writer:
            writer.add({**vectors, **self.of_items})
        return Shards.open(where)


@functools.cache
def collection(kind: str, n_queries: int = 24, n_items: int = 230, seed: int = 0) -> Collection:
    """A collection of codes ("64 bits") or embeddings ("float32"), some of whose queries are items."""
    rng = np.random.default_rng(seed)
    n, (width, unit) = n_queries + n_items, (kind.split() if " " in kind else ("12", kind))
    labels = rng.integers(0, 5, n)
    centres = rng.normal(size=(5, int(width)))
    vectors = centres[labels] + 1.5 * rng.normal(size=(n, int(width)))
    vectors[n_queries : n_queries + n_queries // 2] = vectors[: n_queries // 2]
    columns = {
        "ids": np.array([f"i{number:04}" for number in rng.permutation(n)]),
        "labels": labels,
        "groups": rng.integers(0, n // 4, n),
        "tags": (rng.random((n, 6)) < 0.3).astype(np.int64),
        "fine": labels * 3 + rng.integers(0, 3, n),
    }
    columns["ids"][:n_queries] = columns["ids"][n_queries : 2 * n_queries]  # for exclude="self"
    queries, items = slice(0, n_queries), slice(n_queries, n)
    sides: tuple[Any, Any]
    if unit == "bits":
        sides = la.Codes.pack(vectors[queries] > 0), la.Codes.pack(vectors[items] > 0)
    else:
        rounded = np.round(vectors, 1 if unit == "float64" else 8).astype(unit)
        sides = rounded[queries], rounded[items]
    cut = [{name: values[part] for name, values in columns.items()} for part in (queries, items)]
    return Collection(*sides, *cut)


def by_label(queries: Of, items: Of, _: int) -> Asked:
    return {"relevance": la.same_label(queries["labels"], items["labels"])}


def by_tags(queries: Of, items: Of, _: int) -> Asked:
    return {"relevance": la.shared_tags(queries["tags"], items["tags"])}


def by_levels(queries: Of, items: Of, _: int) -> Asked:
    names = ("fine", "labels")
    both = (tuple(side[name] for name in names) for side in (queries, items))
    return {"relevance": la.hierarchy(*both)}


def by_grades(queries: Of, items: Of, n_items: int) -> Asked:
    matrix = np.random.default_rng(3).integers(0, 4, (len(queries["labels"]), n_items))
    return {"relevance": la.grades(matrix)}


def by_judgements(queries: Of, items: Of, n_items: int) -> Asked:
    rng = np.random.default_rng(4)
    n = len(queries["ids"])
    everything = sorted(f"i{number:04}" for number in range(n + n_items))  # and some that are in no gallery
    rows = {
        (str(query), str(item)): (str(query), str(item), int(rng.integers(0, 3)))
        for query in queries["ids"]
        for item in rng.choice(everything, 20)
    }
    return {"relevance": la.judged(list(rows.values())), "query_ids": queries["ids"], "gallery_ids": items["ids"]}


def without_groups(queries: Of, items: Of, n_items: int) -> Asked:
    return by_label(queries, items, n_items) | {"exclude": (queries["groups"], items["groups"])}


def without_self(queries: Of, items: Of, n_items: int) -> Asked:
    more = {"exclude": "self", "query_ids": queries["ids"], "gallery_ids": items["ids"]}
    return by_label(queries, items, n_items) | more


def evaluated(case: Collection, ask: Callable[[Of, Of, int], Asked], metrics: list[str], **how: Any) -> la.Evaluation:
    """The evaluation in memory."""
    asked = ask(case.of_queries, case.of_items, len(case.gallery))
    return la.evaluate(case.queries, case.gallery, asked.pop("relevance"), metrics, **asked, **how)


def evaluated_in_shards(
    case: Collection, shards: Shards, ask: Callable[[Of, Of, int], Asked], metrics: list[str], **how: Any
) -> la.Evaluation:
    """The evaluation of the same gallery in shards."""
    asked = ask(case.of_queries, shards, len(case.gallery))  # type: ignore[arg-type]  # it gives columns by name
    return la.evaluate(case.queries, shards, asked.pop("relevance"), metrics, **asked, **how)


def differences(one: la.Evaluation, other: la.Evaluation) -> list[str]:
    """Where two evaluations are not the same, bit for bit."""
    different = [] if np.array_equal(one.query_ids, other.query_ids) else ["query ids"]
    different += [] if list(map(str, one)) == list(map(str, other)) else ["metrics"]
    for metric in one:
        for kind in ("expected", "best", "worst"):
            values = [np.asarray(getattr(side[metric].values, kind)) for side in (one, other)]
            if values[0].dtype != values[1].dtype or not np.array_equal(*values, equal_nan=True):
                different.append(f"{kind} {metric}: {values[0][:3]} is not {values[1][:3]}")
    return different
