"""Contest: several models and the judged pairs they are measured on, scored once and then evaluated in many ways."""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from lookalike.core.checks import choice, whole_number
from lookalike.core.errors import InputError, Option
from lookalike.core.files import digest
from lookalike.discovery.collection import Collection
from lookalike.discovery.judged_units import identity_keys, judged_units
from lookalike.discovery.judgements import Judgements
from lookalike.discovery.known_scores import KnownScores
from lookalike.discovery.places import PairsToPlace, WholeRanking, whole_ranking
from lookalike.discovery.pool import Pool
from lookalike.discovery.rankers import Dense, Model, ModelRanking, Ranked, RankingRequest, as_model
from lookalike.discovery.sampled_negatives import FirstLists, NegativeSample, sample_negatives
from lookalike.evaluation.evaluate import UNLISTED, MetricSet
from lookalike.evaluation.relevance import UNJUDGED, Unranked
from lookalike.evaluation.results import Evaluation, Score
from lookalike.evaluation.sources import GivenTally
from lookalike.evaluation.tally import Tally
from lookalike.metrics.metric import Metric, parse_all

OF_PAIRS = ("AUC", "PRAUC", "Bpref", "FNMR")  # metrics of judged pairs, wherever they rank
LEVELS = ("image", "product")

__all__ = ["LEVELS", "OF_PAIRS", "Contest", "tally_of"]


@dataclass(frozen=True, eq=False)
class Entry:
    """One model: what it ranks first, and how it scores the judged pairs and the sampled ones."""

    top: Ranked
    top_units: np.ndarray  # the judged unit of each row of `top`, -1 where there is none
    scores: np.ndarray  # (pairs, 2), of the judged pairs: in the ranking of a query, and as all queries' pairs compare
    sampled_scores: np.ndarray
    queries: tuple[np.ndarray, np.ndarray]  # of the judged pairs, and of the sampled ones

    @cached_property
    def judged_order(self) -> np.ndarray:
        """The judged pairs by query and falling score."""
        return np.lexsort((-self.scores[:, 0], self.queries[0]))

    @cached_property
    def order(self) -> np.ndarray:
        """The judged pairs, followed by the sampled ones, by query and falling score."""
        scores = np.concatenate([self.scores[:, 0], self.sampled_scores[:, 0]])
        return np.lexsort((-scores, np.concatenate(self.queries)))


