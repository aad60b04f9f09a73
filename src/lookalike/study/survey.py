"""A survey: what is in a collection, near-duplicates, look-alikes, which model finds what, what shorter codes cost."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.kernels import bend_kernels, product_kernel
from lookalike.core.progress import report, track
from lookalike.evaluation.compare import Difference, compare
from lookalike.evaluation.evaluate import evaluate
from lookalike.evaluation.relevance import Relevance, judged, same_label
from lookalike.evaluation.results import Evaluation, Score
from lookalike.metrics.metric import Metric
from lookalike.search.index import Index
from lookalike.search.near_duplicates import Near, find_near

if TYPE_CHECKING:
    from lookalike.hashers import Hasher
    from lookalike.study.model import Stored
    from lookalike.study.study import Study

ITEMS = 200_000  # of which all pairs are compared
QUERIES = 1000  # items to search for
K = 10  # nearest items that codes should find again
FITTED = 20_000  # items that a hasher learns from
TIMED = 0.05  # seconds of searching to time, at least
BASELINES = ("pixels", "colour")  # encoders that a model should beat
METRICS = {"identity": ("Hit@1", "Hit@5", "RR", "AP"), "category": ("AP", f"P@{K}")}
LENGTHS = (32, 64, 128)

__all__ = ["Alike", "Option", "Retrieval", "Survey", "Tradeoff", "survey"]

Interval = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Alike:
    """Near-duplicates and look-alikes by one model; positions are those of the catalogue."""

    model: str
    near: Near
    compared: int  # items, all unless there are very many
    same_vectors: int  # items whose row or code another has too

    @property
    def unit(self) -> str:
        """In what distances are written: "bits", "cosine" or "distance"."""
        return self.near.unit


@dataclass(frozen=True, eq=False)
class Retrieval:
    """How well each model finds items of the query's own label; the query itself, and what it says, left out."""

    label: str  # "identity" or "category"
    queries: np.ndarray  # positions of the items that were searched for
    eligible: int  # items that have something to find, of which these were drawn
    without_identity: bool  # whether items of the query's own identity do not rank
    evaluations: dict[str, Evaluation]
    intervals: dict[str, dict[Metric, Interval]]
    lead: Difference | None  # of the best model over the second by the main metric

    @property
    def metrics(self) -> list[Metric]:
        """What was measured, the main metric first."""
        return list(next(iter(self.evaluations.values())))

    @property
    def main(self) -> Metric:
        """The metric that orders models."""
        return Metric.parse("AP")

    def ranking(self, metric: Metric | None = None) -> list[str]:
        """Models, the best first."""
        by = metric or self.main
        return sorted(self.evaluations, key=lambda model: -self.evaluations[model][by].mean)


@dataclass(frozen=True)
class Option:
    """One way to store a collection: what it keeps of the embeddings' order, what it takes, how fast it is."""

    name: str
    n_bits: int | None  # None: the embeddings themselves
    bytes: int  # an item
    agreement: float  # share of the K first that are as near as the K-th by the embeddings, expected over ties
    agreement_interval: Interval
    quality: float  # AP by the labels; nan without
    quality_interval: Interval
    per_second: float = float("nan")  # queries, by exact search on one core
    stored: bool = False  # whether it is a model of the study


@dataclass(frozen=True)
class Tradeoff:
    """Bits against quality, memory and speed, for hashers of one model's embeddings."""

    model: str
    similarity: str
    label: str | None  # of the AP
    k: int
    queries: int  # for the agreement
    options: list[Option]
    left_out: list[tuple[str, str]]  # hashers that could not be tried, and why


