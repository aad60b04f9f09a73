"""Evaluating: from codes, embeddings, scores, runs or tallies to metrics."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from lookalike.core.codes import Codes, as_numpy
from lookalike.core.column import Column
from lookalike.core.embeddings import Embeddings, Scores, as_floats
from lookalike.core.files import digest
from lookalike.core.ids import id_array
from lookalike.core.progress import track
from lookalike.core.threads import n_threads
from lookalike.evaluation import count_codes as counting
from lookalike.evaluation import count_scores as scoring
from lookalike.evaluation.count_shards import Search, ShardSearch, tallies
from lookalike.evaluation.needs import Needs
from lookalike.evaluation.relevance import UNJUDGED, Groups, Judged, Relevance
from lookalike.evaluation.results import Evaluation, Score
from lookalike.evaluation.tally import NO_DISTANCE, Tally, concatenate
from lookalike.metrics.metric import Metric, parse_all
from lookalike.metrics.registry import KEPT
from lookalike.metrics.values import Part, Values, joined
from lookalike.shards.gallery import Shards
from lookalike.shards.storage import Location

DEFAULT_METRICS = ("AP", "AP@1000", "nDCG@100", "P@100", "R@100")
UNDEFINED = ("zero", "skip", "error")
POLICIES = ("relevant", "irrelevant", "condensed", "error")  # for the unjudged
LEVELS = ("image", "product")
NO_CODES = "LGAP is a metric of codes: embeddings have no code space to fill"

logger = logging.getLogger("lookalike")
T = TypeVar("T")
Counter = counting.CodeCounter | scoring.ScoreCounter
Kind = tuple[str, int]

__all__ = ["DEFAULT_METRICS", "count", "count_scores", "evaluate", "evaluate_run", "evaluate_scores", "evaluate_tally"]


def evaluate(
    queries: Any,
    gallery: Any,
    relevance: Relevance,
    metrics: str | Iterable[str | Metric] = DEFAULT_METRICS,
    *,
    similarity: str | None = None,
    query_ids: Any = None,
    gallery_ids: Any = None,
    exclude: Any = None,
    level: str = "image",
    undefined: str | None = None,
    unjudged: str | None = None,
    threads: int | None = None,
    client: Any = None,
    partials: Any = None,
) -> Evaluation:
    """Evaluate a search: metrics of every query, expected, best and worst over all orders of tied items.

    queries, gallery: Codes, or float embeddings compared by `similarity`: "cosine" (the default), "dot" or "euclidean".
    The gallery may also be `la.Shards`, of either, which are read one at a time: with `client`, a distributed.Client,
    by the workers of a Dask cluster; `partials` is a folder or an address in which what each shard gives is kept, so
    that a job that died goes on.
    exclude: (query_groups, gallery_groups), items of the query's own group do not rank; or "self", the item with the
    query's own id. level: "product", a judgement is about every item of the judged item's group, which `exclude` gives.
    undefined: what a query without a value counts, "zero", "skip" or "error" (default: the metric's).
    unjudged: what an item that nobody judged counts, "irrelevant", "relevant", "condensed" (left out) or "error"
    (default: the metric's). threads: how many to use, all cores by default.

    >>> import lookalike as la
    >>> codes = la.Codes.pack([[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1]])
    >>> evaluate(codes, codes, la.same_label([0, 0, 1, 1], [0, 0, 1, 1]), ["AP", "P@2"], exclude="self")
    metric  expected    best   worst  undefined
    AP        0.8750  1.0000  0.7500          0
    P@2       0.5000  0.5000  0.5000          0
    4 queries, 4 items
    """
    wanted = _Wanted(metrics, undefined, unjudged)
    if isinstance(gallery, Shards):
        search, about = _search(queries, gallery, relevance, similarity, query_ids, gallery_ids, exclude, level)

        def counted(kind: Kind, metrics: list[Metric]) -> Iterator[Tally]:
            asked = replace(search, relevance=_with_negatives(relevance, kind)) if kind[0] != "judged" else search
            return tallies(
                ShardSearch(asked, _on(gallery, client), **_how(threads, partials)), wanted.needs(asked, metrics)
            )

        return wanted.of_tallies(counted, about, of_scores=gallery.n_bits is None)
    _check_in_memory(client, partials)
    counter, about = _counter(
        queries, gallery, relevance, similarity, query_ids, gallery_ids, exclude, wanted.radius, threads, level=level
    )
    return wanted.evaluate(counter, about, threads)


def evaluate_scores(
    scores: Any,
    relevance: Relevance,
    metrics: str | Iterable[str | Metric] = DEFAULT_METRICS,
    *,
    query_ids: Any = None,
    gallery_ids: Any = None,
    exclude: Any = None,
    level: str = "image",
    undefined: str | None = None,
    unjudged: str | None = None,
    threads: int | None = None,
) -> Evaluation:
    """Evaluate a matrix of scores (n_queries, n_gallery), higher is better; equal scores tie.

    >>> import lookalike as la
    >>> la.evaluate_scores([[3, 1, 1]], la.grades([[0, 1, 0]]), ["AP"])["AP"]
    AP 0.4167 (best 0.5000, worst 0.3333)
    """
    wanted = _Wanted(metrics, undefined, unjudged)
    counter, about = _score_counter(Scores(scores), relevance, query_ids, gallery_ids, exclude, level)
    return wanted.evaluate(counter, about, threads)


def evaluate_run(
    run: Mapping[Any, Mapping[Any, float]],
    relevance: Relevance,
    metrics: str | Iterable[str | Metric] = DEFAULT_METRICS,
    *,
    undefined: str | None = None,
    unjudged: str | None = None,
) -> Evaluation:
    """Evaluate a run, {query_id: {item_id: score}}, on judged pairs; every judged query counts, ranked or not.

    >>> import lookalike as la
    >>> qrels = la.judged([("q", "a", 1), ("q", "b", 0), ("q", "c", 1)])
    >>> la.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, qrels, ["AP", "R@2"])      # "c" was not found
    metric  expected    best   worst  undefined
    AP        0.5000  0.5000  0.5000          0
    R@2       0.5000  0.5000  0.5000          0
    1 queries, 2 items
    """
    if not isinstance(relevance, Judged):
        raise TypeError("a run is evaluated on judged pairs: pass la.judged(pairs) or la.read_qrels(path)")
    if not any(query in run for query in relevance.judgements):
        raise ValueError("the run ranks nothing for any of the judged queries: are these the right files?")
    wanted = _Wanted(metrics, undefined, unjudged)
    pairs = [f"{query}\t{item}\t{score!r}" for query, items in run.items() for item, score in items.items()]
    inputs = {"run": digest(np.array(sorted(pairs))), "relevance": relevance}
    about = {"inputs": inputs, "items": len({item for items in run.values() for item in items})}
    return wanted.of_tallies(lambda kind, _: [scoring.count_run(run, _with_negatives(relevance, kind))], about)


def evaluate_tally(
    tally: Tally,
    metrics: str | Iterable[str | Metric] = DEFAULT_METRICS,
    *,
    undefined: str | None = None,
    unjudged: str | None = None,
) -> Evaluation:
    """Evaluate a tally, such as the sum of the tallies of gallery shards."""
    if not isinstance(tally, Tally):
        raise TypeError(f"a tally is needed, got {type(tally).__name__}: la.count makes one")

    def counted(kind: Kind, _: list[Metric]) -> list[Tally]:
        if kind[0] != "judged":
            raise ValueError(
                f"a tally was counted with its own negatives: count with relevance.with_negatives({kind[0]!r}), then "
                f"evaluate without negatives={kind[0]!r}"
            )
        return [tally]

    about = {"inputs": tally.inputs, "items": int(tally.ranked.sum(1).max(initial=0))}
    return _Wanted(metrics, undefined, unjudged).of_tallies(counted, about)


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
        if isinstance(radius, bool) or not isinstance(radius, int | np.integer) or radius < 0:
            raise ValueError(f"radius must be a whole number from 0, got {radius!r}")
        radius = int(radius)
    if isinstance(gallery, Shards):
        if method != "auto":
            raise ValueError(f"how shards are counted is chosen by itself, got method={method!r}")
        if gallery.n_bits is None and (scores or radius is not None):
            raise ValueError("embeddings in shards are counted without the score of every item: pass scores=False")
        search, about = _search(queries, gallery, relevance, similarity, query_ids, gallery_ids, exclude, level)
        found = tallies(ShardSearch(search, _on(gallery, client), **_how(threads, partials)), Needs(radius))
        return _with_inputs(concatenate(list(found)), about)
    _check_in_memory(client, partials)
    counter, about = _counter(
        queries, gallery, relevance, similarity, query_ids, gallery_ids, exclude, radius, threads, method, level
    )
    if isinstance(counter, scoring.ScoreCounter):
        counter.keep_scores = scores
    elif radius is not None:
        counter.keep_ball = True
    return _with_inputs(concatenate(_map_blocks(counter, threads, lambda tally: tally)), about)


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
    counter, about = _score_counter(Scores(matrix), relevance, query_ids, gallery_ids, exclude, level, method)
    counter.keep_scores = scores
    return _with_inputs(concatenate(_map_blocks(counter, threads, lambda tally: tally)), about)


class _Wanted:
    """Metrics to compute and what to do with the undefined and the unjudged."""

    def __init__(self, metrics: str | Iterable[str | Metric], undefined: str | None, unjudged: str | None) -> None:
        self.metrics = parse_all(metrics)
        self.undefined = _choice("undefined", undefined, UNDEFINED)
        self.unjudged = _choice("unjudged", unjudged, POLICIES)
        radii = [metric.cutoff for metric in self.metrics if metric.measure.cutoff == "radius"]
        self.radius = max((radius for radius in radii if radius is not None), default=None)
        self.by_kind: dict[Kind, list[Metric]] = {}  # metrics of the same negatives are of the same counts
        for metric in self.metrics:
            self.by_kind.setdefault(_kind(metric), []).append(metric)

    def policy(self, metric: Metric) -> str:
        """What unjudged items count for a metric."""
        own = metric.measure.unjudged
        return own if own == KEPT else self.unjudged or own

    def evaluate(self, counter: Counter, about: dict[str, Any], threads: int | None) -> Evaluation:
        found: dict[Metric, Part] = {}
        for kind, metrics in self._runs(isinstance(counter, scoring.ScoreCounter)):
            mine = counter
            if kind[0] != "judged":
                mine = replace(counter, relevance=_with_negatives(counter.relevance, kind))
            if isinstance(mine, scoring.ScoreCounter):
                self._keep_what_is_needed(mine, metrics)
            blocks = _map_blocks(mine, threads, partial(self._parts, metrics))
            found |= zip(metrics, map(joined, zip(*blocks, strict=True)), strict=True)
        return self._evaluation(found, counter.query_ids, about)

    def _runs(self, of_scores: bool) -> Iterator[tuple[Kind, list[Metric]]]:
        """Metrics that are of the same counts. Of scores, a radius needs groups that others would be rounded by."""
        for kind, metrics in self.by_kind.items():
            with_radius = [metric for metric in metrics if of_scores and metric.options().get("radius") is not None]
            others = [metric for metric in metrics if metric not in with_radius]
            yield from ((kind, some) for some in (others, with_radius) if some)

    def of_tallies(
        self,
        counted: Callable[[Kind, list[Metric]], Iterable[Tally]],
        about: dict[str, Any],
        *,
        of_scores: bool = False,
    ) -> Evaluation:
        """Evaluate the tallies of all queries, block by block, that `counted` gives for some metrics."""
        found: dict[Metric, Part] = {}
        for kind, metrics in self._runs(of_scores):
            ids, blocks = [], []
            for tally in counted(kind, metrics):
                ids.append(tally.query_ids)
                blocks.append(self._parts(metrics, tally))
            found |= zip(metrics, map(joined, zip(*blocks, strict=True)), strict=True)
        return self._evaluation(found, np.concatenate(ids), about)

    def needs(self, search: Search, metrics: list[Metric]) -> Needs:
        """What metrics need of the tally of a gallery in shards."""
        if isinstance(search.queries, Codes):
            return Needs(self.radius)
        if self.radius is not None:
            raise ValueError(NO_CODES)
        micro = [metric for metric in metrics if metric.micro]
        if micro and not (isinstance(search.relevance, Judged) and all(self.policy(m) == "condensed" for m in micro)):
            raise ValueError(
                f"{micro[0]} compares every score of every query: of embeddings in shards it is for judged pairs alone"
            )
        radii = [radius for metric in metrics if (radius := metric.options().get("radius")) is not None]
        if radii and search.similarity != "euclidean":
            raise ValueError(NO_DISTANCE)
        # left out, unjudged items bring others up from below; relevant, their groups count as far down as they go
        cut = [m.cutoff for m in metrics if m.cutoff is not None and self.policy(m) not in ("condensed", "relevant")]
        k = max(cut) if len(cut) == len(metrics) else None
        return Needs(k=k, marks=bool(micro), distances=tuple(sorted(set(radii))))

    def _keep_what_is_needed(self, counter: scoring.ScoreCounter, metrics: list[Metric]) -> None:
        """Scores that some metric needs: of every group, or of those that hold a judged item."""
        micro = [metric for metric in metrics if metric.micro]
        judged_alone = counter.relevance.background == UNJUDGED and all(self.policy(m) == "condensed" for m in micro)
        radius = any(metric.options().get("radius") is not None for metric in metrics)
        counter.keep_scores = radius or (bool(micro) and not judged_alone)
        counter.keep_marks = bool(micro)

    def _parts(self, metrics: list[Metric], tally: Tally) -> list[Part]:
        policies = {self.policy(metric) for metric in metrics}
        if "error" in policies and tally.unjudged.any():
            query = np.flatnonzero(tally.unjudged.any(1))[0]
            items = int(tally.unjudged[query].sum())
            raise ValueError(
                f"nobody judged {items} of the items ranked for query {_show(tally.query_ids[query])}: "
                "say what they count with unjudged='irrelevant' or unjudged='condensed' (left out)"
            )
        tallies = {p: tally if p in ("error", KEPT) else tally.with_unjudged(p) for p in policies}
        return [metric.part(tallies[self.policy(metric)]) for metric in metrics]

    def _evaluation(self, found: dict[Metric, Part], query_ids: np.ndarray, about: dict[str, Any]) -> Evaluation:
        scores = {metric: self._score(metric, found[metric].settled(), query_ids) for metric in self.metrics}
        unjudged = {str(metric): self.policy(metric) for metric in self.metrics}
        policies = {
            "undefined": self.undefined or "default",
            "unjudged": unjudged if len(set(unjudged.values())) > 1 else next(iter(unjudged.values())),
        }
        return Evaluation(scores, query_ids, about | policies)

    def _score(self, metric: Metric, values: Values, query_ids: np.ndarray) -> Score:
        policy = self.undefined or metric.measure.undefined
        nothing = np.isnan(values.expected)
        if policy == "error" and nothing.any():
            query = _show(query_ids[np.flatnonzero(nothing)[0]])
            raise ValueError(f"{metric} is undefined for {nothing.sum()} queries, first for {query}")
        filler = 0.0 if policy == "zero" else np.nan
        return Score(metric, Values(*(np.where(nothing, filler, part) for part in values)), int(nothing.sum()))


def _kind(metric: Metric) -> Kind:
    """Which negatives a metric is of, and, where judged ones are replaced, the least grade that is none of them."""
    options = metric.options()
    negatives = options.get("negatives", "judged")
    return negatives, options["rel"] if negatives == "sampled" else 1


def _with_negatives(relevance: Relevance, kind: Kind) -> Judged:
    if not isinstance(relevance, Judged):
        raise ValueError(f"negatives={kind[0]!r} is for judged pairs: pass la.judged(pairs, sampled=…) as relevance")
    return relevance.with_negatives(*kind)


def _counter(
    queries: Any,
    gallery: Any,
    relevance: Relevance,
    similarity: str | None,
    query_ids: Any,
    gallery_ids: Any,
    exclude: Any,
    radius: int | None,
    threads: int | None,
    method: str = "auto",
    level: str = "image",
) -> tuple[Counter, dict[str, Any]]:
    if isinstance(queries, Codes) != isinstance(gallery, Codes):
        raise TypeError("queries and gallery must both be Codes or both embeddings")
    if not isinstance(queries, Codes):
        if radius is not None:
            raise ValueError(NO_CODES)
        _warn_of_bits(queries, gallery)
        similarity = similarity or "cosine"
        embeddings = Embeddings(queries, gallery, similarity)
        by_score, about = _score_counter(embeddings, relevance, query_ids, gallery_ids, exclude, level, method)
        about["inputs"] |= {"queries": digest(as_numpy(queries)), "gallery": digest(as_numpy(gallery))}
        return by_score, about | {"similarity": similarity}
    if similarity is not None:
        raise ValueError(f"codes are compared by Hamming distance: similarity={similarity!r} is for embeddings")
    ids, bound, excluded = _prepare(len(queries), len(gallery), relevance, query_ids, gallery_ids, exclude, level)
    _choice("method", method, counting.METHODS)
    counter = counting.CodeCounter(queries, gallery, bound, ids, excluded, method, radius, threads=n_threads(threads))
    # fingerprinted when they are saved
    inputs: dict[str, Any] = {"queries": queries, "gallery": gallery, "relevance": relevance}
    inputs |= _noted(gallery_ids, exclude, excluded, level)
    return counter, {"inputs": inputs, "items": len(gallery), "bits": gallery.n_bits}


def _search(
    queries: Any,
    shards: Shards,
    relevance: Relevance,
    similarity: str | None,
    query_ids: Any,
    gallery_ids: Any,
    exclude: Any,
    level: str,
) -> tuple[Search, dict[str, Any]]:
    """What is asked of a gallery in shards, checked as far as that can be without reading them."""
    if isinstance(queries, Codes) != (shards.n_bits is not None):
        raise TypeError("queries and gallery must both be Codes or both embeddings")
    if isinstance(queries, Codes):
        if queries.n_bits != shards.n_bits:
            raise ValueError(
                f"gallery codes have {shards.n_bits} bits, queries have {queries.n_bits}: "
                "encode both with the same hasher"
            )
        if similarity is not None:
            raise ValueError(f"codes are compared by Hamming distance: similarity={similarity!r} is for embeddings")
    else:
        queries = as_floats(queries, "query embeddings")
        queries = queries.astype(np.result_type(queries, shards.dtype), copy=False)  # as they are compared in memory
        similarity = similarity or "cosine"
        Embeddings(queries, np.ones((1, shards.width), queries.dtype), similarity)  # raises where they differ
    if not len(queries):
        raise ValueError("there are no queries")
    if not isinstance(relevance, Relevance):
        raise TypeError(f"relevance must come from la.same_label, la.judged, …, got {type(relevance).__name__}")
    if level != "image":
        raise ValueError("judgements are inherited from item to item in memory: use relevance.inherited, then shards")
    sizes = (len(queries), len(shards))
    if relevance.n_queries not in (-1, sizes[0]) or relevance.n_gallery not in (-1, sizes[1]):
        raise ValueError(
            f"relevance is for {relevance.n_queries} queries and {relevance.n_gallery} items, "
            f"but there are {sizes[0]} queries and {sizes[1]} items"
        )
    if isinstance(relevance, Judged):
        relevance.check_queries(np.asarray(_ids(query_ids, sizes[0], "query_ids")))
    if gallery_ids is not None and not isinstance(gallery_ids, Column):
        raise TypeError("ids of a gallery in shards are a column of it: gallery_ids=shards['ids']")
    ids = np.asarray(_ids(query_ids, sizes[0], "query_ids"))
    left_out: tuple[np.ndarray, Any] | None = None
    if isinstance(exclude, tuple | list) and len(exclude) == 2 and isinstance(exclude[1], Column):
        left_out = as_numpy(exclude[0]), exclude[1]
        if len(left_out[0]) != sizes[0]:
            raise ValueError(f"exclude has groups of {len(left_out[0])} queries, but there are {sizes[0]}")
    elif isinstance(exclude, str):
        _check_self(exclude, *sizes, by_position=query_ids is None and gallery_ids is None)
        left_out = ids, None
    elif exclude is not None:
        groups = _groups(exclude, *sizes)
        left_out = groups.queries, groups.gallery
    search = Search(queries, ids, relevance, gallery_ids, left_out, similarity)
    for name in search.columns:
        _ = shards[name]  # raises where it is not there
    noted = {} if gallery_ids is not None else {"gallery_ids": "positions"}
    if left_out is not None:
        noted["exclude"] = exclude if isinstance(exclude, str) else digest(left_out[0])
    inputs: dict[str, Any] = {"queries": queries if isinstance(queries, Codes) else digest(queries)}
    inputs |= {"gallery": shards, "relevance": relevance} | noted
    about: dict[str, Any] = {"inputs": inputs, "items": len(shards)}
    about |= {"bits": shards.n_bits} if shards.n_bits is not None else {"similarity": similarity}
    return search, about


def _on(gallery: Shards, client: Any) -> Shards:
    return gallery if client is None else gallery.on(client)


def _how(threads: int | None, partials: Any) -> dict[str, Any]:
    return {"threads": n_threads(threads), "partials": None if partials is None else Location.of(partials)}


def _check_in_memory(client: Any, partials: Any) -> None:
    if client is not None or partials is not None:
        raise ValueError(
            "client and partials are for a gallery in shards: lookalike shard writes one, la.Shards.open opens it"
        )


def _noted(gallery_ids: Any, exclude: Any, excluded: Groups | None, level: str) -> dict[str, Any]:
    """What else a number depends on, to be kept with it."""
    noted = {"gallery_ids": "positions"} if gallery_ids is None else {}
    if level != "image":
        noted["level"] = level
    if excluded is not None:
        noted["exclude"] = exclude if isinstance(exclude, str) else digest(excluded.queries, excluded.gallery)
    return noted


def _warn_of_bits(*vectors: Any) -> None:
    """Codes that were not packed are evaluated as embeddings, which is seldom meant."""
    if all(array.ndim == 2 and np.isin(array[:100], (-1, 0, 1)).all() for array in map(as_numpy, vectors)):
        logger.warning("these embeddings look like bits: to evaluate codes, pass la.Codes.pack(bits)")


def _score_counter(
    scores: Any, relevance: Relevance, query_ids: Any, gallery_ids: Any, exclude: Any, level: str, method: str = "auto"
) -> tuple[scoring.ScoreCounter, dict[str, Any]]:
    _choice("method", method, scoring.METHODS)
    ids, bound, excluded = _prepare(
        scores.n_queries, scores.n_gallery, relevance, query_ids, gallery_ids, exclude, level
    )
    inputs = {"relevance": relevance} | _noted(gallery_ids, exclude, excluded, level)
    if isinstance(scores, Scores):
        inputs["scores"] = digest(scores.matrix)
    about = {"inputs": inputs, "items": scores.n_gallery}
    return scoring.ScoreCounter(scores, bound, ids, excluded, method), about


def _prepare(
    n_queries: int, n_gallery: int, relevance: Relevance, query_ids: Any, gallery_ids: Any, exclude: Any, level: str
) -> tuple[np.ndarray, Relevance, Groups | None]:
    for n, what in ((n_queries, "there are no queries"), (n_gallery, "the gallery is empty")):
        if n == 0:
            raise ValueError(what)
    if not isinstance(relevance, Relevance):
        raise TypeError(
            f"relevance must come from la.same_label, la.grades, la.judged, …, got {type(relevance).__name__}"
        )
    ids = np.asarray(_ids(query_ids, n_queries, "query_ids"))
    items = _ids(gallery_ids, n_gallery, "gallery_ids")
    excluded = _excluded(exclude, ids, items, query_ids is None and gallery_ids is None)
    if _choice("level", level, LEVELS) == "product":
        if excluded is None or isinstance(exclude, str):
            raise ValueError(
                "level='product' needs to know which items are of one product: exclude=(query_groups, gallery_groups)"
            )
        if not isinstance(relevance, Judged):
            raise ValueError("level='product' is for judged pairs: other relevance is given for every item")
        relevance = relevance.inherited(items, excluded.gallery)
    return ids, relevance.bound(ids, items), excluded


def _ids(ids: Any, n: int, what: str) -> np.ndarray | range:
    if ids is None:
        return range(n)  # positions, without writing them down
    ids = as_numpy(ids)
    if ids.shape != (n,):
        raise ValueError(f"{what} must be {n} ids, one for each, got shape {ids.shape}")
    ids = id_array(ids, what)
    values, counts = np.unique(ids, return_counts=True)
    if len(values) < n:
        raise ValueError(f"{what} must differ, {_show(values[counts > 1][0])} occurs {counts.max()} times")
    return ids


def _excluded(exclude: Any, ids: np.ndarray, items: np.ndarray | range, by_position: bool) -> Groups | None:
    if exclude is None:
        return None
    if isinstance(exclude, str):
        _check_self(exclude, len(ids), len(items), by_position=by_position)
        return Groups(ids, items, "ids")
    return _groups(exclude, len(ids), len(items))


def _check_self(exclude: str, n_queries: int, n_items: int, *, by_position: bool) -> None:
    if exclude != "self":
        raise ValueError(f"exclude must be (query_groups, gallery_groups) or 'self', got {exclude!r}")
    if by_position and n_queries != n_items:
        raise ValueError(
            f"exclude='self' needs query_ids and gallery_ids: {n_queries} queries are not the {n_items} items"
        )


def _groups(exclude: Any, n_queries: int, n_items: int) -> Groups:
    if not isinstance(exclude, tuple | list) or len(exclude) != 2:
        raise TypeError("exclude must be (query_groups, gallery_groups) or 'self'")
    groups = Groups(exclude[0], exclude[1], "groups to exclude")
    if (len(groups.queries), len(groups.gallery)) != (n_queries, n_items):
        raise ValueError(
            f"exclude has groups of {len(groups.queries)} queries and {len(groups.gallery)} items, "
            f"but there are {n_queries} and {n_items}"
        )
    return groups


def _map_blocks(counter: Counter, threads: int | None, function: Callable[[Tally], T]) -> list[T]:
    """Count blocks of queries, and use each tally at once, so that memory does not grow with the queries."""
    n = len(counter.query_ids)
    workers = n_threads(threads)
    if isinstance(counter, counting.CodeCounter):
        row = (counter.n_bits + 1) * (counter.relevance.max_grade + 2) * 8
        size = max(8, min(-(-n // workers), (1 << 25) // row))
        size = -(-size // 8) * 8
    else:
        size = counter.block_rows
    blocks = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    if workers == 1 or len(blocks) == 1:
        return list(track((function(counter(block)) for block in blocks), len(blocks), "evaluating"))
    with ThreadPoolExecutor(workers) as pool:
        return list(track(pool.map(lambda block: function(counter(block)), blocks), len(blocks), "evaluating"))


def _with_inputs(tally: Tally, about: dict[str, Any]) -> Tally:
    tally.inputs.update(about["inputs"])
    return tally


def _choice(name: str, value: str | None, choices: tuple[str, ...]) -> str | None:
    if value is not None and value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def _show(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)