class Contest:
    """Models on the same judged pairs.

    depth: how many ranks of each model are looked at. one_per_identity: rank metrics see only the best image of an
    identity. unlisted: for AUC and PRAUC, judged items that a run does not list tie "below" all that it lists, or are
    left "out". level: "image", a judgement is about one image; "product", about all images of its identity, and where
    these were judged differently the highest grade counts. negatives: how many unjudged items to sample for each query.
    pool: its pairs that were drawn by chance alone do not count, though they are judged; without a pool all pairs do.
    Metrics without a cutoff look at all ranks, whatever the depth: the judged pairs are counted out in the same ranking
    with all_ranks, or else when such a metric is first asked for.

    Every model ranks once. One model at a time is made ready for that, so that only what `models` itself holds takes
    memory for all of them.
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
        pool: Pool | None = None,
        unlisted: str = "below",
        all_ranks: bool = False,
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        if not models:
            raise InputError("there is no model to evaluate")
        choice("level", level, LEVELS)
        choice("unlisted", unlisted, UNLISTED)
        if level == "product" and not collection.has_identities:
            raise InputError(
                Option("level", "product"), " needs the identity of every item: say in the catalogue what each shows"
            )
        depth, negatives = whole_number("depth", depth), whole_number("negatives", negatives, 0)
        self.collection, self.level, self.one_per_identity = collection, level, one_per_identity
        self.unlisted = unlisted
        self.depth = min(depth, collection.n_items)
        self._given, self._ready = models, dict[str, Model]()
        self.random_counts, self._pool = pool is None, pool
        if pool is not None:
            self.check_pool(pool)
        self._judge(judgements)
        self._threads, self._whole = threads, dict[str, WholeRanking]()
        self._known_scores = {name: KnownScores(collection) for name in models}
        self._tops, self._only_lists = dict[str, Ranked](), set[str]()
        sample, firsts = NegativeSample(negatives, seed=seed), []
        for name in models:
            ranking = self._rank(name, sample.below if negatives else 0, all_ranks)
            self._tops[name] = ranking.top
            if ranking.deep is not None:
                firsts.append(FirstLists.of(ranking.deep, sample.below, collection.n_queries))
        self.sampled_queries, self.sampled_items = np.zeros(0, np.int64), np.zeros(0, np.int64)
        if negatives:
            self.sampled_queries, self.sampled_items = sample_negatives(firsts, collection, self._known, sample)
        self.entries = {name: self._entry(name) for name in models}

    def _rank(self, name: str, deep: int, all_ranks: bool) -> ModelRanking:
        """How a model ranks: its first items, `deep` of all, and with all_ranks the judged pairs among all others."""
        model = self._model(name)
        if model.n_gallery < 0:
            self._only_lists.add(name)
        pairs = self._pairs_to_place(name) if all_ranks else None
        request = RankingRequest(self.depth, self.one_per_identity, deep, pairs)
        ranking = model.rank(self.collection, request, threads=self._threads)
        if pairs is not None and ranking.places is not None:
            self._whole[name] = whole_ranking(pairs, ranking.places)
        return ranking

    def _model(self, name: str) -> Model:
        """A model, ready to rank and to score pairs."""
        if name not in self._ready:
            # A model with a score for every pair takes as much memory again to be ready: one at a time.
            self._ready = {other: model for other, model in self._ready.items() if not isinstance(model, Dense)}
            self._ready[name] = as_model(self._given[name], self.collection, name)
        return self._ready[name]

    def rejudged(self, judgements: Judgements) -> "Contest":
        """The same models, as they were ranked, on other judgements of the same pairs."""
        other = copy.copy(self)
        other._judge(judgements)
        keys = self.collection.keys(self.sampled_queries, self.sampled_items)
        stays = ~np.isin(keys, other._known)
        other.sampled_queries, other.sampled_items = self.sampled_queries[stays], self.sampled_items[stays]
        other._whole = {}
        other.entries = {name: other._entry(name) for name in self.entries}
        return other

    def _judge(self, judgements: Judgements) -> None:
        """Take judgements. Pairs drawn by chance alone do not count, but are known: they are no sampled negatives."""
        units = judged_units(judgements, self.collection, self.level)
        self._known, self._every = units.pair_keys, units.judged
        counts = np.ones(len(units.judged), bool)
        if self._pool is not None:
            pool = self.as_judged(self._pool)
            counts = ~np.isin(units.judged, self.collection.keys(pool.queries, pool.items)[pool.random_alone])
        self.random_left_out = int((~counts).sum())
        if not counts.any():
            raise InputError(
                f"all {len(counts):,} judged pairs were drawn by chance, which say how many positives there are and "
                "nothing of models: judge pairs that models proposed, or count these with ",
                Option("with_random", True),
            )
        self._units = units if counts.all() else judged_units(judgements.some(counts), self.collection, self.level)

    @property
    def judgements(self) -> Judgements:
        """The judged pairs that models are measured on."""
        return self._units.judgements

    @property
    def judged(self) -> np.ndarray:
        """A number for each judged pair, as `Collection.keys` gives it."""
        return self._units.judged

    def as_judged(self, pool: Pool) -> Pool:
        """The pool as it was judged: without models of a top-up that nobody judged yet.

        A model helped to build it if a pair is judged that it proposed, and no earlier model nor chance did. A model
        that brought no such pair helped if all that it proposed is judged.
        """
        judged = np.isin(self.collection.keys(pool.queries, pool.items), self._every)
        out = pool
        for column, model in enumerate(pool.models):
            proposed = pool.proposed[:, column]
            new = proposed & ~pool.proposed[:, :column].any(1) & ~pool.random
            if not (judged[new].any() if new.any() else judged[proposed].all()):
                out = out.without(model)
        return out

    def check_pool(self, pool: Pool) -> None:
        """Raise where a pool is not of these queries and items."""
        if pool.collection.digest != self.collection.digest:
            raise InputError("the pool is of another collection: its queries or items are not those of the models")

    @property
    def inputs(self) -> dict[str, Any]:
        """Fingerprints of what the numbers come from: of a model, what it ranks first and its scores of the pairs."""
        models = {name: digest(entry.top.items, entry.scores[:, 0].copy()) for name, entry in self.entries.items()}
        return {"judgements": self.judgements.digest, "collection": self.collection.digest, "models": models}

    def _entry(self, name: str) -> Entry:
        top, units = self._tops[name], self._units
        queries = np.concatenate([units.pair_queries, self.sampled_queries])
        items = np.concatenate([units.pair_items, self.sampled_items])
        scores = self._scores_of(name, queries, items)
        judged, sampled = np.split(scores, [len(units.pair_queries)])
        pair_queries = units.pair_queries, self.sampled_queries
        return Entry(top, units.units(top.queries, top.items), judged, sampled, pair_queries)

    def _scores_of(self, name: str, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Both scores of pairs by a model; those that were asked for before are not computed again."""
        return self._known_scores[name].of(queries, items, lambda: self._model(name))

    def evaluate(
        self, name: str, metrics: str | Iterable[str | Metric], *, kept: np.ndarray | None = None,
        unjudged: str = "irrelevant",
    ) -> Evaluation:  # fmt: skip
        """Metrics of one model on all judgements, or on those that are kept."""
        if name not in self.entries:
            raise InputError(f"there is no model {name!r} to evaluate, only {', '.join(self.entries)}")
        wanted = parse_all(metrics)
        scores: dict[Metric, Score] = {}
        for some, grades in self._graded(wanted, kept):
            scores |= self._scores(name, some, grades, unjudged)
        about = {"items": self.collection.n_items, "unjudged": unjudged, "level": self.level, "inputs": {}}
        return Evaluation({metric: scores[metric] for metric in wanted}, self.collection.query_ids, about)

    def _graded(self, metrics: list[Metric], kept: np.ndarray | None) -> list[tuple[list[Metric], np.ndarray]]:
        """Metrics with the grades of units that they count: where `rel` is above 1, most count 1 from there on."""
        grades, rel = self._units.grades(kept), self.judgements.rel
        if rel == 1:
            return [(metrics, grades)]
        by_rel = [metric for metric in metrics if "rel" in metric.options()]
        for metric in by_rel:
            if metric.options()["rel"] != 1:
                raise InputError(f"{metric} says itself what is positive: leave that to ", Option("rel"))
        positive = np.where(grades == UNJUDGED, UNJUDGED, grades >= rel)
        return [(by_rel, positive), ([metric for metric in metrics if metric not in by_rel], grades)]

    def _scores(self, name: str, wanted: list[Metric], grades: np.ndarray, unjudged: str) -> dict[Metric, Score]:
        """Metrics of one model by the grades of units."""
        entry = self.entries[name]
        scores: dict[Metric, Score] = {}
        of_ranks = [metric for metric in wanted if metric.name not in OF_PAIRS]
        for metric in of_ranks:
            self._check_cutoff(metric)
        if some := [metric for metric in of_ranks if metric.cutoff is not None]:
            scores |= _measured(self._rank_tally(entry, grades), some, unjudged=unjudged).scores
        if some := [metric for metric in of_ranks if metric.cutoff is None]:
            scores |= _measured(self._whole_tally(name, grades), some, unjudged=unjudged).scores
        of_pairs = [metric for metric in wanted if metric.name in OF_PAIRS]
        for kind in dict.fromkeys(map(_kind, of_pairs)):
            same_kind = {_plain(metric): metric for metric in of_pairs if _kind(metric) == kind}
            values = _measured(self._pair_tally(entry, grades, *kind), same_kind, unlisted=self.unlisted)
            scores |= {metric: replace(values[plain], metric=metric) for plain, metric in same_kind.items()}
        return scores

    def lists_some(self, name: str) -> bool:
        """Whether a model lists some items by name, as a run does, and does not rank all of them."""
        return name in self._only_lists

    def listed(self, name: str, cutoff: int) -> float:
        """How many of the first `cutoff` ranks a model fills, averaged over queries: a run may list fewer items."""
        counts = np.bincount(self.entries[name].top.queries, minlength=self.collection.n_queries)
        return float(np.minimum(counts, cutoff).mean())

    def _check_cutoff(self, metric: Metric) -> None:
        if metric.options().get("radius") is not None:
            raise InputError(
                f"{metric} on a leaderboard needs a cutoff, such as {metric.name}@{self.depth}, not a radius"
            )
        if metric.cutoff is not None and metric.cutoff > self.depth:
            raise InputError(f"{metric} looks below rank {self.depth}, which is as deep as the models were ranked")

    def _rank_tally(self, entry: Entry, unit_grades: np.ndarray) -> Tally:
        top = entry.top
        grades = np.where(entry.top_units >= 0, unit_grades[entry.top_units], UNJUDGED)
        unranked = self._unranked(top.queries, top.items, grades, unit_grades)
        return tally_of(self.collection, top.queries, top.scores, grades, self._units.max_grade, unranked)

    def _whole_tally(self, name: str, unit_grades: np.ndarray) -> Tally:
        """The tally of everything that a model ranks, from the places of the judged pairs alone."""
        if name not in self._whole:
            self._whole[name] = self._whole_ranking(name)
        whole, units = self._whole[name], self._units
        grades = unit_grades[units.units(whole.queries, whole.items)]
        counts = np.zeros((*whole.others.shape, units.max_grade + 2), np.int64)
        counts[:, :, -1] = whole.others
        np.add.at(counts, (whole.queries, whole.groups, grades), 1)  # grade -1, unjudged, is the last column
        return Tally(
            query_ids=self.collection.query_ids, counts=counts[:, :, :-1], unjudged=counts[:, :, -1], method="places",
            unranked=self._unranked(whole.queries, whole.items, grades, unit_grades), complete=False,
        )  # fmt: skip

    def _whole_ranking(self, name: str) -> WholeRanking:
        pairs = self._pairs_to_place(name)
        options: dict[str, Any] = {"one_per_identity": self.one_per_identity, "threads": self._threads}
        return whole_ranking(pairs, self._model(name).places(self.collection, pairs, **options))

    def _pairs_to_place(self, name: str) -> PairsToPlace:
        """The judged pairs in the order of their queries, with a model's scores of them."""
        units = self._units
        order = np.argsort(units.pair_queries, kind="stable")
        queries, items = units.pair_queries[order], units.pair_items[order]
        return PairsToPlace(queries, items, self._scores_of(name, queries, items)[:, 0].copy())

    def _unranked(
        self, queries: np.ndarray, items: np.ndarray, grades: np.ndarray, unit_grades: np.ndarray
    ) -> Unranked:
        """Judged items that are not among those ranked, which have these grades."""
        units = self._units
        pair_grades = unit_grades[units.pair_units]
        judged = (pair_grades >= 0) & ~np.isin(units.pair_keys, self.collection.keys(queries, items))
        missing_queries, missing = units.pair_queries[judged], pair_grades[judged]
        if self.one_per_identity:  # one rank for an identity, however many of its images were judged
            identities, hits = self.collection.identities, grades > 0
            shown = identity_keys(self.collection, queries[hits], identities[items[hits]])
            keys = identity_keys(self.collection, missing_queries, identities[units.pair_items[judged]])
            order = np.lexsort((-missing, keys))
            first = np.concatenate([[True], keys[order][1:] != keys[order][:-1]]) if len(order) else order.astype(bool)
            rows = order[first & ~np.isin(keys[order], shown)]
            missing_queries, missing = missing_queries[rows], missing[rows]
        return Unranked(missing_queries, np.arange(len(missing)).astype(str), missing)

    @property
    def lists_all(self) -> bool:
        """Whether every model ranks every judged pair, as all but runs do."""
        return not any(np.isneginf(entry.scores).any() for entry in self.entries.values())

    def _pair_tally(self, entry: Entry, unit_grades: np.ndarray, negatives: str, rel: int) -> Tally:
        units = self._units
        grades = unit_grades[units.pair_units]
        counts = grades >= (rel if negatives == "sampled" else 0)
        queries, both, order = units.pair_queries, entry.scores, entry.judged_order
        if negatives != "judged":
            sampled = self._sampled_rows(queries[grades >= 0], negatives)
            counts = np.concatenate([counts, sampled])
            grades = np.concatenate([grades, np.zeros(len(sampled), np.int64)])
            queries, both = np.concatenate(entry.queries), np.concatenate([both, entry.sampled_scores])
            order = entry.order
        scores, pooled = both.T
        gone = counts & np.isneginf(scores)
        unranked = Unranked(queries[gone], np.arange(gone.sum()).astype(str), grades[gone])
        order = order[(counts & ~gone)[order]]
        rows = queries[order], scores[order], grades[order]
        return tally_of(self.collection, *rows, units.max_grade, unranked, pooled[order])

    def _sampled_rows(self, judged_queries: np.ndarray, negatives: str) -> np.ndarray:
        """Which sampled negatives are of queries that have a judged pair."""
        if not len(self.sampled_queries):
            raise InputError(
                f"there are no sampled negatives for negatives={negatives!r}: ask for some with ",
                Option("negatives", 100),
                "; they are unjudged items that some model ranks 101 to 500 and none above: lists must be that long",
            )
        has_judged = np.zeros(self.collection.n_queries, bool)
        has_judged[judged_queries] = True
        return has_judged[self.sampled_queries]