@dataclass(frozen=True, eq=False)
class Survey:
    """All that was found; `to_dict` has it as plain values."""

    title: str
    ids: np.ndarray
    identities: np.ndarray | None
    categories: np.ndarray | None
    models: dict[str, str]  # every model of the study, and what it is
    lead: str | None  # the model to show first
    alike: dict[str, Alike]
    across: str | None  # the label that look-alikes differ in
    retrieval: list[Retrieval]
    tradeoff: Tradeoff | None
    skipped: list[tuple[str, str]]  # files of the folder that are not among the items, and why
    same_files: int | None  # items whose file is byte for byte another's; None where that is not known
    missing: dict[str, str]  # why a part is missing: "near", "across", "retrieval" or "tradeoff"
    about: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values, items by their ids."""
        return {
            "title": self.title,
            "items": len(self.ids),
            "models": self.models,
            "same_files": self.same_files,
            "skipped": [{"file": file, "why": why} for file, why in self.skipped],
            "near_duplicates": {name: self._alike(found) for name, found in self.alike.items()},
            "retrieval": {found.label: _retrieval(found) for found in self.retrieval},
            "tradeoff": None if self.tradeoff is None else _tradeoff(self.tradeoff),
            "missing": self.missing,
            "about": self.about,
        }

    def _alike(self, found: Alike) -> dict[str, Any]:
        near = found.near
        groups = [
            {"items": self.ids[group.items].tolist(), "nearest": group.nearest, "farthest": group.farthest}
            for group in near.groups
        ]
        pairs, beyond = (
            [
                {"first": str(self.ids[pair.first]), "second": str(self.ids[pair.second]), "distance": pair.distance}
                for pair in found
            ]
            for found in (near.pairs, near.beyond)
        )
        facts = {"unit": near.unit, "limit": near.limit, "usual": near.usual, "compared": found.compared}
        facts |= {"same_vectors": found.same_vectors, "groups": groups, "across": self.across}
        return facts | {"pairs": pairs, "beyond": beyond}


def survey(
    study: "Study",
    *,
    near: Mapping[str, float] | None = None,
    hashers: Iterable[tuple[str, "Hasher"]] | None = None,
    model: str | None = None,
    pairs: int = 24,
    queries: int = QUERIES,
    seed: int = 0,
    threads: int | None = None,
) -> Survey:
    """Find out what is in the collection of a study.

    near: by model, up to which two items are near-duplicates, in bits, as cosine or as distance; by default one bit of
    16 of a code, or a quarter of the usual distance. hashers: names and hashers to compare on the embeddings of
    `model`, by default ITQ at 32, 64 and 128 bits on the model that is best by labels. pairs: look-alikes to list.
    queries: how many items are drawn to be searched for.
    """
    stored = {name: study.model(name) for name in study.models()}
    vectors = {name: found for name, found in stored.items() if found.gallery is not None}
    _check(study, vectors, near or {}, model, pairs, queries)
    catalogue, missing = study.catalogue, {}
    for name in stored.keys() - vectors.keys():
        missing[name] = "a run, which ranks the study’s queries only"
    rng = np.random.default_rng(seed)
    retrieval = _retrievals(catalogue, vectors, queries, rng, threads, missing)
    lead = _leading(vectors, retrieval)
    across, labels = _labels_across(catalogue)
    if across is None:
        missing["across"] = "Items have neither identities nor categories that differ, so none can be mistaken."
    chosen = _chosen(len(catalogue), rng)
    alike = {
        name: _alike(found, labels, (near or {}).get(name), pairs, chosen, seed) for name, found in vectors.items()
    }
    if not vectors:
        missing["near"] = "The study has no model with embeddings or codes."
    tradeoff = None
    base = model or next(
        (name for name in _ordered(vectors, retrieval) if not isinstance(vectors[name].gallery, Codes)), None
    )
    if base is None:
        missing["tradeoff"] = "No model has embeddings, which hashers learn from."
    elif len(catalogue) < 3:
        missing["tradeoff"] = "There are too few items to search."
    else:
        named = _default_hashers(seed) if hashers is None else list(hashers)
        tradeoff = _traded(study, vectors, base, named, retrieval, min(queries, len(catalogue)), rng, threads)
    about = {"seed": seed, "queries drawn": queries, "items compared": min(len(catalogue), ITEMS)}
    return Survey(
        study.name,
        catalogue.ids,
        catalogue.identities,
        catalogue.categories,
        {name: found.kind for name, found in stored.items()},
        lead,
        alike,
        across,
        retrieval,
        tradeoff,
        _skipped(study),
        _same_files(vectors),
        missing,
        about,
    )


def _check(
    study: "Study", vectors: Mapping[str, Any], near: Mapping[str, float], model: str | None, pairs: int, queries: int
) -> None:
    for name in [*near, *([model] if model is not None else [])]:
        if name not in vectors:
            study.model(name)  # raises for what there is not
            raise ValueError(f"the model {name!r} is a run: it has no embeddings or codes")
    if model is not None and isinstance(vectors[model].gallery, Codes):
        raise ValueError(f"the model {model!r} has codes already: hashers learn from embeddings")
    for name, limit in near.items():
        highest = 1.0 if vectors[name].similarity == "cosine" else np.inf
        if not 0 <= limit <= highest:
            raise ValueError(f"near-duplicates of {name!r} must be from 0 to {highest:g}, got {limit!r}")
    for what, value in (("pairs", pairs), ("queries", queries)):
        if value < 1:
            raise ValueError(f"{what} must be a whole number from 1, got {value!r}")


# Near-duplicates and look-alikes


def _alike(
    stored: "Stored", labels: np.ndarray | None, limit: float | None, pairs: int, chosen: np.ndarray | None, seed: int
) -> Alike:
    given: Any = stored.gallery
    if chosen is not None:
        given, labels = given[chosen], None if labels is None else labels[chosen]
    near = find_near(
        given, labels, similarity=stored.similarity, limit=limit, pairs=pairs, seed=seed,
        what=f"comparing items: {stored.name}",
    )  # fmt: skip
    return Alike(stored.name, near if chosen is None else _moved(near, chosen), len(given), _same_vectors(given))


def _chosen(n: int, rng: np.random.Generator) -> np.ndarray | None:
    """Positions of the items that are compared, None for all."""
    return np.sort(rng.choice(n, ITEMS, replace=False)) if n > ITEMS else None


def _moved(near: Near, chosen: np.ndarray) -> Near:
    """The same with positions of the catalogue."""
    groups = [replace(group, items=chosen[group.items]) for group in near.groups]
    pairs, beyond = (
        [replace(pair, first=int(chosen[pair.first]), second=int(chosen[pair.second])) for pair in found]
        for found in (near.pairs, near.beyond)
    )
    return replace(near, groups=groups, pairs=pairs, beyond=beyond)


def _same_vectors(vectors: Any) -> int:
    """How many items have the row of another."""
    rows = vectors.words if isinstance(vectors, Codes) else np.ascontiguousarray(vectors)
    return _repeated([row.tobytes() for row in rows])


def _skipped(study: "Study") -> list[tuple[str, str]]:
    """Files that were left out of a study that was made from a folder."""
    from lookalike.study.image_files import SKIPPED, read_files

    listed = study.path / "images.csv"
    if not listed.is_file():
        return []
    return [(file.path, file.reason) for file in read_files(listed).values() if file.state == SKIPPED]


def _same_files(vectors: Mapping[str, "Stored"]) -> int | None:
    contents = next((found.contents for found in vectors.values() if found.contents is not None), None)
    return None if contents is None else _repeated(contents.tolist())


def _repeated(values: Sequence[Any]) -> int:
    """How many values there are that another equals.

    >>> _repeated("abcaba")
    5
    """
    counts: dict[Any, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return sum(count for count in counts.values() if count > 1)


def _labels_across(catalogue: Any) -> tuple[str | None, np.ndarray | None]:
    """The label that look-alikes should share: the identity, else the category."""
    for name, labels in (("identity", catalogue.identities), ("category", catalogue.categories)):
        if labels is not None and len(np.unique(labels[labels != ""])) > 1:
            return name, labels
    return None, None


# Which model finds what


def _retrievals(
    catalogue: Any,
    vectors: Mapping[str, "Stored"],
    n: int,
    rng: np.random.Generator,
    threads: int | None,
    missing: dict[str, str],
) -> list[Retrieval]:
    """Finding the query's identity, and its category among other identities, as far as there are labels."""
    identities, categories = catalogue.identities, catalogue.categories
    if not vectors:
        return []
    out = []
    if identities is not None:
        eligible = np.flatnonzero(_sizes(identities) > 1)
        if len(eligible):
            out.append(_retrieved("identity", identities, None, catalogue, vectors, eligible, n, rng, threads))
    if categories is not None:
        others = _sizes(categories)
        if identities is not None:
            others = others - _sizes(np.char.add(np.char.add(identities, "\0 "), categories))
        else:
            others = others - 1
        eligible = np.flatnonzero((categories != "") & (others > 0))
        if len(eligible) and len(np.unique(categories)) > 1:
            out.append(_retrieved("category", categories, identities, catalogue, vectors, eligible, n, rng, threads))
    if not out:
        missing["retrieval"] = (
            "Items have neither identities of several images nor categories, so nobody can say what a search should "
            "find."
        )
    return out


