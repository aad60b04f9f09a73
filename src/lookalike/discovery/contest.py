"""Contest: several models and the judged pairs they are measured on, scored once and then evaluated in many ways."""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lookalike.core.files import digest
from lookalike.discovery.collection import Collection
from lookalike.discovery.judgements import Judgements
from lookalike.discovery.pool import Pool
from lookalike.discovery.rankers import Model, Ranked, as_model
from lookalike.evaluation.evaluate import evaluate_tally
from lookalike.evaluation.relevance import UNJUDGED, Unranked
from lookalike.evaluation.results import Evaluation, Score
from lookalike.evaluation.tally import Tally
from lookalike.metrics.metric import Metric, parse_all

OF_PAIRS = ("AUC", "PRAUC", "Bpref")  # metrics of judged pairs, wherever they rank
LEVELS = ("image", "product")

__all__ = ["LEVELS", "OF_PAIRS", "Contest", "draw_negatives", "tally_of"]


@dataclass(frozen=True, eq=False)
class Entry:
    """One model: what it ranks first, and how it scores the judged pairs and the sampled ones."""

    top: Ranked
    top_units: np.ndarray  # the judged unit of each row of `top`, -1 where there is none
    scores: np.ndarray
    sampled_scores: np.ndarray


class Contest:
    """Models on the same judged pairs.

    depth: how many ranks of each model are looked at. one_per_identity: rank metrics see only the best image of an
    identity. level: "image", a judgement is about one image; "product", about all images of its identity, and where
    these were judged differently the highest grade counts. negatives: how many unjudged items to sample for each query.
    """

    def __init__(
        self,
        models: Mapping[str, Any],
        collection: Collection,
        judgements: Judgements,
        *,
        depth: int,
        one_per_identity: bool = False,
        level: str = "image",
        negatives: int = 0,
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        if not models:
            raise ValueError("there is no model to evaluate")
        if level not in LEVELS:
            raise ValueError(f"level must be one of {', '.join(map(repr, LEVELS))}, got {level!r}")
        if level == "product" and not collection.has_identities:
            raise ValueError("level='product' needs the identity of every item: say in the catalogue what each shows")
        self.collection, self.level, self.one_per_identity = collection, level, one_per_identity
        for name, value, least in (("depth", depth, 1), ("negatives", negatives, 0)):
            if value < least:
                raise ValueError(f"{name} must be a whole number from {least}, got {value}")
        self.depth = min(depth, collection.n_items)
        self._models = {name: as_model(given, collection, name) for name, given in models.items()}
        self._judge(judgements)
        self.sampled_queries, self.sampled_items = np.zeros(0, np.int64), np.zeros(0, np.int64)
        if negatives:
            judged = collection.keys(self._pair_queries, self._pair_items)
            self.sampled_queries, self.sampled_items = draw_negatives(
                self._models, collection, judged, negatives, seed=seed, threads=threads
            )
        self._tops = {
            name: model.top(collection, self.depth, one_per_identity=one_per_identity, threads=threads)
            for name, model in self._models.items()
        }
        self.entries = {name: self._entry(name) for name in self._models}

    def rejudged(self, judgements: Judgements) -> "Contest":
        """The same models, as they were ranked, on other judgements of the same pairs."""
        other = copy.copy(self)
        other._judge(judgements)
        keys = self.collection.keys(self.sampled_queries, self.sampled_items)
        stays = ~np.isin(keys, self.collection.keys(other._pair_queries, other._pair_items))
        other.sampled_queries, other.sampled_items = self.sampled_queries[stays], self.sampled_items[stays]
        other.entries = {name: other._entry(name) for name in self._models}
        return other

    def check_pool(self, pool: Pool) -> None:
        """Raise where a pool is not of these queries and items."""
        if pool.collection.digest != self.collection.digest:
            raise ValueError("the pool is of another collection: its queries or items are not those of the models")

    def _judge(self, judgements: Judgements) -> None:
        """Number what was judged: pairs, or a query and an identity."""
        if not isinstance(judgements, Judgements):
            raise TypeError(f"judgements are needed, got {type(judgements).__name__}: Judgements.of makes them of rows")
        self.judgements, collection = judgements, self.collection
        if not len(judgements):
            raise ValueError("no pair is judged: a leaderboard needs judgements")
        pairs = zip(judgements.queries.tolist(), judgements.items.tolist(), strict=True)
        queries, items = collection.positions(pairs, "judged pair")
        self.judged = collection.keys(queries, items)
        self.own = collection.is_own(queries, items)  # judged, but a query never ranks its own
        if self.own.all():
            raise ValueError("all judged pairs are of a query with itself or its own identity, which never rank")
        self.max_grade = max(1, int(judgements.grades.max(initial=0)))
        self._unit_keys, first, unit = np.unique(self._unit_key(queries, items), return_index=True, return_inverse=True)
        self._unit_of_judgement = unit.reshape(-1)
        self._unit_queries = queries[first]
        self._unit_identities = collection.identities[items[first]]
        self._pair_queries, self._pair_items, self._pair_units = self._judged_pairs(queries, items)

    @property
    def inputs(self) -> dict[str, Any]:
        """Fingerprints of what the numbers come from: of a model, what it ranks first and its scores of the pairs."""
        models = {name: digest(entry.top.items, entry.scores) for name, entry in self.entries.items()}
        return {"judgements": self.judgements.digest, "collection": self.collection.digest, "models": models}

    def _unit_key(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """What a judgement is about: the pair, or the query and the item's identity."""
        if self.level == "image":
            return self.collection.keys(queries, items)
        return self._identity_keys(queries, self.collection.identities[items])

    def _judged_pairs(self, queries: np.ndarray, items: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Query, item and unit of every pair that has a judgement, inherited ones included, but for a query's own."""
        if self.level == "image":
            rows = np.flatnonzero(~self.own)
            return queries[rows], items[rows], self._unit_of_judgement[rows]
        order, starts = self.collection.members
        ends = np.append(starts[1:], len(order))
        place = np.searchsorted(self.collection.identities[order[starts]], self._unit_identities)
        sizes = ends[place] - starts[place]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        units = np.repeat(np.arange(len(self._unit_keys)), sizes)
        of_units, views = self._unit_queries[units], order[np.repeat(starts[place], sizes) + within]
        kept = ~self.collection.is_own(of_units, views)
        return of_units[kept], views[kept], units[kept]

    def _entry(self, name: str) -> Entry:
        top = self._tops[name]
        keys = self._unit_key(top.queries, top.items)
        places = np.minimum(np.searchsorted(self._unit_keys, keys), len(self._unit_keys) - 1)
        units = np.where(self._unit_keys[places] == keys, places, -1)
        both = [
            np.concatenate(part)
            for part in ((self._pair_queries, self.sampled_queries), (self._pair_items, self.sampled_items))
        ]
        scores = self._models[name].scores(*both)
        return Entry(top, units, *np.split(scores, [len(self._pair_queries)]))

    def unit_grades(self, kept: np.ndarray | None = None, grades: np.ndarray | None = None) -> np.ndarray:
        """The grade of every unit from the judgements that are kept, the highest of them; -1 where there is none."""
        grades = self.judgements.grades if grades is None else grades
        out = np.full(len(self._unit_keys), UNJUDGED, np.int64)
        rows = slice(None) if kept is None else kept
        np.maximum.at(out, self._unit_of_judgement[rows], grades[rows])
        return out

    def evaluate(
        self, name: str, metrics: str | Iterable[str | Metric], *, kept: np.ndarray | None = None,
        unjudged: str = "irrelevant",
    ) -> Evaluation:  # fmt: skip
        """Metrics of one model on all judgements, or on those that are kept."""
        if name not in self.entries:
            raise ValueError(f"there is no model {name!r} to evaluate, only {', '.join(self.entries)}")
        wanted = parse_all(metrics)
        grades, entry = self.unit_grades(kept), self.entries[name]
        scores: dict[Metric, Score] = {}
        of_ranks = [metric for metric in wanted if metric.name not in OF_PAIRS]
        for metric in of_ranks:
            if metric.cutoff is None:
                raise ValueError(f"{metric} on a leaderboard needs a cutoff, such as {metric}@{self.depth}")
            if metric.cutoff is not None and metric.cutoff > self.depth:
                raise ValueError(f"{metric} looks below rank {self.depth}, which is as deep as the models were ranked")
        if of_ranks:
            scores |= evaluate_tally(self._rank_tally(entry, grades), of_ranks, unjudged=unjudged).scores
        of_pairs = [metric for metric in wanted if metric.name in OF_PAIRS]
        for kind in dict.fromkeys(map(_kind, of_pairs)):
            mine = {_plain(metric): metric for metric in of_pairs if _kind(metric) == kind}
            for listed_only in (False, True):  # Bpref gives nothing for what a run does not list; areas place it last
                some = [plain for plain in mine if (plain.name == "Bpref") == listed_only]
                if some:
                    found = evaluate_tally(self._pair_tally(entry, grades, *kind, listed_only=listed_only), some)
                    scores |= {mine[plain]: replace(found[plain], metric=mine[plain]) for plain in some}
        about = {"items": self.collection.n_items, "unjudged": unjudged, "level": self.level, "inputs": {}}
        return Evaluation({metric: scores[metric] for metric in wanted}, self.collection.query_ids, about)

    def _rank_tally(self, entry: Entry, unit_grades: np.ndarray) -> Tally:
        top = entry.top
        grades = np.where(entry.top_units >= 0, unit_grades[entry.top_units], UNJUDGED)
        pair_grades = unit_grades[self._pair_units]
        listed = self.collection.keys(top.queries, top.items)
        judged = (pair_grades >= 0) & ~np.isin(self.collection.keys(self._pair_queries, self._pair_items), listed)
        queries, missing = self._pair_queries[judged], pair_grades[judged]
        if self.one_per_identity:  # one place for an identity, however many of its images were judged
            hits = grades > 0
            shown = self._identity_keys(top.queries[hits], self.collection.identities[top.items[hits]])
            keys = self._identity_keys(queries, self.collection.identities[self._pair_items[judged]])
            order = np.lexsort((-missing, keys))
            first = np.concatenate([[True], keys[order][1:] != keys[order][:-1]]) if len(order) else order.astype(bool)
            rows = order[first & ~np.isin(keys[order], shown)]
            queries, missing = queries[rows], missing[rows]
        unranked = Unranked(queries, np.arange(len(queries)).astype(str), missing)
        return tally_of(self.collection, top.queries, top.scores, grades, self.max_grade, unranked)

    def _identity_keys(self, queries: np.ndarray, identities: np.ndarray) -> np.ndarray:
        return np.asarray(queries * (int(self.collection.identities.max()) + 1) + identities)

    def _pair_tally(
        self, entry: Entry, unit_grades: np.ndarray, negatives: str, rel: int, *, listed_only: bool
    ) -> Tally:
        grades = unit_grades[self._pair_units]
        kept = grades >= (rel if negatives == "sampled" else 0)
        parts = [(self._pair_queries[kept], entry.scores[kept], grades[kept])]
        if negatives != "judged":
            if not len(self.sampled_queries):
                raise ValueError(
                    f"there are no sampled negatives for negatives={negatives!r}: ask for some with negatives=100; "
                    "they are unjudged items that some model ranks 101 to 500 and none above: lists must be that long"
                )
            has_judged = np.zeros(self.collection.n_queries, bool)
            has_judged[self._pair_queries[grades >= 0]] = True
            used = has_judged[self.sampled_queries]
            zeros = np.zeros(int(used.sum()), np.int64)
            parts.append((self.sampled_queries[used], entry.sampled_scores[used], zeros))
        queries, scores, all_grades = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((-scores, queries))
        unranked = None
        if listed_only:
            gone = np.isneginf(scores)
            unranked = Unranked(queries[gone], np.arange(gone.sum()).astype(str), all_grades[gone])
            order = order[~gone[order]]
        return tally_of(self.collection, queries[order], scores[order], all_grades[order], self.max_grade, unranked)


def tally_of(
    collection: Collection,
    queries: np.ndarray,
    scores: np.ndarray,
    grades: np.ndarray,
    max_grade: int,
    unranked: Unranked | None = None,
) -> Tally:
    """The tally of rows sorted by query and falling score; grade -1 is unjudged."""
    first = np.concatenate([[True], queries[1:] != queries[:-1]]) if len(queries) else np.zeros(0, bool)
    new = first | np.concatenate([[True], scores[1:] != scores[:-1]]) if len(queries) else first
    number = np.cumsum(new) - 1
    group = number - number[np.flatnonzero(first)][np.cumsum(first) - 1] if len(queries) else number
    shape = (collection.n_queries, int(group.max(initial=0)) + 1, max_grade + 2)
    column = np.where(grades < 0, max_grade + 1, grades)
    flat = (queries * shape[1] + group) * shape[2] + column
    counts = np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)
    of_group = np.full(shape[:2], np.nan)
    of_group[queries, group] = scores
    return Tally(
        query_ids=collection.query_ids, counts=counts[:, :, :-1], unjudged=counts[:, :, -1], scores=of_group,
        method="pairs", unranked=unranked,
    )  # fmt: skip


def draw_negatives(
    models: Mapping[str, Model],
    collection: Collection,
    judged: np.ndarray,
    n: int,
    *,
    above: int = 100,
    below: int = 500,
    seed: int = 0,
    threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """For each query n unjudged items that some model ranks below `above` down to `below`, and none above that.

    One sample for all models, as Barkan et al. 2023 assume such items to be negative. judged: keys of the judged pairs.
    A query with fewer such items gets them all.
    """
    far, near = [], []
    for model in models.values():
        top = model.top(collection, below, threads=threads)
        rows, ranks = top.first(below)
        keys = collection.keys(top.queries[rows], top.items[rows])
        near.append(keys[ranks <= above])
        far.append(keys[ranks > above])
    candidates = np.setdiff1d(np.concatenate(far), np.concatenate([*near, judged]))
    queries = candidates // collection.n_items
    order = np.lexsort((np.random.default_rng([seed, 2]).random(len(candidates)), queries))
    within = np.arange(len(order)) - np.searchsorted(queries, queries)
    chosen = np.sort(candidates[order[within < n]])
    return chosen // collection.n_items, chosen % collection.n_items


def _kind(metric: Metric) -> tuple[str, int]:
    """Which negatives it is of, and the lowest grade that is positive."""
    options = metric.options()
    return str(options.get("negatives", "judged")), int(options["rel"])


def _plain(metric: Metric) -> Metric:
    """The same metric of the pairs that it is given."""
    return replace(metric, parameters=tuple(pair for pair in metric.parameters if pair[0] != "negatives"))