def _measured(
    tally: Tally, metrics: Iterable[Metric], *, unjudged: str | None = None, unlisted: str = "below"
) -> Evaluation:
    """Metrics of a tally; what is odd about its relevance a leaderboard says once, in words of its own."""
    return MetricSet.of(metrics, None, unjudged, unlisted).evaluate(GivenTally(tally), log=False)


def tally_of(
    collection: Collection,
    queries: np.ndarray,
    scores: np.ndarray,
    grades: np.ndarray,
    max_grade: int,
    unranked: Unranked | None = None,
    pooled: np.ndarray | None = None,
) -> Tally:
    """The tally of rows sorted by query and falling score; grade -1 is unjudged.

    pooled: scores that rows of different queries are compared by; of a tie group the highest.
    """
    first = np.concatenate([[True], queries[1:] != queries[:-1]]) if len(queries) else np.zeros(0, bool)
    new = first | np.concatenate([[True], scores[1:] != scores[:-1]]) if len(queries) else first
    number = np.cumsum(new) - 1
    group = number - number[np.flatnonzero(first)][np.cumsum(first) - 1] if len(queries) else number
    shape = (collection.n_queries, int(group.max(initial=0)) + 1, max_grade + 2)
    column = np.where(grades < 0, max_grade + 1, grades)
    flat = (queries * shape[1] + group) * shape[2] + column
    counts = np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)
    of_group, starts = np.full(shape[:2], np.nan), np.flatnonzero(new)
    if len(starts):
        highest = np.fmax.reduceat(scores if pooled is None else pooled, starts)
        of_group[queries[starts], group[starts]] = highest
    return Tally(
        query_ids=collection.query_ids, counts=counts[:, :, :-1], unjudged=counts[:, :, -1], scores=of_group,
        method="pairs", unranked=unranked,
    )  # fmt: skip


def _kind(metric: Metric) -> tuple[str, int]:
    """The negatives that a metric uses, and the lowest grade that is positive."""
    options = metric.options()
    return str(options.get("negatives", "judged")), int(options["rel"])


def _plain(metric: Metric) -> Metric:
    """The same metric without its choice of negatives: they are chosen before it is computed."""
    return replace(metric, parameters=tuple(pair for pair in metric.parameters if pair[0] != "negatives"))