def _sizes(labels: np.ndarray) -> np.ndarray:
    """Of each item, how many have its label."""
    _, places, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return np.asarray(counts[places])


def _retrieved(
    label: str,
    labels: np.ndarray,
    identities: np.ndarray | None,
    catalogue: Any,
    vectors: Mapping[str, "Stored"],
    eligible: np.ndarray,
    n: int,
    rng: np.random.Generator,
    threads: int | None,
) -> Retrieval:
    drawn = np.sort(rng.choice(eligible, min(n, len(eligible)), replace=False))
    search = _Search(drawn, same_label(labels[drawn], labels), catalogue.ids, identities, threads)
    evaluations = {
        name: search(stored.gallery, METRICS[label], stored.similarity)
        for name, stored in track(vectors.items(), len(vectors), f"finding the same {label}")
    }
    found = {
        name: {metric: score.interval() for metric, score in evaluation.scores.items()}
        for name, evaluation in evaluations.items()
    }
    return Retrieval(label, drawn, len(eligible), identities is not None, evaluations, found, _lead(evaluations))


@dataclass(frozen=True, eq=False)
class _Search:
    """Items searched for among all: what is relevant, and what does not rank."""

    queries: np.ndarray
    relevance: Relevance
    ids: np.ndarray
    identities: np.ndarray | None  # None: only the query itself does not rank
    threads: int | None

    def __call__(self, gallery: Any, metrics: Iterable[str], similarity: str | None, **options: Any) -> Evaluation:
        own = "self" if self.identities is None else (self.identities[self.queries], self.identities)
        if not isinstance(gallery, Codes):
            options["similarity"] = similarity
        return evaluate(
            gallery[self.queries], gallery, self.relevance, metrics, query_ids=self.ids[self.queries],
            gallery_ids=self.ids, exclude=own, threads=self.threads, **options,
        )  # fmt: skip


