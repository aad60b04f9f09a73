"""What shorter codes cost: bits against quality, memory and speed."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.kernels import prepare_hashing
from lookalike.core.progress import report, track
from lookalike.evaluation.relevance import Relevance, judged
from lookalike.evaluation.results import Score
from lookalike.search.index import Index
from lookalike.study.survey.data import Interval, SurveyData
from lookalike.study.survey.retrieval import ItemSearch, Retrieval, search_again

if TYPE_CHECKING:
    from lookalike.hashers import Hasher

K = 10  # nearest items that codes should find again
FITTED = 20_000  # items that a hasher learns from
TIMED = 0.05  # seconds of searching to time, at least
LENGTHS = (32, 64, 128)  # bits of the codes that are tried by default
NAN = float("nan")

__all__ = ["StorageOption", "Tradeoff", "default_hashers", "weigh"]


@dataclass(frozen=True)
class StorageOption:
    """One way to store a collection: what it keeps of the embeddings' order, how large it is, how fast it is."""

    name: str
    n_bits: int | None  # None: the embeddings themselves
    bytes: int  # an item
    agreement: float  # share of the K first that are as near as the K-th by the embeddings, expected over ties
    agreement_interval: Interval
    quality: float  # AP by the labels; nan without
    quality_interval: Interval
    per_second: float = NAN  # queries, by exact search on one core
    stored: bool = False  # whether it is a model of the study

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values."""
        intervals = {"agreement_interval": self.agreement_interval, "quality_interval": self.quality_interval}
        return vars(self) | {name: list(interval) for name, interval in intervals.items()}


@dataclass(frozen=True)
class Tradeoff:
    """Bits against quality, memory and speed, for hashers of one model's embeddings."""

    model: str
    similarity: str
    label: str | None  # of the AP
    k: int
    queries: int  # for the agreement
    options: list[StorageOption]
    left_out: list[tuple[str, str]]  # hashers that could not be tried, and why

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values."""
        left_out = [{"hasher": name, "why": why} for name, why in self.left_out]
        return vars(self) | {"options": [option.to_dict() for option in self.options], "left_out": left_out}


def default_hashers(seed: int) -> list[tuple[str, "Hasher"]]:
    """The hashers that are tried if none are named."""
    from lookalike.hashers import make

    return [("ITQ", make("ITQ", n_bits, seed)) for n_bits in LENGTHS]


@dataclass(frozen=True, eq=False)
class _Way:
    """Embeddings or codes of all items, one way to store them."""

    name: str
    gallery: Any
    stored: bool  # whether it is a model of the study


def weigh(
    data: SurveyData, model: str, hashers: Sequence[tuple[str, "Hasher"]], retrieval: Sequence[Retrieval]
) -> Tradeoff:
    """Compare the embeddings of a model with codes of them. retrieval: the first gives the labels for the AP."""
    prepare_hashing()
    n_items = len(data.catalogue)
    embeddings, similarity = data.vectors[model].gallery, str(data.vectors[model].similarity)
    index = Index.build(embeddings, similarity=similarity, kind="exact")
    k = min(K, n_items - 1)
    queries = np.sort(data.rng.choice(n_items, min(data.n_queries, n_items), replace=False))
    nearest = _nearest_are_relevant(index, queries, k, data.catalogue.ids)
    agreement = ItemSearch(queries, nearest, data.catalogue.ids, None, data.threads)
    by_label = search_again(retrieval[0], data) if retrieval else None
    measure = _Measure(agreement, by_label, k, similarity)
    hashed, left_out = _hash(embeddings, hashers, _labels_to_learn(data), data.rng)
    ways = [_Way("embeddings", embeddings, stored=True), *_stored_codes(data, model), *hashed]
    options = [measure(way) for way in track(ways, len(ways), "weighing codes")]
    indexes = [index, *(Index.build(way.gallery, kind="exact") for way in ways[1:])]
    report("timing searches", 0, 1)
    speeds = _per_second(indexes, k)
    report("timing searches", 1, 1)
    timed = [replace(option, per_second=speed) for option, speed in zip(options, speeds, strict=True)]
    label = retrieval[0].label if retrieval else None
    return Tradeoff(model, similarity, label, k, len(queries), timed, left_out)


def _stored_codes(data: SurveyData, source: str) -> list[_Way]:
    """The models of the study with codes of the embeddings of another."""
    return [
        _Way(name, stored.gallery, stored=True)
        for name, stored in data.vectors.items()
        if stored.recipe is not None and stored.recipe.source == source and isinstance(stored.gallery, Codes)
    ]


def _labels_to_learn(data: SurveyData) -> np.ndarray | None:
    """Labels for hashers that learn from them."""
    categories: np.ndarray | None = data.catalogue.categories
    return categories if categories is not None else data.catalogue.identities


def _hash(
    embeddings: Any,
    hashers: Sequence[tuple[str, "Hasher"]],
    labels: np.ndarray | None,
    rng: np.random.Generator,
) -> tuple[list[_Way], list[tuple[str, str]]]:
    """Codes by each hasher, and the hashers that could not be tried with the reason."""
    training = np.sort(rng.choice(len(embeddings), min(FITTED, len(embeddings)), replace=False))
    ways: list[_Way] = []
    left_out: list[tuple[str, str]] = []
    for name, hasher in track(hashers, len(hashers), "trying hashers"):
        try:
            if not hasattr(hasher, "n_features_in_"):
                hasher.fit(embeddings[training], None if labels is None else labels[training])
            ways.append(_Way(name, hasher.transform(embeddings), stored=False))
        except ValueError as error:  # such as more bits than the data can give; scikit-learn has no type of its own
            left_out.append((f"{name} at {hasher.n_bits} bits", str(error)))
    return ways, left_out


def _nearest_are_relevant(index: Index, queries: np.ndarray, k: int, ids: np.ndarray) -> Relevance:
    """Relevant is what is as near as the k-th nearest item, or nearer: k items, more if some tie with the k-th."""
    rows: list[tuple[str, str, int]] = []
    for start in range(0, len(queries), 256):
        block = queries[start : start + 256]
        vectors: Any = index.items[block]
        nearest = index.search(vectors, k + 1)
        itself = nearest.items == block[:, None]
        # an item that ties with the query may have pushed it out of the first k + 1
        last = np.where(itself.any(1), nearest.distances[:, -1], nearest.distances[:, -2])
        reach = int(index.count_within(vectors, last).max())
        nearest = index.search(vectors, reach)
        for query, items, scores, least in zip(block, nearest.items, nearest.distances, last, strict=True):
            relevant = items[(scores >= least) & (items != query)]
            rows += [(str(ids[query]), name, 1) for name in ids[relevant].tolist()]
    return judged(rows)


@dataclass(frozen=True, eq=False)
class _Measure:
    """Measures how good and how large a way to store the collection is."""

    agreement: ItemSearch
    by_label: ItemSearch | None
    k: int
    similarity: str

    def __call__(self, way: _Way) -> StorageOption:
        gallery, precision = way.gallery, f"P@{self.k}"
        is_code = isinstance(gallery, Codes)
        kept = self.agreement.evaluate(gallery, [precision], self.similarity, unjudged="irrelevant")[precision]
        ap = None if self.by_label is None else self.by_label.evaluate(gallery, ["AP"], self.similarity)["AP"]
        return StorageOption(
            way.name,
            gallery.n_bits if is_code else None,
            -(-gallery.n_bits // 8) if is_code else gallery.shape[1] * gallery.dtype.itemsize,
            kept.mean,
            kept.interval(),
            *_mean_and_interval(ap),
            stored=way.stored,
        )


def _mean_and_interval(score: Score | None) -> tuple[float, Interval]:
    return (NAN, (NAN, NAN)) if score is None else (score.mean, score.interval())


def _per_second(indexes: Sequence[Index], k: int) -> list[float]:
    """How many queries each index answers in a second, on one core, all searching by turns: the best of five turns."""
    batches = [_queries_to_time(index, k) for index in indexes]
    best = [0.0] * len(indexes)
    for _ in range(5):
        for position, (index, queries) in enumerate(zip(indexes, batches, strict=True)):
            best[position] = max(best[position], len(queries) / _seconds(index, queries, k))
    return best


def _queries_to_time(index: Index, k: int) -> Any:
    """So many queries that their search takes long enough to be timed."""
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