def _lead(evaluations: Mapping[str, Evaluation]) -> Difference | None:
    """How far the best model is ahead of the second by AP."""
    ranked = sorted(evaluations, key=lambda name: -evaluations[name]["AP"].mean)
    if len(ranked) < 2:
        return None
    ap = Metric.parse("AP")
    two = {
        name: Evaluation({ap: evaluations[name][ap]}, evaluations[name].query_ids, evaluations[name].about)
        for name in ranked[:2]
    }
    return compare(two, resamples=2000).differences[0]


def _ordered(vectors: Mapping[str, "Stored"], retrieval: Sequence[Retrieval]) -> list[str]:
    """Models, the best by labels first; without labels those that are more than a baseline."""
    if retrieval:
        return retrieval[0].ranking()

    def plain(name: str) -> tuple[bool, bool]:
        stored = vectors[name]
        return (stored.encoder or name) in BASELINES, isinstance(stored.gallery, Codes)

    return sorted(vectors, key=plain)


def _leading(vectors: Mapping[str, "Stored"], retrieval: Sequence[Retrieval]) -> str | None:
    return next(iter(_ordered(vectors, retrieval)), None)


# Bits against quality, memory and speed


def _default_hashers(seed: int) -> list[tuple[str, "Hasher"]]:
    from lookalike.hashers import make

    return [("ITQ", make("ITQ", n_bits, seed)) for n_bits in LENGTHS]


def _traded(
    study: "Study",
    vectors: Mapping[str, "Stored"],
    base: str,
    named: Sequence[tuple[str, "Hasher"]],
    retrieval: Sequence[Retrieval],
    n: int,
    rng: np.random.Generator,
    threads: int | None,
) -> Tradeoff:
    product_kernel(), bend_kernels()
    catalogue = study.catalogue
    embeddings, similarity = vectors[base].gallery, str(vectors[base].similarity)
    index = Index.build(embeddings, similarity=similarity, kind="exact")
    k = min(K, len(catalogue) - 1)
    drawn = np.sort(rng.choice(len(catalogue), n, replace=False))
    agreement = _Search(drawn, _neighbours(index, drawn, k, catalogue.ids), catalogue.ids, None, threads)
    by_label = retrieval[0] if retrieval else None
    measure = _Measure(agreement, _search_again(by_label, catalogue, threads), k, similarity)
    ways: list[tuple[str, Any, bool]] = [("embeddings", embeddings, True)]
    for name, found in vectors.items():
        if found.recipe is not None and found.recipe.source == base and isinstance(found.gallery, Codes):
            ways.append((name, found.gallery, True))
    codes, left_out = _hashed(embeddings, named, _taught(catalogue), rng)
    ways += [(name, found, False) for name, found in codes]
    options = [measure(*way) for way in track(ways, len(ways), "weighing codes")]
    indexes = [index, *(Index.build(found, kind="exact") for _, found, _ in ways[1:])]
    report("timing searches", 0, 1)
    speeds = _per_second(indexes, k)
    report("timing searches", 1, 1)
    timed = [replace(option, per_second=speed) for option, speed in zip(options, speeds, strict=True)]
    return Tradeoff(base, similarity, None if by_label is None else by_label.label, k, len(drawn), timed, left_out)


def _taught(catalogue: Any) -> np.ndarray | None:
    """Labels for hashers that learn from them."""
    found: np.ndarray | None = catalogue.categories if catalogue.categories is not None else catalogue.identities
    return found


def _hashed(
    embeddings: Any,
    named: Sequence[tuple[str, "Hasher"]],
    labels: np.ndarray | None,
    rng: np.random.Generator,
) -> tuple[list[tuple[str, Codes]], list[tuple[str, str]]]:
    """Codes by each hasher, and hashers that could not be tried with the reason."""
    fitted = np.sort(rng.choice(len(embeddings), min(FITTED, len(embeddings)), replace=False))
    made: list[tuple[str, Codes]] = []
    left_out: list[tuple[str, str]] = []
    for name, hasher in track(named, len(named), "trying hashers"):
        try:
            if not hasattr(hasher, "n_features_in_"):
                hasher.fit(embeddings[fitted], None if labels is None else labels[fitted])
            made.append((name, hasher.transform(embeddings)))
        except ValueError as error:  # such as more bits than the data can give
            left_out.append((f"{name} at {hasher.n_bits} bits", str(error)))
    return made, left_out


def _neighbours(index: Index, drawn: np.ndarray, k: int, ids: np.ndarray) -> Relevance:
    """Relevant is what is as near as the k-th nearest item, or nearer: k items, more where some tie with the k-th."""
    rows: list[tuple[str, str, int]] = []
    for start in range(0, len(drawn), 256):
        block = drawn[start : start + 256]
        queries: Any = index.items[block]
        found = index.search(queries, k + 1)
        itself = found.items == block[:, None]
        # an item that ties with the query may have pushed it out of the first k + 1
        last = np.where(itself.any(1), found.distances[:, -1], found.distances[:, -2])
        reach = int(index.count_within(queries, last).max())
        found = index.search(queries, reach)
        for query, items, scores, least in zip(block, found.items, found.distances, last, strict=True):
            near = items[(scores >= least) & (items != query)]
            rows += [(str(ids[query]), name, 1) for name in ids[near].tolist()]
    return judged(rows)


def _search_again(retrieval: Retrieval | None, catalogue: Any, threads: int | None) -> "_Search | None":
    if retrieval is None:
        return None
    labels = catalogue.column(retrieval.label)
    identities = catalogue.identities if retrieval.without_identity else None
    return _Search(retrieval.queries, same_label(labels[retrieval.queries], labels), catalogue.ids, identities, threads)


@dataclass(frozen=True, eq=False)
class _Measure:
    """How good, large and fast a way to store the collection is."""

    agreement: _Search
    by_label: _Search | None
    k: int
    similarity: str

    def __call__(self, name: str, gallery: Any, stored: bool) -> Option:
        is_code = isinstance(gallery, Codes)
        precision = f"P@{self.k}"
        kept = self.agreement(gallery, [precision], self.similarity, unjudged="irrelevant")[precision]
        ap = None if self.by_label is None else self.by_label(gallery, ["AP"], self.similarity)["AP"]
        return Option(
            name,
            gallery.n_bits if is_code else None,
            -(-gallery.n_bits // 8) if is_code else gallery.shape[1] * gallery.dtype.itemsize,
            kept.mean,
            kept.interval(),
            *_mean_and_interval(ap),
            stored=stored,
        )


def _per_second(indexes: Sequence[Index], k: int) -> list[float]:
    """How many queries each index answers in a second, on one core, all searching by turns: the best of five turns."""
    batches = [_enough(index, k) for index in indexes]
    best = [0.0] * len(indexes)
    for _ in range(5):
        for place, (index, queries) in enumerate(zip(indexes, batches, strict=True)):
            best[place] = max(best[place], len(queries) / _seconds(index, queries, k))
    return best


def _enough(index: Index, k: int) -> Any:
    """Queries that take long enough to be timed."""
    n = 8
    while True:
        queries: Any = index.items[np.arange(n) % len(index)]
        seconds = min(_seconds(index, queries, k) for _ in range(3))  # the first may find its memory cold
        if seconds >= TIMED or n >= 1 << 14:
            return queries
        n = min(1 << 14, max(2 * n, int(n * TIMED / seconds)))


def _seconds(index: Index, queries: Any, k: int) -> float:
    started = time.perf_counter()
    index.search(queries, k, threads=1)
    return max(time.perf_counter() - started, 1e-9)


def _mean_and_interval(score: Score | None) -> tuple[float, Interval]:
    if score is None:
        return float("nan"), (float("nan"), float("nan"))
    return score.mean, score.interval()


# As plain values


def _retrieval(found: Retrieval) -> dict[str, Any]:
    rows = [
        {"model": model, "metric": metric.label, "mean": score.mean, "best": score.best, "worst": score.worst}
        | dict(zip(("low", "high"), found.intervals[model][metric], strict=True))
        for model, evaluation in found.evaluations.items()
        for metric, score in evaluation.scores.items()
    ]
    facts = {"queries": len(found.queries), "eligible": found.eligible, "without_identity": found.without_identity}
    return facts | {"rows": rows}


def _tradeoff(found: Tradeoff) -> dict[str, Any]:
    options = [vars(option) | {"agreement_interval": list(option.agreement_interval)} for option in found.options]
    for option in options:
        option["quality_interval"] = list(option["quality_interval"])
    left_out = [{"hasher": name, "why": why} for name, why in found.left_out]
    return vars(found) | {"options": options, "left_out": left_out}
